"""Sources of evidence, text encoders and corpora. All sources share one protocol."""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
