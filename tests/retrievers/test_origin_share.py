"""Near-duplicates among the results of a search give places to other results."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from moot.retrievers._evidence import Evidence, make_evidence
from moot.retrievers._normalise import Rules
from moot.retrievers._origins import best_results

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LONG = (
    "The harbour master said on Monday that the old quay would be closed to all ships from spring until autumn, as its "
)
LONG += (
    "piles had rotted, and that fishing boats were to land their catch at the new mole on the other side of the bay."
)
TOPICS = (
    "Herring gulls nest on roofs",
    "Cod is landed at dawn",
    "The lighthouse has no keeper",
    "Tides are high in May",
)


def result(name: str, url: str = "https://www.{}.org/{}", retriever: str = "bm25:notes") -> Evidence:
    """A page of a website. On `a` and `b` all pages are near-duplicates, on `c` and `d` all are different."""
    host, number = name[0], int(name[1:])
    text = f"{LONG} Report {name}." if host in "ab" else f"{TOPICS[number % 4]}, as {name} says."
    address = url.format(host, number)
    return make_evidence(text=text, title=name, source=f"notes {name}", url=address, retriever=retriever)


def titles(pieces: list[Evidence]) -> list[str]:
    return [piece["title"] for piece in pieces]


results = st.lists(st.sampled_from([f"{host}{n}" for host in "abcd" for n in range(4)]), unique=True, max_size=10)


@given(results, st.integers(1, 8), st.floats(0.01, 1, exclude_max=True))
def test_near_duplicates_give_places_only_to_other_results(found: list[str], k: int, share: float) -> None:
    """The number of results stays the same, their order too, and nothing but near-duplicates gives up its place."""
    pieces = [result(name) for name in found]
    kept, displaced = best_results([pieces], Rules(k), NOW, share)
    assert titles(kept) == [name for name in found if name in titles(kept)]
    assert len(kept) == min(k, len(found))
    assert {*found[:k]} - {*titles(kept)} == {*titles(displaced)}
    copies = [name for name in titles(kept) if name[0] in "ab"]
    most, others = max(2, int(share * k + 1e-9)), [name for name in found if name[0] in "cd"]
    assert len(copies) <= max(most, k - len(others))
    assert {name[0] for name in titles(displaced)} <= {*"ab"}
    assert titles(best_results([pieces], Rules(k), NOW, 1)[0]) == found[:k]


@given(results, st.integers(1, 8))
def test_documents_without_a_web_address_are_not_limited(found: list[str], k: int) -> None:
    kept, displaced = best_results([[result(name, "") for name in found]], Rules(k), NOW, 0.1)
    assert (titles(kept), displaced) == (found[:k], [])


def test_near_duplicates_from_two_sources_count_together() -> None:
    names = {"bm25:notes": "a0 a1 a2 c0 c1", "tavily": "b0 b1 b2 d0 d1"}
    found = [[result(name, retriever=source) for name in given.split()] for source, given in names.items()]
    kept, displaced = best_results(found, Rules(3), NOW, 0.5)
    assert (titles(kept), titles(displaced)) == (["a0", "b0", "c0", "d0", "c1", "d1"], ["a1", "b1", "a2", "b2"])
