"""Evaluate debates on benchmarks in the framework Inspect, and compare systems with paired tests.

Results state how many items are missing.

Each name is imported on its first use, because most are slow to import and some need the extra ``evals``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
