"""Runs on Inspect: tasks, solver, scorers, controls, plans and logs."""
