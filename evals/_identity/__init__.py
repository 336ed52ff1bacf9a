"""What makes two runs of an evaluation the same run."""
