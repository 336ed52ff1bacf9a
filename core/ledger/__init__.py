"""The ledger of calls: debates, and the results of their calls, in one file; see `moot.core.ledger.calls`."""

from moot.core.ledger.calls import (
    Begun,
    CallLedger,
    Debate,
    Kept,
    Key,
    Pruned,
    embeddings,
    key_of,
    ledger_path,
    open_ledger,
    use_ledger,
)

__all__ = [
    "Begun",
    "CallLedger",
    "Debate",
    "Kept",
    "Key",
    "Pruned",
    "embeddings",
    "key_of",
    "ledger_path",
    "open_ledger",
    "use_ledger",
]
