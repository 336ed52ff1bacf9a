"""The entries of a debate's lists, and the reducers that merge them."""
