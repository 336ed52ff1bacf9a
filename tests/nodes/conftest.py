"""Hypothesis runs without a deadline, because the first example pays for imports."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("moot", deadline=None)
settings.load_profile("moot")
