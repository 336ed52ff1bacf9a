"""The agent with tools of ReAct."""
