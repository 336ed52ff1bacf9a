"""The speakers of a debate, the speakers that each of them hears, and how a round starts."""
