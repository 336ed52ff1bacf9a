"""Data that several machines share in one Postgres: the ledger of calls, and the rows of batches.

It needs the extra ``queue``.
"""
