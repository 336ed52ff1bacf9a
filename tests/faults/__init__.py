"""Faults of every class, with real parts; ``make faults`` runs them and writes docs/howto/faults.md."""
