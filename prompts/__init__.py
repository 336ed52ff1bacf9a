"""Prompts as Markdown files, one a file: ``<graph>/<role>.md``."""

from moot.prompts.load import as_data, fill, listed, load, placeholders

__all__ = ["as_data", "fill", "listed", "load", "placeholders"]
