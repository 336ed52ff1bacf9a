"""Evidence in plain words: ``web``, ``documents`` and ``wikipedia`` as settings of any system that searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.core.errors import UserError
from moot.nodes._runtime.settings import Settings
from moot.retrievers._corpus import has_vectors
from moot.retrievers._search import NO_WEB_SEARCH, SET_UP_WEB_SEARCH, resolve, web_search

WORDS = ("documents", "web", "wikipedia")
"""The plain words, in the order in which debaters get the sources. Names of other sources come after them."""


def evidence_settings(
    kind: type[Settings], words: Sequence[str], chosen: Mapping[str, Any], *, graph: str, given: bool = False
) -> dict[str, Any]:
    """The settings with which a system searches what words name: those in `WORDS`, or names of sources; blocking."""
    # A list of sources is searched by all. Debaters with sources of their own share them out in turn, so that two
    # debaters read the documents and the web; a single source is read by all of them. Documents alone are searched by
    # meaning and by words. Of the chosen settings, the corpus and the debaters are read. Texts that are given with the
    # claim are documents, too, and are always read.
    words = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not words:
        raise UserError(f"Name at least one kind of evidence: {', '.join(WORDS)}.", kind="invalid_setting")
    for word in words:
        if word not in WORDS:
            _check_name(word, chosen.get("corpus"))
    words.sort(key=lambda word: WORDS.index(word) if word in WORDS else len(WORDS))
    corpus = chosen.get("corpus")
    sources = [_source_of(word, corpus) for word in words if word != "documents" or corpus or not given]
    if "sources" in kind.model_fields:
        nothing: dict[str, Any] = {"retrieval": "none"} if "retrieval" in kind.model_fields else {"sources": []}
        return {"sources": sources} if sources else nothing
    field, readers = _readers(kind, chosen)
    if not readers:
        raise UserError(
            f"{graph} does not search: its models answer from what they know. Leave out the evidence, or choose a "
            "system that searches (`moot graphs`).",
            kind="invalid_setting",
        )
    if not sources:
        return {"retrieval": "none"}
    if words == ["documents"] and sources[0].startswith("hybrid:"):
        sources = [f"chroma:{corpus}", f"bm25:{corpus}"]  # different tools, as Tool-MAD's debaters have
    shares = [{"retriever": _share(sources, place, len(readers))} for place in range(len(readers))]
    return {field: [one | share for one, share in zip(readers, shares, strict=True)]}


def _readers(kind: type[Settings], chosen: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The setting whose speakers have sources of their own, and these speakers; empty if there are none."""
    defaults = kind()
    for field in ("debaters", "agents"):
        declared = [one.model_dump(mode="json") for one in getattr(defaults, field, ())]
        if any("retriever" in one for one in declared):
            return field, [dict(one) for one in chosen.get(field) or declared]
    return "", []


def _source_of(word: str, corpus: str | None) -> str:
    """The source for a word."""
    if word == "documents":
        if not corpus:
            raise UserError(
                "documents: there is no corpus and no text. Make a corpus (moot index FOLDER --corpus NAME) and name "
                "it (--corpus NAME), or give texts (--given FILE).",
                kind="invalid_setting",
            )
        return f"{'hybrid' if has_vectors(corpus) else 'bm25'}:{corpus}"
    if word == "web" and not web_search():
        raise UserError(
            f"web: {NO_WEB_SEARCH}. {SET_UP_WEB_SEARCH} Or choose wikipedia, which needs neither.",
            kind="missing_key",
        )
    return word


def _check_name(word: str, corpus: str | None) -> None:
    """Refuses a word that is neither in `WORDS` nor the name of a source."""
    try:
        resolve(word, corpus)
    except UserError as error:
        raise UserError(
            f"There is no evidence {word[:100]!r}. Choose from {', '.join(WORDS)}, or name sources. {error.detail}",
            kind=error.kind,
        ) from error


def _share(sources: Sequence[str], place: int, of: int) -> str | list[str]:
    """The sources of one of several debaters."""
    own = list(sources[place % len(sources) :: max(of, 1)]) if len(sources) >= of else [sources[place % len(sources)]]
    return own[0] if len(own) == 1 else own
