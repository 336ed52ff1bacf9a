"""A small language model inside this process, served like any other endpoint."""

from moot.embedded.server import MODEL_NAME, serve

__all__ = ["MODEL_NAME", "serve"]
