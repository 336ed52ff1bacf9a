"""Attacks on debate systems: injected instructions, poisoned passages, a lying debater; and their results."""
