"""Prompts, each in a Markdown file, e.g. ``tool_mad/query.md``."""

from moot.core.public import public_names

__getattr__, __dir__, __all__ = public_names(__name__, __file__)
