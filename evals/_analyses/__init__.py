"""The papers' own analyses: figures from inside debates, agreement of graders, weights of confidences."""
