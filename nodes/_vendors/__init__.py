"""Models that moot calls through LangChain's clients: the catalogue of their providers, and the clients."""
