"""The debate systems; each is the attribute ``graph`` of a module: ``moot.graphs.<name>.graph``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
