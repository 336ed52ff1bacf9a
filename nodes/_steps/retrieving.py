"""Retrieval (Tool-MAD, algorithm 1, Retrieve): a debater's evidence for a round."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import BudgetExhausted, MootError, ReplyError, WorldError
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Reading, Task, Turn
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import Node, NodeContext, sites_of
from moot.nodes._runtime.settings import EvidenceSettings
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.trace import TracedRetriever
from moot.nodes._runtime.turns import Known, Said, Search, Started, numbered, on_page, tells
from moot.nodes._steps.pages import marked, page_of, read_claim_page, read_found, warn_of_unread
from moot.nodes._steps.stand_ins import fallback_warnings
from moot.nodes._texts.outage import every_search_failed, outage_error
from moot.nodes._texts.replies import Reply, SummaryReply, Text
from moot.nodes._texts.show import show_claim, show_evidence
from moot.nodes._texts.task import wording
from moot.prompts import as_data
from moot.retrievers import Evidence, Retriever
from moot.retrievers._evidence import clean, evidence_id
from moot.retrievers._excerpts import beginning, count_tokens, excerpt, is_short
from moot.retrievers._gather import ask_all, fuse_by_rank, search_all
from moot.retrievers._normalise import Rules, last_day
from moot.retrievers._origins import best_results, origins
from moot.retrievers._pages import with_passages
from moot.retrievers._retractions import doi_of, with_notices, with_titles
from moot.retrievers._search import PAID, SCHOLARLY, resolve
from moot.retrievers._sites import ALL_SITES, part_claim_page, sift
from moot.retrievers._summariser import open_summariser
from pydantic import Field

KEYWORDS, SOURCE_SUMMARY = "tool_mad/keywords", "tool_mad/source_summary"
"""The names of the prompts."""
MOST_SUMMARISED_TOKENS = 16_000
"""A model summarises a text as a whole if the text has at most this many tokens, else only the shown parts."""
MOST_MERGED_WITHOUT_THREAD = 10_000
"""Maximum number of characters of results merged without a thread; to start a thread takes longer than to merge."""


class KeywordsReply(Reply):
    """Keywords for a scholarly source."""

    keywords: Annotated[list[Text], Field(min_length=1)]


class SharedRetrieval(Started):
    """A search shared by all agents."""

    step: Literal["retrieve"]
    retrieval: Search
    queries: NotRequired[list[str]]


@tells(SharedRetrieval, headed=False)
def tell_search(turn: Turn, known: Known) -> Iterator[Said]:
    """The results of a turn's search. Debaters that select from shared results name them by their numbers."""
    if "retrieval" not in turn:
        return
    verb, quoted = numbered("finds", turn), turn.get("quoted_by") or {}
    is_pool = turn["step"] == "retrieve" and getattr(known.settings, "selection", False)
    for number, id in enumerate((id for id in turn["evidence_ids"] if id in known.pieces), 1):
        piece = known.pieces[id]
        text = f"{piece['title']} ({piece['source']}{on_page(piece)}) [{id}]"
        if id in quoted:
            who = ["itself" if name == turn["agent"] else name for name in quoted[id]]
            yield Said("passages", "reads", f"{text}, quoted by {' and '.join(who)}", piece=id)
        else:
            yield Said("retrieval", verb, f"{number}. {text}" if is_pool else text, piece=id)
    yield from tell_empty_search(turn, known, verb)


def tell_empty_search(
    turn: Turn, known: Known, verb: str = "finds", *, what: str = "", who: str = ""
) -> Iterator[Said]:
    """A search without results; nothing if there are results."""
    if turn["retrieval"] == "failed":
        text = f"{what}nothing, because a source could not be searched"
        yield Said("retrieval", verb, text, kind="failure", who=who)
    elif turn["retrieval"] == "empty" or not turn["evidence_ids"]:
        asked = " and ".join(dict.fromkeys(reading["retriever"] for reading in known.corpora))
        yield Said("retrieval", verb, f"{what}nothing in {asked}" if asked else f"{what}nothing", who=who)


