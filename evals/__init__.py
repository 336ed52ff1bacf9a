"""Measuring debates: benchmarks and runs on Inspect, measures that report missing items, intervals and paired tests.

Names are imported when they are first used: some need the extra ``evals``, and all are slow to import.
"""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
