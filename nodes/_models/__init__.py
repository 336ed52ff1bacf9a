"""Chat models: their creation, prices and calls, and the parsing of their replies."""
