"""Writes the text of debates as sections and lines, which the command line, the web page and reports display."""

from moot.transcript.document import ending, round_sections
from moot.transcript.line import Line, Section
from moot.transcript.live import Live

__all__ = ["Line", "Live", "Section", "ending", "round_sections"]
