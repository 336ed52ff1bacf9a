"""Regular files are written completely or not at all, even if the disk is full."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.core.errors import UserError, WorldError
from moot.core.files import check_home, check_writable, write_atomically, write_error

from tests.conftest import CLAIM, UNSTORED_BYTECODE

VERIFY = [sys.executable, "-c", "from moot.cli.main import run; run()", "verify", CLAIM, "--model", "fake:1"]
ISOLATED = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]


def can_mount() -> bool:
    """Whether this user may mount a file system in a new user namespace."""
    command = [*ISOLATED, "mount -t tmpfs tmpfs /mnt"]
    return shutil.which("unshare") is not None and subprocess.run(command, capture_output=True).returncode == 0


def limit_file_size() -> None:
    """Limit this process to files of at most 100 bytes. Writing more fails, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_a_document_that_cannot_be_written_is_printed(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The old file is not changed."""
    out = tmp_path / "document.json"
    out.write_text("old")
    command = [*VERIFY, "--out", str(out), "--graph", "standard_prompting", "--replies", "off"]
    # A home without a store: a larger one could not be opened with this limit.
    environment = os.environ | UNSTORED_BYTECODE | {"MOOT_HOME": str(tmp_path_factory.mktemp("home"))}
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_file_size, env=environment)
    assert done.returncode == 3, done.stderr
    assert "document.json cannot be written (File too large). Free disk space" in " ".join(done.stderr.split())
    assert f'"claim": "{CLAIM}"' in done.stdout
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"document.json": "old"}


@pytest.mark.skipif(not can_mount(), reason="needs a user namespace in which a disk can be mounted")
def test_on_a_full_disk_the_old_file_is_not_changed(tmp_path: Path) -> None:
    script = f"""
    mount -t tmpfs -o size=16k tmpfs {tmp_path} && cd {tmp_path} && echo old > document.json
    cat /dev/zero > filler 2> /dev/null
    {sys.executable} -c 'from pathlib import Path
from moot.core.files import write_atomically, write_error
try:
    write_atomically(Path("document.json"), "n" * 9000)
except OSError as error:
    fault = write_error("document.json", error)
    print(fault.exit_code, fault)'
    ls -A; cat document.json
    """
    output = subprocess.run([*ISOLATED, script], capture_output=True, text=True, check=True).stdout
    detail = (
        "document.json cannot be written (No space left on device). Free disk space, or name a file on another disk."
    )
    assert output.splitlines() == [f"3 {detail}", "document.json", "filler", "old"]


@given(old=st.binary(max_size=50), new=st.one_of(st.binary(max_size=5000), st.text(max_size=5000)))
def test_a_written_file_has_the_given_content(
    tmp_path_factory: pytest.TempPathFactory, old: bytes, new: str | bytes
) -> None:
    """No temporary file remains."""
    file = tmp_path_factory.mktemp("whole") / "file"
    for content in (old, new):
        write_atomically(file, content)
        assert file.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert len(list(file.parent.iterdir())) == 1


def test_only_new_files_become_private(tmp_path: Path) -> None:
    """An existing file keeps its permissions."""
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "open", "a")
        write_atomically(tmp_path / "private", "a", private=True)
        (tmp_path / "mine").touch(0o604)
        (tmp_path / "mine").chmod(0o604)
        write_atomically(tmp_path / "mine", "b", private=True)
    finally:
        os.umask(mask)
    rights = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert rights == {"open": 0o640, "private": 0o600, "mine": 0o604}


def test_the_target_of_a_link_is_written(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    link = tmp_path / "link"
    link.symlink_to("target")
    check_writable(link)
    write_atomically(link, "new")
    assert (link.is_symlink(), (tmp_path / "target").read_text()) == (True, "new")


def test_devices_are_written_directly() -> None:
    check_writable(Path("/dev/null"))
    write_atomically(Path("/dev/null"), "d")
    with pytest.raises(OSError, match="No space left") as full:
        write_atomically(Path("/dev/full"), "d")
    assert isinstance(write_error("/dev/full", full.value), WorldError)


def test_check_writable_refuses_unwritable_paths(tmp_path: Path) -> None:
    """It leaves no file behind."""
    (tmp_path / "file").write_text("old")
    for path in (tmp_path, tmp_path / "none" / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300)):
        with pytest.raises(UserError, match=r"cannot be written|There is no folder"):
            check_writable(path)
    check_writable(tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_check_home_refuses_an_unwritable_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It creates a missing folder, but leaves no file behind."""
    (tmp_path / "file").write_text("old")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    check_home("Debates", "debates")
    assert [file.name for file in (tmp_path / "home" / "debates").iterdir()] == []
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"Debates cannot be stored in .*/file \(File exists\)\. Set MOOT_HOME"):
        check_home("Debates")


def test_a_file_whose_name_is_not_utf8_is_written(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.json")
    check_writable(path)
    write_atomically(path, "text")
    assert path.read_text() == "text"
