"""The identity of a run. If it changes, an interrupted run is not resumed but run anew."""
