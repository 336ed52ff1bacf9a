"""The text of debates, as data: for the command line, the web page and reports. Nothing is printed here."""

from moot.transcript.document import ending, lines
from moot.transcript.line import Line, Section
from moot.transcript.live import Live

__all__ = ["Line", "Live", "Section", "ending", "lines"]
