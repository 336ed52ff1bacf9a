"""The debate systems, one graph per module: ``moot.graphs.<name>.graph``."""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
