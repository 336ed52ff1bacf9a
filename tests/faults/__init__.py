"""Faults, caused in real processes. ``make faults`` causes them, and writes the table in docs/howto/faults.md."""
