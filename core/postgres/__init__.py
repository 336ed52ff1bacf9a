"""Data that many machines share in one Postgres: the ledger of calls, and the rows of batches. Needs the extra
``queue``.
"""
