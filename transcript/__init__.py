"""A debate in words, as data: sections and lines."""
