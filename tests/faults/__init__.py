"""Faults of every class, with real parts; ``make faults`` arranges them and writes docs/howto/faults.md."""