async def retrieve(
    query: str, retriever: Retriever | Sequence[Retriever], k: int = 3, *, agent: str = "", round: int = 0
) -> list[Evidence]:
    """Searches sources for a query, and returns at most ``k`` pieces of evidence from each.

    The pieces are marked with the agent and the round. If only some sources fail, the others' pieces are returned.

    Args:
        query: the search query.
        retriever: the source, or several sources, which are searched in parallel.
        k: maximum number of pieces from each source.
        agent: the searching agent.
        round: the current round.

    Raises:
        UserError, WorldError: a source is misconfigured, or a source failed and no source found anything.
    """
    sources = [retriever] if not isinstance(retriever, Sequence) else retriever
    finding = await search_all([(TracedRetriever(source), query) for source in sources], Rules(k))
    if finding.failures and not finding.evidence:
        raise next(iter(finding.failures.values()))
    return mark_search(finding.evidence, agent, round)


def mark_search(evidence: Iterable[Evidence], agent: str, round: int, phase: str = "primary") -> list[Evidence]:
    """The pieces, marked with the agent, the round and the phase of the search; ``primary`` is not marked."""
    marks = {"round": round, "agent": agent} | ({} if phase == "primary" else {"phase": phase})
    return [{**piece, "retrievals": [{**r, **marks} for r in piece["retrievals"]]} for piece in evidence]  # type: ignore[typeddict-item]


async def find_keywords(claim: str, task: Task, query: str, model: Speaker | BaseChatModel) -> list[str]:
    """Asks a model for a query's keywords, with which scholarly sources are searched (Tool-MAD, v1, section C.2)."""
    speaker = as_speaker(model, "debater")
    values = wording(task) | {"name": speaker.role, "claim": show_claim(claim, task), "query": as_data("query", query)}
    reply = await speaker.ask(KEYWORDS, values, KeywordsReply)
    return reply.keywords


async def summarise_evidence(claim: str, task: Task, piece: Evidence, model: Speaker | BaseChatModel) -> Evidence:
    """The piece with a model's summary as its text, and a new id (Tool-MAD, first version, section C.2): one call."""
    speaker = as_speaker(model, "source_summariser")
    values = wording(task) | {"claim": show_claim(claim, task), "evidence": show_evidence([piece])}
    reply = await speaker.ask(SOURCE_SUMMARY, values, SummaryReply)
    return with_text(piece, reply.summary)


