"""Chat models: their creation, prices and ceilings, the calls to them, and the parsing of their replies."""
