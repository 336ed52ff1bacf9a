"""Data that several machines share in one Postgres database.

The data are the ledger of calls, the debates of a server, the rows of batches, and the limits of endpoints. The extra
``queue`` must be installed.
"""
