"""The identity of a run. If it changes, an interrupted run is not resumed: it starts from the beginning."""
