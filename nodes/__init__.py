"""The steps of a debate: each as a plain async function on plain values, and as a node for a graph of yours.

Functions take a chat model of LangChain. Node factories (``..._node``) read and write the state keys that their
docstrings name, or your own by ``.with_keys(reads, writes)``; they take their settings from the run's context or from
``.with_settings(Settings(...))``.
"""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
