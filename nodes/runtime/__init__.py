"""What makes a step a node of a graph: settings, state, the builder of a debate, its first and last node, tracing."""
