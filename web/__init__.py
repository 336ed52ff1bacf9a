"""The parts of the server that LangGraph does not have, such as the local page and access control."""