def retrieve_node(*, required: bool = False) -> Node:
    """Adds the evidence that the speaker's sources find for the turn's query; without a query, for the claim itself.

    Reads: claim, task, debater, turns and, if present, found.

    All of the speaker's sources are searched in parallel. If the turn has several ``queries``, each source is searched
    for all of them, and `fuse_by_rank` makes one list of its results; a source in `ONE_SEARCH` is searched once, for
    the first two queries as one text. The next unused fallback replaces each failed source, with a
    warning. The turn's ``retrieval`` is ``ok`` if evidence was found, ``failed`` if none was found and a source failed
    (even if its fallback did not fail), else ``empty``.

    If more than a share (``max_origin_share``) of the results are near-duplicates of one another, other results are
    preferred (`best_results`), with a warning. Other searches do not change what a search shows. Of a text that is
    too long, only the beginning and the sentences nearest to the query are shown, with a warning. If
    ``published_before`` is set, there is also a warning about pieces without a date. Retracted works are marked, with
    a warning.

    A scholarly source is searched by keywords that the speaker's model writes. Without keywords, the query itself is
    searched, with a warning. The abstracts are summarised as the setting ``source_summaries`` says. A model reads the
    whole abstract if the abstract has at most `MOST_SUMMARISED_TOKENS` tokens. Without a summary, the abstract is
    used, with a warning.

    Args:
        required: whether the debate fails if no search succeeded and there is no other evidence. Set it if this is
            the debate's first search, and no other search runs at the same time.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        debater, turn = state["debater"], state["turns"][0]
        query = turn.get("query") or state["claim"]
        queries = turn.get("queries") or [query]
        retrieved = datetime.now(UTC)
        results, readings = await ask_with_fallbacks(state, queries, run)
        rules = rules_of(run.settings, debater, state["task"].get("appeared_at"))
        found = [result for result in results if not isinstance(result, MootError)]
        admitted = iter(await of_admitted_sites([pieces for by_query in found for pieces in by_query], run))
        lists = [await fuse([next(admitted) for _ in by_query], rules, retrieved) for by_query in found]
        claim_page = "" if run.settings.claim_page == "evidence" else state["task"].get("appeared_at", "")
        lists = await read_found(lists, rules, retrieved, claim_page, run)
        lists = await of_admitted_sites(lists, run)  # pages that were read may be elsewhere
        lists = await without_claim_page(lists, claim_page, run)
        size = sum(len(piece["text"]) for found in lists for piece in found)
        merge = partial(best_results, lists, rules, retrieved, run.settings.max_origin_share)
        pieces, displaced = merge() if size <= MOST_MERGED_WITHOUT_THREAD else await asyncio.to_thread(merge)
        warn_of_unread(pieces, run)
        if displaced:
            run.record.warn("origin_share", share_warning(displaced, run.settings.max_origin_share))
        outcome = "ok" if pieces else "empty" if len(readings) == len(lists) else "failed"
        if required and every_search_failed(readings, state.get("found") or ()):
            ceiling_reached = any(isinstance(result, BudgetExhausted) for result in results)
            fault = outage_error(readings, run.record.warnings, run.settings.corpus, ceiling_reached=ceiling_reached)
            failed = {**turn, "query": query, "evidence_ids": [], "retrieval": outcome}
            return {"turns": [failed], "corpora": readings, "error": fault.record(run.record.place())}
        if outcome == "empty":
            asked = " and ".join(f"`{reading['retriever']}`" for reading in readings)
            day = run.settings.published_before
            dated = f" published before {day}" if day else ""
            wanted = " and ".join(map(repr, queries))
            run.record.warn("empty_retrieval", f"{asked} found nothing{dated} for {wanted}.")
        pieces = await mark_retracted(pieces, run)
        shortened = await all_at_once(shorten_piece(piece, state["claim"], " ".join(queries), run) for piece in pieces)
        shown = await all_at_once(summarise_abstract(state, piece, run) for piece in shortened)
        for read, piece in zip(shortened, shown, strict=True):
            if page_of(read, run):  # long, as most pages are
                continue
            if "shown" in piece or ("shown" in read and not is_short(read["text"], MOST_SUMMARISED_TOKENS)):
                warning = _shortened_warning({**read, "id": piece["id"]}, run.settings.max_evidence_tokens)
                run.record.warn("evidence_cut", warning, "evidence")
        undated = [piece["id"] for piece in shown if not last_day(piece.get("published") or "")]
        if undated and run.settings.published_before:
            run.record.warn("undated_evidence", f"The date of publication is unknown: {', '.join(undated)}.")
        return {
            "turns": [{**turn, "query": query, "evidence_ids": [p["id"] for p in shown], "retrieval": outcome}],
            "evidence": mark_search(shown, debater["name"], turn["round"], turn["phase"]),
            "corpora": readings,
        }

    return Node(step, prompts=(KEYWORDS, SOURCE_SUMMARY))


def share_warning(displaced: Sequence[Evidence], share: float) -> str:
    """The warning about near-duplicates to which other results were preferred (`best_results`)."""
    names = origins(displaced)
    count = Counter(names[piece["id"]] for piece in displaced)
    each = ", ".join(f"{number} from {name}" for name, number in count.items())
    return (
        f"Other results were preferred to near-duplicates: {each}. At most a share of {share:g} of a search's "
        "results, but always two, may be near-duplicates of one another (max_origin_share)."
    )


async def of_admitted_sites(lists: list[list[Evidence]], run: NodeContext) -> list[list[Evidence]]:
    """The results of sites that the settings admit, with the user's labels, and a warning about the others."""
    sites, labels = sites_of(run.settings), run.settings.site_labels
    if sites == ALL_SITES and not labels:
        return lists
    kept = await asyncio.to_thread(sift, lists, sites, labels)
    if kept.left_out:
        detail = f"Results that `sites_only` or `sites_never` leaves out: {_addresses(kept.left_out)}."
        run.record.warn("sites_left_out", detail)
    return kept.found


