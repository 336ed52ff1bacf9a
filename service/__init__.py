"""The server with several processes: LangGraph's API on Aegra, with Postgres and Redis; see ``moot service``."""
