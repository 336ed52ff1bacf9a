"""The models that can be used here: the question at a terminal, ``--model auto``, and ``moot models``."""

from __future__ import annotations

import gzip
import json
import os
import pty
import select
import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.cli.models import OTHER_KINDS, model_names
from moot.core.config import KEYS
from moot.core.endpoint import PROVIDERS
from moot.core.errors import UserError
from moot.graphs.rag import graph as rag
from moot.nodes._vendors import catalogue
from moot.nodes._vendors.catalogue import VENDORS

from tests.commands import COMMAND, moot, moot_process
from tests.conftest import CLAIM, DEMO, StartStub, free_port
from tests.forked import start

SECRET = "sk-a-key-that-nobody-may-see"
CONTROL = ("--graph", "standard_prompting")
Answer = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Records everything that a client sends, and answers as the test says."""

    server: Server
    raw_requestline: bytes

    def parse_request(self) -> bool:
        """Record the line of a request, even if it is not valid; then read its headers and record them."""
        self.server.received.append(self.raw_requestline)
        is_valid = super().parse_request()
        self.server.received += [f"{name}: {value}".encode() for name, value in self.headers.items()]
        return is_valid

    def do_GET(self) -> None:
        """Answer a request for the list of models."""
        with suppress(ConnectionError):
            self.server.answer(self)

    def reply(self, content: bytes, status: int = 200, **headers: str) -> None:
        """Send a reply with this content."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def lists(*names: object) -> Answer:
    """An answer with this list of models."""
    return lambda request: request.reply(json.dumps({"object": "list", "data": [{"id": n} for n in names]}).encode())


