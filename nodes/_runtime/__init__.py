"""What all graphs share: settings, state, nodes, the builder of debate graphs, their first and last node, tracing."""
