"""The speakers of a debate, their inputs, and the start of rounds."""
