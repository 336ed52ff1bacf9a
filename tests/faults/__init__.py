"""Faults of every class, caused in real processes; ``make faults`` runs them and writes docs/howto/faults.md."""
