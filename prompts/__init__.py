"""Prompts as Markdown files, one a file: ``<graph>/<role>.md``."""

from moot.prompts.files import as_data, check_edited, fill, listed, load, placeholders, shipped

__all__ = ["as_data", "check_edited", "fill", "listed", "load", "placeholders", "shipped"]
