"""The steps of a debate as nodes. Some steps can also be called as plain functions."""
