"""The identity of a run: an interrupted run is resumed only by a run with the same identity."""
