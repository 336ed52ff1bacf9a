"""Analyses of logs: figures of single debates, graders, the weight of votes in a confidence, and calibrations."""
