"""The agent of ReAct, which calls tools."""
