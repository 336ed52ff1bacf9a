"""Tells whether the process that runs a debate is still alive.

Each process that runs debates locks its own file. If the process has ended, its running debates count as interrupted.
"""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock, Timeout
from moot.core.ledger.records import Status, is_id, new_id

_own_ids: set[str] = set()
"""The ids of the owners in this process. These owners are alive, so their locks are not tested."""


class Owner:
    """This process as the owner of the debates that it runs, by an id and a locked file in the folder ``running``."""

    def __init__(self, ledger: Path) -> None:
        self.id = ""
        """The owner's id; empty until the first `acquire`."""
        self._folder = ledger.with_name("running")
        self._lock: FileLock | None = None

    def acquire(self) -> None:
        """Chooses the owner's id and locks its file until `release`, unless this has been done already."""
        if self._lock is None:
            owner = new_id()
            lock = self._lock_path(owner)
            lock.parent.mkdir(exist_ok=True, mode=0o700)
            self._lock = FileLock(lock, mode=0o600, thread_local=False)
            self._lock.acquire()
            self.id = owner
            _own_ids.add(owner)

    def release(self) -> None:
        """Releases the lock, if it is held; the owner's running debates then count as interrupted."""
        if self._lock is not None:
            self._lock.release()
            _own_ids.discard(self.id)
            Path(self._lock.lock_file).unlink(missing_ok=True)
            self._lock = None

    def status(self, status: Status, owner: str | None, alive: dict[str, bool] | None = None) -> Status:
        """The real status of a debate: ``interrupted`` if its row says ``running``, but its owner has ended."""
        if status != "running":
            return status
        # A cache, which the caller may keep: whether each owner is alive.
        alive = {} if alive is None else alive
        owner = owner or ""
        if owner not in alive:
            alive[owner] = self._is_alive(owner)
        return "running" if alive[owner] else "interrupted"

    def _lock_path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"

    def _is_alive(self, owner: str) -> bool:
        """Whether an owner's process is alive; the lock file of an ended process is removed."""
        if owner in _own_ids:
            return True
        path = self._lock_path(owner)
        if not is_id(owner) or not path.exists():
            return False
        try:
            with FileLock(path, timeout=0, mode=0o600):
                path.unlink(missing_ok=True)
        except Timeout:
            return True
        return False