async def without_claim_page(lists: list[list[Evidence]], page: str, run: NodeContext) -> list[list[Evidence]]:
    """The results that are not from the claim's own page or site, with a warning; or all, as ``claim_page`` says."""
    if not page:
        return lists
    addresses, text = await read_claim_page(page, run)
    leave_out = run.settings.claim_page == "left_out"
    kept = await asyncio.to_thread(part_claim_page, lists, addresses, text, leave_out=leave_out)
    if kept.left_out:
        run.record.warn(
            "claim_page_left_out",
            "Results from the page or the site on which the claim appeared, or copies of them, are no evidence: "
            f"{_addresses(kept.left_out)}.",
        )
    return kept.found


def _addresses(pieces: Iterable[Evidence]) -> str:
    """The addresses of pieces, each once, the first ten."""
    known = list(dict.fromkeys(piece.get("url", piece["source"]) for piece in pieces))
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return ", ".join(known[:10]) + more


async def mark_retracted(pieces: Sequence[Evidence], run: NodeContext) -> list[Evidence]:
    """Marks retracted works: by the source, their title or, with ``check_retractions``, Crossref; warns of them."""
    pieces = with_titles(pieces)
    dois = sorted({doi_of(piece) for piece in pieces if "retracted" not in piece} - {""})
    marked = pieces
    if dois and run.settings.check_retractions:
        try:
            found = await in_time(run.retraction_notices().search(" ".join(dois), len(dois)), "search")
            marked = with_notices(pieces, {notice["source"]: notice["url"] for notice in found})
        except MootError as error:
            run.record.warn("retractions_unknown", f"{error.detail} Not checked: {', '.join(dois)}.")
    if retracted := [f"{piece['id']} ({piece['retracted']})" for piece in marked if "retracted" in piece]:
        run.record.warn(
            "retracted_evidence", f"These works were retracted, so they carry no answer: {', '.join(retracted)}."
        )
    return marked


async def shorten_piece(piece: Evidence, claim: str, query: str, run: NodeContext) -> Evidence:
    """Reduces a long piece to its beginning and the sentences nearest to the query, a page to its nearest passages."""
    if page := page_of(piece, run):
        near = f"{claim} {query}"
        return await asyncio.to_thread(with_passages, piece, page, near, run.settings.max_evidence_tokens)
    if "shown" not in piece:
        return piece

    async def nearest_parts() -> list[list[int]]:
        encoder = await run.encoder()  # loads it now if the debate has compared no other texts
        return await excerpt(piece["text"], query, run.settings.max_evidence_tokens, encoder)

    try:
        parts = await in_time(nearest_parts(), "text encoder")
    except MootError as error:
        detail = f"{piece['id']}: {error.detail} Only the beginning of the piece is shown."
        run.record.warn("evidence_not_compared", detail)
        return piece
    return {**piece, "shown": parts}


def _shortened_warning(piece: Evidence, most: int) -> str:
    return (
        f"{piece['id']} ({piece['title'][:80]}) has about {count_tokens(piece['text']):,} tokens: it is shown in part, "
        f"as max_evidence_tokens is {most:,}."
    )