class Server(ThreadingHTTPServer):
    """A server of models on this machine; ``received`` has the lines that clients sent."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.received: list[bytes] = []
        self.connections = 0

    def process_request(self, *connection: object) -> None:
        """Count a connection and answer its requests in a thread."""
        self.connections += 1
        super().process_request(*connection)  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """All that clients sent."""
        return b"\n".join(self.received).decode()


@pytest.fixture(autouse=True)
def _nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is named, no key is set, and no server of models runs at its usual port."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    closed = f"http://127.0.0.1:{free_port()}/v1"
    for provider in PROVIDERS.values():
        monkeypatch.delenv(provider.key_variable, raising=False)
        monkeypatch.setenv(provider.base_url_variable, closed)
    monkeypatch.delenv("OPENAI_BASE_URL")
    of_vendors = (name for vendor in VENDORS.values() for name in (*vendor.keys, *vendor.needs, *vendor.addresses))
    for name in (*of_vendors, *(key.variable for key in KEYS.values()), "MOOT_MODELS", "MOOT_PRICES"):
        monkeypatch.delenv(name, raising=False)


StartServer = Callable[[str, Answer], Server]


@pytest.fixture
def start_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartServer]:
    """A function that starts a server of a provider's models, and sets the provider's address."""
    with ExitStack() as running:

        def begin(provider: str, answer: Answer) -> Server:
            server = running.enter_context(Server(answer))
            running.callback(server.shutdown)
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}/v1"
            monkeypatch.setenv(PROVIDERS[provider].base_url_variable, address)
            return server

        yield begin


class Terminal:
    """A moot command at a real terminal."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        is_server = words[0] == "serve"
        self._process = start([*COMMAND, *words], server=is_server, stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.shown = ""

    def read_until(self, words: str) -> str:
        """Read the output until it contains these words after what was read before; return the new output."""
        before = len(self.shown)
        while words not in self.shown[before:]:
            assert select.select([self._ours], [], [], 60)[0], self.shown
            try:
                part = os.read(self._ours, 4096)
            except OSError:  # the command has ended
                part = b""
            assert part, self.shown
            self.shown += part.decode()
        return self.shown[before:]

    def answer(self, question: str, line: str) -> str:
        """Wait for a question and type a line; return the output up to the question."""
        shown = self.read_until(question)
        os.write(self._ours, line.encode())
        return shown

    def interrupt(self) -> None:
        """Interrupt the command, as Ctrl-C does. The line end wakes a question that began to wait after the signal."""
        self._process.send_signal(signal.SIGINT)
        os.write(self._ours, b"\n")

    def end(self) -> int:
        """Read the output until the command ends; return its exit code."""
        # Linux raises an error when the command has closed the terminal.
        with suppress(OSError), closing(os.fdopen(self._ours, "rb", buffering=0)) as output:
            while part := output.read(4096):
                self.shown += part.decode(errors="replace")
        return int(self._process.wait(60))


def test_before_the_choice_a_server_receives_nothing(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it if the person chooses none."""
    server = start_server("ollama", lists("qwen3:8b", "llama3.2:latest"))
    monkeypatch.setenv("OLLAMA_API_KEY", SECRET)
    terminal = Terminal("verify", CLAIM, *CONTROL)
    shown = terminal.answer("(Enter: none): ", "7\n")
    assert f"1  Ollama at 127.0.0.1:{server.server_port}" in shown
    assert "a port may be another user's" in shown
    terminal.answer("(Enter: none): ", "qwen3:8b\n")
    assert "Did you mean ollama:qwen3:8b?" in terminal.answer("(Enter: none): ", "n\n")
    assert (terminal.end(), "moot: Nothing was checked. To name a model: --model" in terminal.shown) == (2, True)
    assert (server.received, server.connections) == ([], 1)
    assert SECRET not in terminal.shown


def test_a_claim_and_a_model_that_a_person_types_are_debated(
    start_stub: StartStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = start_stub(models="stub-a,nomic-embed-text,stub-b")
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("LMSTUDIO_BASE_URL", stub.url)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    terminal = Terminal("verify", *CONTROL)
    terminal.answer("Which claim should be checked? ", f"{CLAIM}\n")
    shown = terminal.answer("(Enter: none): ", "1\n")
    assert "2  openai:gpt-4o-mini, with OPENAI_API_KEY  (USD 0.15 / 0.6 for 1M tokens; context 128,000)" in shown
    shown = terminal.answer("(Enter: none): ", "2\n")
    assert [line.strip() for line in shown.splitlines() if "stub-" in line] == ["1  stub-a", "2  stub-b"]
    assert terminal.end() == 0, terminal.shown
    assert "To make it permanent: moot config set model lmstudio:stub-b" in terminal.shown
    assert {request["model"] for request in stub.requests()} == {"stub-b"}
    assert all(CLAIM in prompt for prompt in stub.prompts())
    assert SECRET not in terminal.shown


def test_names_of_a_server_are_shown_and_quoted_as_plain_text(start_server: StartServer) -> None:
    """A single model is taken. The server gets no other provider's key."""
    odd = "my model; touch it"
    server = start_server("jan", lists("crimson \x1b[31m", "", " ", 7, "\u202eback", "x" * 300, odd, odd))
    terminal = Terminal("verify", CLAIM, *CONTROL, "--set", "attempts=1")
    terminal.answer("Use it? Type y (or 1), n or a model as provider:name (Enter: none): ", "y\n")
    assert terminal.end() == 3, terminal.shown  # the server answers no prompts
    assert f"moot config set model {shlex.quote(f'jan:{odd}')}" in terminal.shown
    assert [bad for bad in ("crimson", "\u202e") if bad in terminal.shown] == []
    assert server.text.startswith("GET /v1/models HTTP/1.1")
    assert "Authorization" not in server.text.partition("POST")[0]


def test_batch_asks_once_for_all_rows_and_a_queue_does_not_ask(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    (tmp_path / "claims.csv").write_text("claim\nBees make honey.\nAnts make honey.\n")
    command = ("batch", str(tmp_path / "claims.csv"), "--out", str(tmp_path / "out"), *CONTROL)
    terminal = Terminal(*command)
    terminal.answer("(Enter: none): ", "gpt\n")
    assert "neither a number of the list" in terminal.answer("(Enter: none): ", "nobody:x\n")
    assert "'nobody' is unknown" in terminal.answer("(Enter: none): ", "groq:x\n")
    assert "langchain-groq" in terminal.answer("(Enter: none): ", "openai:stub\n")
    assert terminal.end() == 0, terminal.shown
    assert {request["model"] for request in stub.requests()} == {"stub"}
    assert terminal.shown.count("No model is named") == 1
    assert moot(*command).stderr.startswith("moot: No model is named. Name one")
    queued = Terminal(*command, "--queue", "postgresql://127.0.0.1:9/none")
    assert (queued.end(), "(Enter: none)" in queued.shown) == (2, False)


def test_claims_asks_for_a_model(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub()
    (tmp_path / "text.txt").write_text("Bees make honey in their hives. Ants do not make any honey.")
    terminal = Terminal("claims", str(tmp_path / "text.txt"))
    terminal.answer("(Enter: none): ", "openai:stub\n")
    terminal.end()
    assert {request["model"] for request in stub.requests()} == {"stub"}, terminal.shown


@pytest.mark.parametrize("typed", ["\x04", "\x03"])
def test_the_end_of_input_and_ctrl_c_end_the_question(typed: str, start_server: StartServer) -> None:
    server = start_server("vllm", lists("m"))
    terminal = Terminal("verify", CLAIM, *CONTROL)
    if typed == "\x03":
        terminal.read_until("(Enter: none): ")
        terminal.interrupt()
    else:
        terminal.answer("(Enter: none): ", typed)
    assert (terminal.end(), server.received) == (2 if typed == "\x04" else 130, []), terminal.shown
    assert "Traceback" not in terminal.shown


def test_serve_asks_for_the_model_of_debates_that_name_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "'nobody' is unknown" in moot("serve", "--model", "nobody:x").stderr
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    port = free_port()
    terminal = Terminal("serve", "--port", str(port))
    terminal.answer("(Enter: none): ", "fake:1\n")
    terminal.read_until("Studio: ")
    body = {"assistant_id": "standard_prompting", "input": {"claim": CLAIM}}
    request = Request(
        f"http://127.0.0.1:{port}/runs/wait", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request, timeout=60) as reply:
        assert json.load(reply)["settings"]["model"] == "fake:1"
    terminal.interrupt()
    assert terminal.end() == 0, terminal.shown


# --- `--model auto` ---------------------------------------------------------------------------------------------------

ENDED = ("verify", CLAIM, *CONTROL, "--model", "auto", "--replies", "none-such")
"""A command that ends after it has chosen its model."""


def test_auto_takes_the_first_server_with_a_model_before_keys(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    line, *_ = moot(*ENDED).stderr.splitlines()
    assert line == "moot: --model auto takes anthropic:claude-haiku-4-5 (ANTHROPIC_API_KEY)."
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert "takes openai:gpt-4o-mini (OPENAI_API_KEY)." in moot(*ENDED).stderr
    vllm, jan = start_server("vllm", lists("b")), start_server("jan", lists("c"))
    assert f"takes vllm:b (127.0.0.1:{vllm.server_port})." in moot(*ENDED).stderr
    empty = start_server("ollama", lists("nomic-embed-text"))
    line, *_ = moot(*ENDED).stderr.splitlines()
    passed = f"Ollama at 127.0.0.1:{empty.server_port}: it has no models; get one with: ollama pull qwen3:8b"
    assert line.endswith(f"takes vllm:b (127.0.0.1:{vllm.server_port}). Passed over: {passed}.")
    assert (jan.received, SECRET in vllm.text + empty.text) == ([], False)


def test_auto_without_anything_is_an_error_that_lists_the_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHERE_API_KEY", SECRET)
    done = moot(*ENDED)
    assert done.returncode == 2
    wanted = ("--model auto found no model", "COHERE_API_KEY is set, but", "MOOT_MODEL", "moot config set model")
    assert [text for text in wanted if text not in done.stderr] == []
    monkeypatch.setattr(catalogue, "find_spec", lambda name: True)  # as if the package were installed
    unpriced = moot(*ENDED)
    assert (unpriced.returncode, "with COHERE_API_KEY: its price is not known." in unpriced.stderr) == (2, True)
    assert SECRET not in done.stderr + unpriced.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("config", "set", "model", "auto"),
        ("verify", CLAIM, "--set", "model=auto"),
        ("verify", CLAIM, "--model", "fake:1", "--set", "models.judge=auto"),
        ("claims", "text.txt", "--set", "model=auto"),
        ("eval", "run", "--graph", "rag", "--model", "auto", "--task", "fever=x"),
    ],
    ids=" ".join,
)
def test_auto_must_be_typed_as_the_model_of_a_command(words: tuple[str, ...], start_server: StartServer) -> None:
    server = start_server("ollama", lists("qwen3:8b"))
    done = moot(*words)
    assert (done.returncode, "`auto` must be typed" in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert server.connections == 0


async def test_auto_is_no_model_of_contexts_and_variables(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = start_server("ollama", lists("qwen3:8b"))
    with pytest.raises(UserError, match="`auto` must be typed"):
        await rag.ainvoke({"claim": CLAIM}, context={"model": "auto"})
    monkeypatch.setenv("MOOT_MODEL", "auto")
    with pytest.raises(UserError, match="MOOT_MODEL.*`auto` must be typed"):
        await rag.ainvoke({"claim": CLAIM}, context={"sources": [DEMO[1]]})
    monkeypatch.delenv("MOOT_MODEL")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('model = "auto"\n')
    assert "`auto` must be typed" in moot_process("verify", CLAIM).stderr
    assert server.connections == 0


# --- `moot models` ----------------------------------------------------------------------------------------------------


def test_models_lists_servers_and_keys_with_prices_and_contexts(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server("ollama", lists("llama3.2:latest"))
    proxy = start_server("vllm", lists("never"))
    monkeypatch.setenv("VLLM_BASE_URL", "http://models.example.org/v1")
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.server_port}")
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY", "MISTRAL_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    done = moot("models", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert rows["ollama:llama3.2:latest"]["from"] == f"Ollama at 127.0.0.1:{server.server_port}"
    assert rows["openai:gpt-4o-mini"] == {
        "name": "openai:gpt-4o-mini", "from": "OPENAI_API_KEY", "input": 0.15, "output": 0.6, "context": 128_000,
    }  # fmt: skip
    assert "vllm:NAME is at http://models.example.org/v1 (VLLM_BASE_URL)." in done.stderr
    assert "MISTRAL_API_KEY is set, but: Models of Mistral need the package" in done.stderr
    shown = moot("models")
    assert (shown.returncode, "0.15 / 0.6" in shown.stdout, "context_tokens" in shown.stderr) == (0, True, True)
    assert SECRET not in done.stdout + done.stderr + shown.stdout + shown.stderr + server.text
    assert (proxy.received, server.text.count("GET /api/tags")) == ([], 2)


def test_models_says_what_to_do_if_there_is_nothing() -> None:
    done = moot("models")
    assert (done.returncode, "neither a server on this machine nor a key was found" in done.stderr) == (0, True)


def ignored(_: object) -> None:
    """Nothing, for a lambda whose value does not matter."""


def test_at_a_terminal_with_nothing_there_one_step_is_named() -> None:
    terminal = Terminal("verify", CLAIM, *CONTROL)
    assert terminal.end() == 2
    (line,) = terminal.shown.splitlines()
    assert line.endswith("ollama pull qwen3:8b")


def test_auto_says_that_a_server_refused_its_key(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> None:
    start_server("ollama", lambda request: request.reply(GOOD, 401))
    assert moot(*ENDED).stderr.endswith("it wants a key (set OLLAMA_API_KEY) (HTTP 401).\n")
    monkeypatch.setenv("OLLAMA_API_KEY", SECRET)
    assert moot(*ENDED).stderr.endswith("it refused the key of OLLAMA_API_KEY (HTTP 401).\n")


def slowly(request: Handler) -> None:
    """Send an endless list, a byte at a time."""
    request.send_response(200)
    request.end_headers()
    while not ENDS.wait(0.05):
        request.wfile.write(b" ")


def endlessly(request: Handler) -> None:
    """Send an endless list at once."""
    request.send_response(200)
    request.end_headers()
    while not ENDS.is_set():
        request.wfile.write(b" " * 2**16)


ENDS = Event()
GOOD = b'{"data": [{"id": "m"}]}'
BAD_LISTS: dict[str, tuple[Answer, str]] = {
    "no answer": (lambda request: ignored(ENDS.wait(30)), "no list of models within 1 s"),
    "slow": (slowly, "no list of models within 1 s"),
    "endless": (endlessly, "no list of models."),
    "HTML": (lambda request: request.reply(b"<html>"), "no list of models."),
    "deep": (lambda request: request.reply(b"[" * 200_000), "no list of models."),
    "a list": (lambda request: request.reply(b'[{"id": "m"}]'), "no list of models."),
    "compressed": (lambda request: request.reply(gzip.compress(GOOD), Content_Encoding="gzip"), "no list of models."),
    "refused": (lambda request: request.reply(GOOD, 401), "it wants a key (set LLAMACPP_API_KEY), and"),
    "missing": (lambda request: request.reply(GOOD, 404), "no list of models (HTTP 404)."),
    "empty": (lambda request: request.reply(b'{"data": null}'), "it has no models."),
    "not HTTP": (lambda request: ignored(request.wfile.write(b"\0" * 99)), "no list of models."),
}


@pytest.mark.parametrize("kind", BAD_LISTS)
def test_a_bad_list_of_models_is_named_and_gives_no_model(kind: str, start_server: StartServer) -> None:
    ENDS.clear()
    answer, why = BAD_LISTS[kind]
    server = start_server("llamacpp", answer)
    done = moot("models", "--json")
    ENDS.set()
    assert (done.returncode, [row for row in json.loads(done.stdout) if "llamacpp" in row["name"]]) == (0, [])
    assert f"moot: llama.cpp at 127.0.0.1:{server.server_port}: " in done.stderr
    assert why in done.stderr


def test_a_redirect_is_not_followed(start_server: StartServer) -> None:
    other = start_server("jan", lists("m"))
    target = f"http://127.0.0.1:{other.server_port}/elsewhere"
    start_server("llamacpp", lambda request: request.reply(b"", 302, Location=target))
    assert "no list of models (HTTP 302)." in moot("models").stderr
    assert "/elsewhere" not in other.text


@given(st.binary() | st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(
    st.sampled_from(["data", "id", "x"]), inner)).map(lambda value: json.dumps(value).encode()))  # fmt: skip
def test_names_of_models_are_plain_text_whatever_a_server_sends(content: bytes) -> None:
    try:
        names = model_names(content)
    except ValueError:
        return
    assert [name for name in names if not name.isprintable() or name != name.strip() or OTHER_KINDS.search(name)] == []
    assert len(names) == len({*names})


def test_models_that_ollama_has_elsewhere_come_last() -> None:
    models = [{"name": "gpt-oss:120b-cloud", "remote_host": "https://ollama.com:443"}, {"name": "qwen3:8b"}]
    assert model_names(json.dumps({"models": models}).encode()) == ["qwen3:8b", "gpt-oss:120b-cloud"]


# --- `moot` alone -----------------------------------------------------------------------------------------------------


def test_moot_alone_prints_the_commands_for_people() -> None:
    done = moot()
    named = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  moot ")]
    assert (done.returncode, named) == (0, ["serve", "verify", "index", "claims", "batch"])
    assert [name for name in named if moot(name, "--help").returncode] == []
    assert "moot --help" in done.stdout


def test_verify_without_a_claim_in_a_pipe_is_an_error() -> None:
    done = moot_process("verify", "--model", "fake:1")
    assert (done.returncode, "Missing argument 'claim'" in done.stderr) == (2, True), done.stderr


def test_a_batch_asks_what_a_list_does_not_show(tmp_path: Path) -> None:
    """The answer is added to what the command line says about the list."""
    path = tmp_path / "liste.csv"
    path.write_text("Nr;Behauptung;Datum\n1;Es stieg.;3/4/2025\n")
    words = ["--column", "date=Datum", "--out", str(tmp_path / "out"), "--model", "fake:1"]
    terminal = Terminal("batch", str(path), *words, "--graph", "standard_prompting")
    shown = terminal.answer("Which one? Type its number", "2\n")
    assert "2  Behauptung" in shown
    shown = terminal.answer("Which one? Type its number", "dmy\n")
    assert "3/4/2025 is 2025-04-03 (day/month/year) or 2025-03-04 (month/day/year)." in shown
    assert terminal.end() == 0
    assert "Dates in the column 'Datum' are read as day/month/year." in terminal.shown
