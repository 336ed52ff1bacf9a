"""The server beside the LangGraph API: the local page, and access control."""
