"""Shared by all graphs: settings, state, nodes, the builder of a debate, its first and last node, tracing."""
