"""What a stream of bytes, wrong tokens and other users of the machine cannot do to the servers that ship."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from moot.web.login import Attempts

from tests.security.servers import Target

pytestmark = pytest.mark.timeout(600)
VALID = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/runs/wait", "/mcp", "/store/items", "/moot/api/texts?name=a.txt", "/nothing"])
def test_a_chunked_body_without_an_end_in_sight_is_not_kept_in_memory(target: Target, path: str) -> None:
    """The client can read the response, although it has sent 100 MiB."""

    def chunks() -> Iterator[bytes]:
        yield from (b"[" * 2**20 for _ in range(100))

    connection = http.client.HTTPConnection(urlsplit(target.url).netloc, timeout=120)
    headers = VALID | {"Authorization": f"Bearer {target.token}"}
    connection.request("POST", path, chunks(), headers, encode_chunked=True)
    response = connection.getresponse()
    assert (response.status, b"at most" in response.read()) == (413, True)
    connection.close()


def test_wrong_tokens_never_lock_a_valid_token_out(target: Target) -> None:
    """X-Forwarded-For does not count, because the operator has named no proxy."""
    statuses = [
        target.send(
            "GET", "/moot/api/debates", None, {"Authorization": f"Bearer wrong-{n}", "X-Forwarded-For": f"1.1.1.{n}"}
        )[0]
        for n in range(Attempts.MOST_PER_MINUTE + 5)
    ]
    assert statuses.count(401) <= Attempts.MOST_PER_MINUTE
    assert statuses[-1] == 429
    assert target.send("GET", "/moot/api/debates")[0] == 200


def test_files_of_the_server_are_private(target: Target) -> None:
    run = {"assistant_id": "rag", "input": {"claim": "Bees make honey."}, "context": {"model": "fake:1"}}
    assert target.send("POST", "/runs/wait", run)[0] == 200
    found = [path for home in target.homes for path in (home, *home.rglob("*")) if path.name not in target.planted]
    assert found
    assert [path for path in found if not path.is_symlink() and path.stat().st_mode & 0o077] == []
