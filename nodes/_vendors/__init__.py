"""Models of providers whose API moot does not implement itself: the catalogue, and LangChain's clients."""
