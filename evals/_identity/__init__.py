"""The identity of a run. If the identity changes, an interrupted run is not resumed, but starts from the beginning."""
