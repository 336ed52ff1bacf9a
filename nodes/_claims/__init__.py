"""Finds the claims of a text that can be checked, and rewrites them so that each can be read alone."""
