"""The debate systems; each is the attribute ``graph`` of a module: ``moot.graphs.<name>.graph``."""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
