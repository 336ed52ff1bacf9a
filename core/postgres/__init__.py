"""Data that several machines share in one Postgres database.

The data are the store of replies, the debates of a server and the rows of batches. The extra ``queue`` must be
installed.
"""
