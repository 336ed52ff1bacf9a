"""CortexDebate's debating graph, the formula for the weights of its edges, and measures of finished debates."""
