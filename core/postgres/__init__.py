"""Data that several machines share in one Postgres: the ledger of calls, the rows of batches, and endpoints' limits.

It needs the extra ``queue``.
"""
