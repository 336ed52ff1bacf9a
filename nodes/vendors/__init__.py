"""Models of providers whose API moot does not speak itself: which there are, and how LangChain's clients are made."""
