"""A small language model that runs in this process and is called like any other endpoint."""

from moot.embedded.server import MODEL_NAME, serve

__all__ = ["MODEL_NAME", "serve"]
