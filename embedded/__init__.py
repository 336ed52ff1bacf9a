"""A small language model in this process, which is called like any other endpoint."""

from moot.embedded.server import MODEL_NAME, serve

__all__ = ["MODEL_NAME", "serve"]
