"""Chat models: creating them, their prices, calls of them, and the parsing of their replies."""
