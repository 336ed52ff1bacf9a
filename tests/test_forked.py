"""Forked processes behave like newly started processes."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.forked import AT_START, Forked, start

PROGRAM = """
import atexit, json, os, signal, sys, threading
atexit.register(print, "at the end", flush=True)
def wait() -> None:
    threading.main_thread().join()
    print("a thread", sys.stdin.read(), flush=True)
threading.Thread(target=wait).start()
print(__name__, sys.argv, os.getcwd(), os.environ["GIVEN"], "HOME" in os.environ, len(os.listdir("/proc/self/fd")))
print([str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []), sys.stdout.encoding, sys.stdout.line_buffering, flush=True)
"""
ENDS = ("", "sys.exit(7)", "sys.exit('a message')", "os._exit(5)", "signal.raise_signal(9)", "signal.raise_signal(15)")


@pytest.mark.parametrize("end", ENDS)
def test_a_forked_process_has_the_output_and_exit_code_of_a_new_process(end: str, tmp_path: Path) -> None:
    outcomes = []
    environment = {name: value for name, value in os.environ.items() if name != "HOME"} | {"GIVEN": "this"}
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", PROGRAM + end, "a word"]
    for kind in (subprocess.Popen, Forked, partial(Forked, imported="servers")):
        with kind(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, env=environment) as process:
            outcomes.append((process.communicate("typed")[0], process.returncode))
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_a_process_is_not_forked_if_a_variable_read_at_import_differs() -> None:
    command = [sys.executable, "-c", "import sys; print('moot.cli.main' in sys.modules)"]
    for name, forked in (("OTEL_SDK_DISABLED", False), ("MOOT_GIVEN", True), ("LANGSMITH_USE_DAEMON", True)):
        environment = AT_START | {name: "true"}  # not os.environ, which libraries in other tests may have changed
        with start(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.communicate()[0] == f"{forked}\n"


def test_a_server_is_forked_before_langgraph_api_is_imported() -> None:
    program = "import sys; print(*{name.split('.')[0] for name in sys.modules}, 'moot.web.app' in sys.modules)"
    command, environment = [sys.executable, "-c", program], dict(AT_START)  # as above, not os.environ
    with start(command, server=True, stdout=subprocess.PIPE, text=True, env=environment) as process:
        names = set(process.communicate()[0].split())
    assert {"moot", "uvloop", "False"} <= names
    assert not {"langgraph_api", "langgraph_runtime", "langgraph_runtime_inmem"} & names
