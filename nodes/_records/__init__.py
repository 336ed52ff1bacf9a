"""The entries of a debate's lists, and the reducers of its state."""
