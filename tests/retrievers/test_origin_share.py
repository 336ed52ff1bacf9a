"""The limit on one origin's share of a pool of evidence. Only documents without a web address may exceed the limit."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._normalise import Rules
from moot.retrievers._origins import origins, pool_results, within_share

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = (
    "The harbour master said on Monday that the old quay would be closed to all ships from spring until autumn, as its "
)
LONG += (
    "piles had rotted, and that fishing boats were to land their catch at the new mole on the other side of the bay."
)


def piece(name: str) -> Evidence:
    """A page of a website (``a1``), or a passage of a document in a corpus (``notes:3``)."""
    corpus, _, number = name.rpartition(":") if ":" in name else ("", "", name[1:])
    if corpus:
        return make_evidence(
            text=f"Passage {number} of {corpus}.", title=corpus, source="corpus", retriever="bm25:corpus"
        )
    url = f"https://www.{name[0]}.org/{number}"
    return make_evidence(text=f"Page {number} of {name[0]}.", title=name, source=url, url=url, retriever="tavily")


def pieces(names: str) -> list[Evidence]:
    return [piece(name) for name in names.split()]


@pytest.mark.parametrize(
    ("found", "pool", "k", "expected"),
    [
        ("a1 a2 a3 a4 a5", "", 5, "a1"),
        ("a1 a2 b1", "", 3, "a1 b1"),
        ("a1 a2 a3 b1 c1", "", 3, "a1 b1 c1"),  # the next results fill the gaps
        ("a1 b1 a2 b2", "", 4, "a1 b1 a2 b2"),
        ("a1 a2", "b1 b2 c1 c2", 2, "a1"),  # the limit also holds within one search
        ("a3 c1", "a1 b1", 2, "a3 c1"),
        ("a3 b2", "a1 a2 b1", 2, "b2"),  # with a3, three of the five pieces would be of origin a
        ("a3", "a1 a2", 1, ""),
        ("a1", "a1 a2 a3", 1, "a1"),  # a1 is already in the pool
        # Pieces of one document may fill places that would otherwise remain empty.
        ("notes:1 notes:2 notes:3", "", 3, "notes:1 notes:2 notes:3"),
        ("notes:1 notes:2 notes:3 book:1", "", 3, "notes:1 notes:2 book:1"),
    ],
)
def test_new_pieces_join_a_pool_within_the_share_of_their_origin(found: str, pool: str, k: int, expected: str) -> None:
    joined = within_share(pieces(found), 0.5, pieces(pool), k)
    assert [p["id"] for p in joined] == [p["id"] for p in pieces(expected)]


def test_near_duplicates_from_several_websites_count_as_one_origin() -> None:
    copies = [
        make_evidence(text=f"{LONG} Report {i}.", source=f"https://{i}.org", url=f"https://{i}.org", retriever="tavily")
        for i in "abcde"
    ]
    assert within_share(copies, 0.5) == copies[:1]


def test_pieces_beyond_the_share_are_returned_separately() -> None:
    """With a maximum share of 1, there is no limit."""
    found = [pieces("a1 a2 a3 a4 b1")]
    joined, beyond = pool_results(found, Rules(3), NOW, 0.5)
    assert ([p["title"] for p in joined], [p["title"] for p in beyond]) == (["a1", "b1"], ["a2", "a3"])
    joined, beyond = pool_results(found, Rules(3), NOW, 1.0)
    assert ([p["title"] for p in joined], beyond) == (["a1", "a2", "a3"], [])


names = st.lists(st.sampled_from([f"{host}{n}" for host in "abc" for n in range(1, 6)]), unique=True, max_size=10)


@given(found=names, pool=names, share=st.floats(0.05, 1))
def test_the_limit_holds_for_the_new_pieces_and_for_the_whole_pool(
    found: list[str], pool: list[str], share: float
) -> None:
    before = within_share([piece(name) for name in pool], share)
    joined = within_share([piece(name) for name in found], share, before)
    grouped = origins([*before, *joined])
    for limited in (joined, list({p["id"]: p for p in [*before, *joined]}.values())):
        count = Counter(grouped[p["id"]] for p in limited)
        assert all(number <= max(1, floor(share * len(limited) + 1e-9)) for number in count.values())


def test_a_piece_found_again_does_not_enlarge_the_pool() -> None:
    joined = within_share(pieces("b1 c1 a2"), 0.5, pieces("a1 b1 c1"))
    assert [p["title"] for p in joined] == ["b1", "c1", "a2"]
    joined = within_share(pieces("a1 b1 b2"), 0.5, pieces("a1 b1"))
    assert [p["title"] for p in joined] == ["a1", "b1"]