SourceResult = list[list[Evidence]] | MootError
"""The pieces that a source found, for each query a list, or its error."""


async def fuse(by_query: list[list[Evidence]], rules: Rules, retrieved: datetime) -> list[Evidence]:
    """The results of a source as one list (`fuse_by_rank`)."""
    if len(by_query) == 1:
        return by_query[0]
    return await asyncio.to_thread(fuse_by_rank, by_query, rules, retrieved)


async def ask_with_fallbacks(
    state: DebaterState, queries: Sequence[str], run: NodeContext
) -> tuple[list[SourceResult], list[Reading]]:
    """The result for each of a speaker's sources, or for its fallback, and the log of all sources searched."""
    debater, query_forms = state["debater"], QueryForms(state, queries, run)
    rules = rules_of(run.settings, debater, state["task"].get("appeared_at"))
    names, corpus = sources_of(debater), run.settings.corpus
    asked, searched = list(names), {resolve(name, corpus) for name in names}
    spare = [name for name in debater.get("fallback", ()) if resolve(name, corpus) not in searched]
    results: list[SourceResult] = []
    readings: list[Reading] = []
    places = list(range(len(names)))
    while names:
        sources = [
            (await run.retriever(name, claim=state["claim"]), await query_forms.for_source(name)) for name in names
        ]
        searches = {source.name: (TracedRetriever(source, run.record), texts) for source, texts in sources}
        by_source = dict(zip(searches, await ask_for_each(list(searches.values()), rules, run), strict=True))
        results = results or [[] for _ in names]
        for place, name, (source, _) in zip(places, names, sources, strict=True):
            results[place] = result = by_source[source.name]
            reading = reading_of(debater["name"], name, source)
            if isinstance(result, MootError):
                run.record.warn("retrieval_failed", f"{source.name}: {result.detail}")
                reading["failed"] = True
            else:
                results[place] = [marked(pieces, source, run.settings) for pieces in result]
                by_source[source.name] = [[]]  # so that the results of a source with two names count once
                for warning in fallback_warnings(asked[place], name, source.name, run.settings):
                    run.record.warn("stand_in", warning, "sources")
            readings.append(reading)
        failed = [i for i in places if isinstance(results[i], MootError)]
        places, names, spare = failed[: len(spare)], spare[: len(failed)], spare[len(failed) :]
    return results, readings


async def ask_for_each(
    searches: Sequence[tuple[Retriever, Sequence[str]]], rules: Rules, run: NodeContext
) -> list[SourceResult]:
    """For each source, its results for each of its queries; its first error if all its searches failed.

    If only some of its searches failed, there is a warning about each.
    """
    each = [(source, text) for source, texts in searches for text in texts]
    answers = iter(await ask_all_in_time(each, rules))
    results: list[SourceResult] = []
    for source, texts in searches:
        answered = [(text, next(answers)) for text in texts]
        failed = [(text, answer) for text, answer in answered if isinstance(answer, MootError)]
        if len(failed) == len(answered):
            results.append(failed[0][1])
            continue
        for text, error in failed:
            run.record.warn("retrieval_failed", f"{source.name}, for {text!r}: {error.detail}")
        results.append([answer for _, answer in answered if not isinstance(answer, MootError)])
    return results


async def ask_all_in_time(queries: Sequence[tuple[Retriever, str]], rules: Rules) -> list[list[Evidence] | MootError]:
    """The same as `ask_all`, but if `max_seconds` is used up first, the result of every source is `BudgetExhausted`."""
    try:
        return await in_time(ask_all(queries, rules), "search")
    except BudgetExhausted as error:
        return [error for _ in queries]


def sources_of(debater: Mapping[str, Any]) -> list[str]:
    """The names of a debater's sources; empty for a debater without sources."""
    given = debater["retriever"]
    return [given] if isinstance(given, str) else list(given or ())


