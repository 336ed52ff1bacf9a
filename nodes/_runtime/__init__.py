"""The parts that all graphs share: settings, state, nodes, the builder of a debate, its first and last node, tracing."""
