"""The ledger of calls: it stores debates and the results of their calls. See `moot.core.ledger.calls`."""

from moot.core.ledger.calls import (
    CallLedger,
    Debate,
    DebateStart,
    Key,
    PruningResult,
    embeddings,
    key_of,
    ledger_path,
    open_ledger,
    use_ledger,
)
from moot.core.ledger.stored import StoredCall

__all__ = [
    "CallLedger",
    "Debate",
    "DebateStart",
    "Key",
    "PruningResult",
    "StoredCall",
    "embeddings",
    "key_of",
    "ledger_path",
    "open_ledger",
    "use_ledger",
]