def rules_of(settings: EvidenceSettings, debater: Mapping[str, Any], appeared_at: str | None = None) -> Rules:
    """The filters and limits of a debater's searches; the debater's own ``k`` overrides the setting."""
    return Rules(
        debater.get("k", settings.k),
        settings.max_per_host,
        settings.published_before,
        settings.max_evidence_tokens,
        are_sifted=sites_of(settings) != ALL_SITES or bool(appeared_at and settings.claim_page == "left_out"),
    )


def reading_of(agent: str, name: str, retriever: Retriever) -> Reading:
    """The log entry of a source that was searched for a debater."""
    return {
        "agent": agent,
        "requested": name,
        "retriever": retriever.name,
        "passages": getattr(retriever, "passages", None),
        "encoder": getattr(retriever, "encoder", None),
    }


ONE_SEARCH = (*PAID, *SCHOLARLY)
"""Sources that are searched once for several queries: the others would be paid for, or take a call for keywords."""


@dataclass
class QueryForms:
    """Queries in the form that each source needs; the model is asked for keywords at most once."""

    state: DebaterState
    queries: Sequence[str]
    run: NodeContext
    keywords: str | None = None

    async def for_source(self, name: str) -> list[str]:
        """The queries; for a source in `ONE_SEARCH`, one text; for a scholarly source, its keywords."""
        kind = resolve(name)[0]
        if kind not in ONE_SEARCH:
            return [*self.queries]
        one_text = " ".join(self.queries[:2])
        if kind not in SCHOLARLY:
            return [one_text]
        if self.keywords is None:
            self.keywords = await keywords_of(self.state, one_text, self.run)
        return [self.keywords]


async def keywords_of(state: DebaterState, query: str, run: NodeContext) -> str:
    """The keywords of a query, separated by spaces; without a usable reply, the query itself, with a warning."""
    speaker = await run.speaker_of(state["debater"])
    try:
        return " ".join(await find_keywords(state["claim"], state["task"], query, speaker))
    except ReplyError as error:
        run.record.warn("query_not_formulated", f"{error.detail} The query was not changed.")
        return query


async def summarise_abstract(state: DebaterState, piece: Evidence, run: NodeContext) -> Evidence:
    """Summarises a scholarly source's piece as `source_summaries` says; if that fails, it warns and keeps the piece."""
    summariser = run.settings.source_summaries
    if summariser == "none" or piece["retrievals"][0]["retriever"] not in SCHOLARLY or page_of(piece, run):
        return piece
    try:
        if summariser == "model":
            speaker = await run.speaker("source_summariser")
            read = shown_whole(piece) if is_short(piece["text"], MOST_SUMMARISED_TOKENS) else piece
            short = await summarise_evidence(state["claim"], state["task"], read, speaker)
            return with_summary(piece, short["text"], run.settings)
        summary = (await open_summariser(summariser)).summarise(piece["text"])
        return with_summary(piece, await in_time(summary, "summariser"), run.settings)
    except WorldError as error:
        run.record.warn("source_not_summarised", f"{piece['id']}: {error.detail} The abstract itself is shown.")
        return piece


def with_summary(piece: Evidence, text: str, settings: EvidenceSettings) -> Evidence:
    """The piece with a summary, cut to ``max_evidence_tokens``, instead of its text."""
    return with_text(piece, beginning(clean(text), settings.max_evidence_tokens))


def with_text(piece: Evidence, text: str) -> Evidence:
    """The piece with a summary instead of its text, and therefore with a new id."""
    text = clean(text)
    if not text:
        raise WorldError("The summary has no visible text.", kind="empty")
    return {**shown_whole(piece), "text": text, "id": evidence_id(piece["source"], text), "summary_of": piece["text"]}


def shown_whole(piece: Evidence) -> Evidence:
    """The piece without the mark that it is shown in part."""
    whole: Evidence = {**piece}
    whole.pop("shown", None)
    return whole
