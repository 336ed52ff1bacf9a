"""Analyses of the sources beside scores: inside debates, agreement of graders, weights of confidences."""
