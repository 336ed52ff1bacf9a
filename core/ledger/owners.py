"""Whether the process of a debate is alive: each process that runs debates locks a file of its own.

The running debates of a process that has ended count as interrupted.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout
from moot.core.ledger.records import Status, is_id, new_id

_owned: set[str] = set()
"""The ids of this process as an owner; their locks need no test."""


class Owner:
    """This process as the owner of debates: an id and a lock.

    Args:
        ledger: the ledger's file.
    """

    def __init__(self, ledger: Path) -> None:
        self.id = ""
        """The owner's id; empty until the first debate begins."""
        self._folder = ledger.with_name("running")
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Locks this process's file, if it is not locked already, until `release` or the end of the process."""
        if self._lock is None:
            owner = new_id()
            lock = self._lock_of(owner)
            lock.parent.mkdir(exist_ok=True, mode=0o700)
            self._lock = FileLock(lock, mode=0o600, thread_local=False)
            self._lock.acquire()
            self.id = owner
            _owned.add(owner)

    def release(self) -> None:
        """Releases the lock: debates that have not ended become interrupted."""
        if self._lock is not None:
            self._lock.release()
            _owned.discard(self.id)
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock = None

    def status(self, status: Status, owner: str | None, alive: dict[str, bool] | None = None) -> Status:
        """The real status of a debate: ``interrupted`` if its row says ``running``, but its process has ended.

        Args:
            status: the status in the debate's row.
            owner: the owner in the debate's row.
            alive: a cache that is updated: for each owner, whether it is alive.
        """
        if status != "running":
            return status
        alive = {} if alive is None else alive
        owner = owner or ""
        if owner not in alive:
            alive[owner] = self._is_alive(owner)
        return "running" if alive[owner] else "interrupted"

    def _lock_of(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"

    def _is_alive(self, owner: str) -> bool:
        """Whether an owner's process is alive; if not, its lock file is removed."""
        if owner in _owned:
            return True
        path = self._lock_of(owner)
        if not is_id(owner) or not path.exists():
            return False
        try:
            with FileLock(path, timeout=0, mode=0o600):
                path.unlink(missing_ok=True)
        except Timeout:
            return True
        return False
