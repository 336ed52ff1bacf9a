"""Temporary folders of killed processes are removed. Other folders, files and the targets of links stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from moot.core.own_folder import LOCK, own_folder, remove_abandoned

HOLD_FOLDER = """
import sys
from moot.core.own_folder import own_folder
with own_folder("moot-") as folder:
    (folder / "pickle").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""
"""A program that makes a temporary folder, prints its path, and keeps it until the end of the input."""


@pytest.fixture(autouse=True)
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files of this process and of the processes that it starts."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


@contextmanager
def process_with_folder() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Run `HOLD_FOLDER` in a process; yield the process and its folder. The process is killed at the end."""
    command = [sys.executable, "-c", HOLD_FOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_only_folders_of_killed_processes_are_removed(temporary_folder: Path) -> None:
    with process_with_folder() as (killed, abandoned), process_with_folder() as (_, in_use):
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (abandoned / "pickle").is_file()
        with own_folder("moot-") as own:
            assert set(temporary_folder.iterdir()) == {in_use, own}
    assert set(temporary_folder.iterdir()) == {in_use}  # still there, although its process has now been killed
    remove_abandoned("moot-")
    assert list(temporary_folder.iterdir()) == []


def test_links_files_and_folders_of_other_kinds_are_kept(temporary_folder: Path, tmp_path: Path) -> None:
    """A folder is kept if it has another prefix, if others may access it, or if its lock file is missing or a link."""
    precious = tmp_path / "precious"
    precious.mkdir(0o700)
    (precious / LOCK).touch()
    (temporary_folder / "moot-link").symlink_to(precious)
    (temporary_folder / "moot-file").touch(0o600)
    for name, mode in (("moot-new", 0o700), ("moot-open", 0o755), ("moot-trap", 0o700), ("other", 0o700)):
        (temporary_folder / name).mkdir(mode)
    for name in ("moot-open", "other"):
        (temporary_folder / name / LOCK).touch()
    (temporary_folder / "moot-trap" / LOCK).symlink_to(precious / LOCK)
    before = set(temporary_folder.iterdir())
    remove_abandoned("moot-")
    assert set(temporary_folder.iterdir()) == before
    assert (precious / LOCK).is_file()


def test_a_link_in_a_removed_folder_is_not_followed(temporary_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    abandoned = temporary_folder / "moot-abandoned"
    abandoned.mkdir(0o700)
    (abandoned / LOCK).touch()
    (abandoned / "link").symlink_to(tmp_path / "precious")
    remove_abandoned("moot-")
    assert (abandoned.exists(), os.listdir(tmp_path / "precious")) == (False, ["file"])
