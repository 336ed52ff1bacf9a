"""Evaluate debates with benchmarks, runs in the framework Inspect, measures that count missing items, and paired tests.

Each name is imported on its first use, because most are slow to import and some need the extra ``evals``.
"""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
