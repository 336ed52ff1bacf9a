"""The ledger of calls: what debates were asked and what their calls gave, in one file; see `moot.core.ledger.calls`."""

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
