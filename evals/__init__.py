"""Evaluate debates on benchmarks in the framework Inspect. Measures count missing items; paired tests compare systems.

Each name is imported on its first use, because most are slow to import and some need the extra ``evals``.
"""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
