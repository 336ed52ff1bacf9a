"""Finds the checkable claims of a text, and rewrites each so that it can be understood without the text."""
