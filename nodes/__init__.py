"""The steps of a debate, as async functions on plain values and as nodes for your own graphs.

Functions that call a model take a chat model of LangChain. Factories (``..._node``) make the nodes. A node reads the
state keys that the docstring of its factory names; ``.with_keys(reads, writes)`` connects it to other keys. A node's
settings come from the run's context or from ``.with_settings(Settings(...))``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
