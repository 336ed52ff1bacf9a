"""The speakers of a debate, who hears whom, and how a round starts."""
