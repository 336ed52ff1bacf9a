"""The papers' own analyses: figures of single debates, agreement of graders, weights of confidences."""
