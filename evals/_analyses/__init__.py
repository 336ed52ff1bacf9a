"""Analyses: figures of single debates, agreement of graders, weights in a trial's confidence, calibrations."""
