"""A small language model inside this process, served like other endpoints."""

from moot.embedded.server import MODEL_NAME, serve

__all__ = ["MODEL_NAME", "serve"]
