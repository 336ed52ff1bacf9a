"""Sources of evidence, which share one protocol; text encoders; and corpora."""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
