"""The ledger of calls: debates, and the results of their calls, in one file; see `moot.core.ledger.calls`."""

from moot.core.ledger.calls import (
from moot.core.ledger.stored import StoredCall
    CallLedger,
    Debate,
    DebateStart,
    Key,
    PruningResult,
    StoredCall,
    embeddings,
    key_of,
    ledger_path,
    open_ledger,
    use_ledger,
)

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
