"""The server's part that LangGraph does not have: the local page, and access control."""
