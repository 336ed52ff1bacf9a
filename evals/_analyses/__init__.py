"""Analyses: figures of single debates, agreement of graders, the weight of votes in a confidence, calibrations."""
