"""Debates in words, as data: the text that the command line, the page and reports show. Nothing is printed here."""

from moot.transcript.document import ending, lines
from moot.transcript.line import Line, Section
from moot.transcript.live import Live

__all__ = ["Line", "Live", "Section", "ending", "lines"]
