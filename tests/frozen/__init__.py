"""Frozen traffic: what every debate system sends to its models, and the documents that it returns.

`runs` lists the debates, `endpoint` answers them, `running` runs one, `record` stores and compares. The recordings are
in ``recorded/``; ``differences.jsonl`` has a line with a reason for each recording that replaced an earlier one.
"""
