"""Finds the claims of a text: extracts, rates and rewrites the claims of each part, then joins equal claims.

The steps follow the literature on check-worthiness (Hassan et al., KDD 2017; Nakov et al., CheckThat!),
and on decontextualisation with minimal changes (Choi et al., TACL 2021, arXiv:2102.05169). Every quote that a
model returns must occur in the part of the text that the model read; otherwise it is listed in ``dropped``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from textwrap import shorten
from typing import Any, Literal, cast

from langgraph.types import Send
from moot.core.errors import BUDGET_EXHAUSTED, BudgetExhausted, MootError, ReplyError, UserError, WorldError
from moot.nodes._claims.bylines import byline_date
from moot.nodes._claims.places import (
    FUNCTION_WORDS,
    months,
    name_in,
    parts_of,
    place_in,
    vocabulary,
    words_filled_in,
)
from moot.nodes._claims.state import (
    FINDER,
    LONGEST_TEXT,
    RATER,
    WRITER,
    Claim,
    ClaimsInput,
    ClaimsState,
    Dropped,
    Filled,
    PartState,
    Rated,
    Ratings,
    Step,
)
from moot.nodes._models.budget import SETTINGS, Budget
from moot.nodes._models.call.fitting import reply_limit
from moot.nodes._models.contexts import BYTES_PER_TOKEN, weight_of
from moot.nodes._models.reply_limits import LONG_REPLY_TOKENS
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.spend import PlannedCall
from moot.nodes._models.structured import own_response_format
from moot.nodes._records.entries import LONGEST_SPEAKER, Warned
from moot.nodes._records.reducers import OPENING, overwrite
from moot.nodes._runtime.ceilings import ceilings_and_spending, open_budget
from moot.nodes._runtime.document import NOTED, demo_model_warnings, usage
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._steps.reader import figures
from moot.nodes._texts.quotes import LONGEST_SHOWN, fold_quote
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.task import LONGEST_CLAIM, check_origin
from moot.prompts._files import as_data, enclose, join_blocks
from moot.retrievers._evidence import clean

EXTRACT, RATE, REWRITE, SAME = "claims/extract", "claims/rate", "claims/rewrite", "claims/same"
"""The names of the prompts."""
GRAPH = "find_claims"
BEGINNING = 2000
"""Maximum number of characters from the beginning of the text in the writer's prompt.

The prompt also contains up to half as many characters from just before the part."""
LONGEST_NOTE = 300
"""Maximum number of characters of a claim that is not used, in the note at its quote."""
OPTIONAL = ("title", "source", "url")
ONE_EACH = "Write one claim for each quote; a quote with several statements becomes one sentence that holds them all."
SEVERAL = (
    "If a quote says several things that can be checked on their own, write a claim for each of them, all with the "
    'number of that quote. Each has to be complete by itself. Use the words of the quote here, too: of "the 40-metre '
    'tower, built in 1905" make "It is a 40-metre tower", not "It is 40 metres high". Do not take apart what only '
    "makes sense together, such as a comparison, a cause or a condition. Else write one claim for the quote."
)


# --- the text ---------------------------------------------------------------------------------------------------------


def check_text(asked: Mapping[str, Any]) -> ClaimsInput:
    """Checks the input and sorts its sections; a title, source or url that is not a text becomes None; blocking.

    A text without a date gets the one of its byline, if it has one.
    """
    text = asked.get("text")
    if not isinstance(text, str) or not text.strip():
        raise UserError('There is no text. The input must be {"text": "..."}.', kind="invalid_given")
    if len(text) > LONGEST_TEXT:
        raise UserError(
            f"The text has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed. Give a part of it.",
            kind="invalid_given",
        )
    named = {key: clean(value) if isinstance(value := asked.get(key), str) else None for key in OPTIONAL}
    try:
        text_date = check_origin(asked.get("date"), None).get("claim_date")
    except UserError as error:
        raise UserError(error.detail.replace("claim_date", "date"), kind=error.kind) from error
    sections = asked.get("sections") or []
    if not isinstance(sections, list) or not all(map(_is_section, sections)):
        raise UserError(
            '`sections` must be a list of {"start": 0, "page": 1 or null, "heading": "..."}.', kind="invalid_given"
        )
    by_start = sorted(sections, key=lambda section: section["start"])
    checked: Any = {**named, "text": text, "date": text_date or byline_date(text), "sections": by_start}
    if isinstance(note := asked.get("note"), str) and clean(note):
        checked["note"] = clean(note)
    return cast(ClaimsInput, checked)


def _is_section(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"start", "page", "heading"}:
        return False
    page_is_valid = type(value["page"]) in (int, type(None))
    return type(value["start"]) is int and page_is_valid and isinstance(value["heading"], str)


def read_text_node() -> Node:
    """Checks the text, divides it into parts, and opens the store and the budget; a failure is written to ``error``.

    Reads: text, title, source, url, date, sections, note.
    """

    async def step(state: ClaimsState, run: NodeContext) -> dict[str, Any]:
        blank: dict[str, Any] = {
            key: overwrite([]) for key in ("claims", "left_out", "dropped", "unread", "calls", "warnings")
        }
        warned: list[Warned] = []
        blank |= {"depth": overwrite(0), "error": None, "status": "failed", "parts": [], "usage": usage([])}
        try:
            asked = await asyncio.to_thread(check_text, state)
            if asked.get("date") and not state.get("date"):
                detail = f"The text's date is taken from its byline: {asked['date']}."
                told: Warned = {"kind": "byline_date", "where": OPENING, "detail": detail}
                warned.append(told)
            if note := asked.get("note"):
                detail = f"{asked.get('source') or 'The text'}: {note}."
                warned.append({"kind": NOTED, "where": OPENING, "detail": detail})
            blank["warnings"] = overwrite(warned)
            parts = await asyncio.to_thread(parts_of, asked["text"], run.settings.part_words)
            await run.session.begin(GRAPH, cast(Mapping[str, Any], asked), run.settings)
            models = {choose_model(run.settings, role).model for role in run.settings.roles()}
            await open_budget(run.settings, models, [], run.budget, run.session.lost_spend(run.budget))
        except MootError as error:
            return {**blank, "error": error.record(OPENING)}
        return {**blank, **asked, "parts": parts}

    return Node(step, always=True, opens=GRAPH)


def to_parts(state: ClaimsState) -> list[Send]:
    """Builds the `Send`s of all parts of the text to the node ``part``.

    Args:
        state: the state of the graph that finds claims.
    """
    asked = {key: state.get(key) for key in ClaimsInput.__annotations__}
    return [Send("part", {"asked": asked, "part": part}) for part in state["parts"]]


# --- a part -----------------------------------------------------------------------------------------------------------

TakeStep = Callable[[PartState, Speaker, NodeContext], Awaitable[dict[str, Any]]]


def part_node(role: str, prompt: str, take_step: TakeStep) -> Node:
    """A node that runs one step for a part of the text; without a usable reply, the part goes to ``unread``."""
    is_first = prompt == EXTRACT

    async def step(state: PartState, run: NodeContext) -> dict[str, Any]:
        part = state["part"]
        done: dict[str, Any] = {}
        try:
            if is_first and run.budget.is_bounded:
                await begin_part(run, part["start"], await _planned_calls(state, run))
            run = replace(run, budget=budget_of(run, part["start"]))
            done = await take_step(state, await run.speaker(role), run)
        except ReplyError as error:
            return {"found": [], "unread": [{**part, "why": error.detail, "kind": error.kind}]}
        finally:
            if not done.get("found"):
                end_part(run, part["start"])
        return done

    return Node(step, prompts=(prompt,), idle=None if is_first else lambda state, settings: not state.get("found"))


async def _planned_calls(state: PartState, run: NodeContext) -> list[PlannedCall]:
    """The estimated calls of a part's three steps."""
    finder, rater, writer = [await run.speaker(role) for role in (FINDER, RATER, WRITER)]
    values = _prompt_values(state)
    first = plan_call(finder, EXTRACT, values, FoundReply)
    writer_values = values | {"how_many": SEVERAL, **_earlier_text(state)}
    # The quotes in the second and third prompt are counted as the longest possible reply to the first prompt.
    return [
        first,
        plan_call(rater, RATE, values, RatingsReply, first.reply_tokens),
        plan_call(writer, REWRITE, writer_values, RewrittenReply, first.reply_tokens),
    ]


class FoundClaim(Reply):
    """Words of the text that make a claim, and who makes it."""

    quote: Text
    speaker: str


class FoundReply(Reply):
    """The claims of a part."""

    most_tokens = LONG_REPLY_TOKENS
    claims: list[FoundClaim]


def extract_claims_node() -> Node:
    """Finds the quotes of a part that make claims; a model's quotes that are not in the part go to ``dropped``.

    Reads: asked, part.
    """

    async def extract(state: PartState, speaker: Speaker, run: NodeContext) -> dict[str, Any]:
        asked, part = state["asked"], state["part"]
        reply = await speaker.ask(EXTRACT, _prompt_values(state), FoundReply)
        found: dict[tuple[int, int], dict[str, Any]] = {}
        dropped: list[Dropped] = []
        for claim in reply.claims:
            place = place_in(asked["text"], part, claim.quote, asked.get("sections") or [])
            if place is None:
                dropped.append(_dropped("extract", claim.quote, "", "The quote is not in this part of the text."))
                continue
            name = " ".join(clean(claim.speaker).split())
            speaker_name = name_in(asked["text"], name) if len(name) <= LONGEST_SPEAKER else None
            if name and not speaker_name:
                problem = "has too long a name" if len(name) > LONGEST_SPEAKER else "is not in the text"
                run.record.warn("unknown_speaker", f"A claim's speaker, {name[:LONGEST_SHOWN]!r}, {problem}.")
            found.setdefault((place["start"], place["end"]), {**place, "speaker": speaker_name})
        return {"found": [found[at] for at in sorted(found)], "dropped": dropped}

    return part_node(FINDER, EXTRACT, extract)


class Rating(Reply):
    """How much a quote is worth checking."""

    number: int
    checkable: Literal[0, 1, 2]
    specific: Literal[0, 1, 2]
    public_interest: Literal[0, 1, 2]
    kind: Literal["fact", "forecast", "opinion", "other"]
    reason: Text


class RatingsReply(Reply):
    """A rating for each quote."""

    most_tokens = LONG_REPLY_TOKENS
    ratings: list[Rating]


def score_of(ratings: Ratings) -> float:
    """The check-worthiness of a claim, from 0 to 1; 0 if ``checkable`` or ``public_interest`` is 0."""
    if not ratings["checkable"] or not ratings["public_interest"]:
        return 0.0
    return (2 * ratings["checkable"] + ratings["specific"] + ratings["public_interest"]) / 8


def rate_claims_node() -> Node:
    """Rates how much each quote in ``found`` is worth checking.

    Quotes with a score below `min_score` go to ``left_out``. Quotes without a rating are kept, with a note.

    Reads: asked, part, found.
    """

    async def rate(state: PartState, speaker: Speaker, run: NodeContext) -> dict[str, Any]:
        found = state["found"]
        reply = await speaker.ask(RATE, _prompt_values(state), RatingsReply)
        # If several ratings have the same number, the first counts.
        rating_by_number = {rating.number: rating for rating in reversed(reply.ratings)}
        dropped = [
            _dropped("rate", "", rating.reason, f"There is no quote {rating.number}.")
            for rating in reply.ratings
            if not 0 < rating.number <= len(found)
        ]
        kept: list[dict[str, Any]] = []
        left_out: list[Rated] = []
        for number, quote in enumerate(found, 1):
            rating = rating_by_number.get(number)
            if rating is None:
                unrated = {"score": None, "reason": "", "ratings": None, "kind": None, "note": "It was not rated."}
                kept.append({**quote, **unrated})
                continue
            ratings: Any = rating.model_dump(include={*Ratings.__annotations__})
            rated: Any = {**quote, "score": round(score_of(ratings), 3), "reason": clean(rating.reason)}
            rated |= {"ratings": ratings, "kind": rating.kind, "note": ""}
            (kept if rated["score"] >= run.settings.min_score else left_out).append(rated)
        return {"found": kept, "left_out": left_out, "dropped": dropped}

    return part_node(RATER, RATE, rate)


class Rewritten(Reply):
    """A claim that stands alone."""

    number: int
    claim: Text


class RewrittenReply(Reply):
    """A claim, or several, for each quote."""

    most_tokens = LONG_REPLY_TOKENS
    claims: list[Rewritten]


def rewrite_claims_node() -> Node:
    """Rewrites each quote in ``found`` as one or several claims that can be understood without the text.

    A claim is refused if it is too long, or contains words that the text does not support. A quote whose claims are
    refused, or that has none, is itself the claim, with a note. With the setting ``split`` off, each quote has one
    claim; further ones go to ``dropped``.

    Reads: asked, part, found.
    """

    async def rewrite(state: PartState, speaker: Speaker, run: NodeContext) -> dict[str, Any]:
        found, asked, split = state["found"], state["asked"], run.settings.split
        values = _prompt_values(state) | {
            "quotes": _numbered_quotes(found, speakers=True),
            "how_many": SEVERAL if split else ONE_EACH,
            **_earlier_text(state),
        }
        reply = await speaker.ask(REWRITE, values, RewrittenReply)
        await asyncio.to_thread(months)  # fills its cache, in a thread because it reads files
        texts = [asked["text"], *(str(asked.get(key) or "") for key in ("title", "source"))]
        known = await asyncio.to_thread(vocabulary, texts)
        claims: list[Claim] = []
        dropped: list[Dropped] = []
        written: dict[int, list[str]] = {}
        for one in reply.claims:
            if 0 < one.number <= len(found):
                written.setdefault(one.number, []).append(" ".join(clean(one.claim).split()))
            else:
                dropped.append(_dropped("rewrite", "", one.claim, f"There is no quote {one.number}."))
        for number, quote in enumerate(found, 1):
            kept: list[Claim] = []
            refused: list[Dropped] = []
            for text in written.get(number, []):
                filled, unknown = words_filled_in(text, quote["quote"], known, asked.get("date"))
                if unknown:
                    refused.append(_dropped("rewrite", quote["quote"], text, f"Not in the text: {', '.join(unknown)}."))
                elif len(text) > LONGEST_CLAIM:
                    refused.append(_dropped("rewrite", quote["quote"], text, "The claim is too long."))
                elif kept and not split:
                    dropped.append(_dropped("rewrite", quote["quote"], text, "The quote has an earlier claim."))
                else:
                    kept.append(_claim(quote, text, asked, filled=filled))
            if not kept or (split and refused):
                own = " ".join(clean(quote["quote"]).split())
                if len(own) > LONGEST_CLAIM:
                    refused.append(_dropped("rewrite", quote["quote"], own, "The quote is too long."))
                else:
                    kept.append(_claim(quote, own, asked, note=_why_quoted(refused)))
                    refused = []
            claims += kept
            dropped += refused
        return {"found": [], "claims": claims, "dropped": dropped}

    return part_node(WRITER, REWRITE, rewrite)


def _claim(
    quote: Mapping[str, Any], text: str, asked: ClaimsInput, *, filled: Sequence[Filled] = (), note: str = ""
) -> Claim:
    notes = " ".join(filter(None, (quote["note"], note)))
    fields = {"id": "", "claim": text, "date": asked.get("date"), "filled": [*filled], "also": [], "note": notes}
    return cast(Claim, {**quote, **fields})


def _why_quoted(refused: Sequence[Dropped]) -> str:
    """Why a quote is its own claim."""
    if not refused:
        return "These are the words of the text: no claim was written for them."
    claims = "; ".join(f"“{shorten(one['claim'], LONGEST_NOTE, placeholder=' ...')}” ({one['why']})" for one in refused)
    return f"These are the words of the text, because what was written for them is not used: {claims}"


def _dropped(step: Step, quote: str, claim: str, why: str) -> Dropped:
    return {"step": step, "quote": quote, "claim": claim, "why": why}


def _prompt_values(state: PartState) -> dict[str, str]:
    asked, part = state["asked"], state["part"]
    origin = {"title": asked.get("title"), "date": _with_weekday(asked.get("date") or "")}
    about = [as_data(key, value) for key, value in origin.items() if value]
    return {
        "about": enclose("about", about) if about else "(title and date are not known)",
        "part": as_data("part", asked["text"][part["start"] : part["end"]]),
        "quotes": _numbered_quotes(state.get("found") or []),
    }


def _earlier_text(state: PartState) -> dict[str, str]:
    """The beginning of the text, and the text just before the part, for the writer's prompt."""
    text, start = state["asked"]["text"], state["part"]["start"]
    before = text[max(0, start - BEGINNING // 2) : start].strip()
    return {
        "opening": as_data("opening", text[:BEGINNING]) if start else "(the part is the beginning)",
        "before": as_data("before", before) if before else "(nothing)",
    }


def _numbered_quotes(found: Sequence[Mapping[str, Any]], *, speakers: bool = False) -> str:
    blocks = []
    for number, claim in enumerate(found, 1):
        blocks.append(as_data("quote", claim["quote"], number=str(number)))
        if speakers and claim["speaker"]:
            blocks.append(as_data("speaker", claim["speaker"], of=str(number)))
    return join_blocks(blocks, empty="(none)")


def _with_weekday(iso_date: str) -> str:
    """A day with its weekday, so that a model can resolve "on Monday"; a year, a month or "" stays unchanged."""
    return f"{date.fromisoformat(iso_date):%A}, {iso_date}" if len(iso_date) == len("2000-01-01") else iso_date


# --- all claims -------------------------------------------------------------------------------------------------------


class SameGroup(Reply):
    """Claims that say the same."""

    numbers: list[int]


class SameReply(Reply):
    """All groups of claims that say the same."""

    groups: list[SameGroup]


def join_duplicates_node() -> Node:
    """Joins claims with the same meaning, then keeps and numbers the `max_claims` claims with the highest scores.

    Claims beyond `max_claims` move to ``left_out``. If the model gives no usable reply, only claims with the same words
    are joined, with a warning.

    Reads: claims, left_out.
    """

    async def step(state: ClaimsState, run: NodeContext) -> dict[str, Any]:
        claims = join_same_words(sorted(state["claims"], key=lambda one: (one["start"], one["end"])))
        if len(claims) > 1:
            try:
                claims = join(claims, await _ask_for_duplicates(claims, await run.speaker(WRITER)))
            except ReplyError as error:
                run.record.warn("not_joined", f"Only claims with the same words are joined: {error.detail}")
        best = sorted(claims, key=_rank)[: run.settings.max_claims]
        kept = [claim for claim in claims if any(claim is other for other in best)]
        others = [{key: one[key] for key in Rated.__annotations__} for one in claims if one not in kept]  # type: ignore[literal-required]
        numbered = [{**one, "id": f"c{number}"} for number, one in enumerate(kept, 1)]
        left_out = sorted([*state["left_out"], *cast(Any, others)], key=lambda one: one["start"])
        return {"claims": overwrite(numbered), "left_out": overwrite(left_out)}

    return Node(step, prompts=(SAME,))


async def _ask_for_duplicates(claims: Sequence[Claim], speaker: Speaker) -> list[list[int]]:
    shown = join_blocks((as_data("claim", one["claim"], number=str(n)) for n, one in enumerate(claims, 1)), empty="")
    reply = await speaker.ask(SAME, {"claims": shown}, SameReply)
    return [group.numbers for group in reply.groups]


def join_same_words(claims: Sequence[Claim]) -> list[Claim]:
    """Joins claims with the same words, whatever their case and typography; keeps the order of the claims."""
    groups: dict[str, list[int]] = {}
    for number, one in enumerate(claims, 1):
        groups.setdefault(fold_quote(one["claim"]).casefold(), []).append(number)
    return join(claims, list(groups.values()))


def join(claims: Sequence[Claim], groups: Sequence[Sequence[int]]) -> list[Claim]:
    """Joins the claims of each group (numbers from 1) into its fullest; ``also`` of this one has the others' places."""
    joined: dict[int, Claim] = {}
    taken: set[int] = set()
    for group in groups:
        rest = {n: figures(claims[n - 1]["claim"]) for n in group if 0 < n <= len(claims) and n not in taken}
        while rest:
            # The fullest claim has the most figures, then the most different words, then the highest score.
            first = min(rest, key=lambda n: (-len(rest[n]), -_count_words(claims[n - 1]), _rank(claims[n - 1]), n))
            # Claims with a figure that the fullest claim does not contain are joined among themselves.
            same = [n for n in rest if rest[n] <= rest[first]]
            rest = {n: found for n, found in rest.items() if n not in same}
            others = [claims[n - 1] for n in same if n != first]
            places = [{key: one[key] for key in ("quote", "start", "end", "page", "heading")} for one in others]
            also = [*claims[first - 1]["also"], *places, *(place for one in others for place in one["also"])]
            joined[first] = {**claims[first - 1], "also": cast(Any, sorted(also, key=lambda place: place["start"]))}
            taken |= set(same)
    return [joined.get(n, one) for n, one in enumerate(claims, 1) if n in joined or n not in taken]


def _rank(claim: Claim) -> tuple[bool, float]:
    """Sorts claims with the highest scores first, and claims without a rating last."""
    return claim["score"] is None, -(claim["score"] or 0)


def _count_words(claim: Claim) -> int:
    """The number of different words of a claim, without function words."""
    return len(vocabulary([claim["claim"]]) - FUNCTION_WORDS)


def finish_claims_node() -> Node:
    """Records the run's status and cost, an error if no part was read, and warnings.

    The node warns if the budget did not allow for every part, and if a demo model was used.

    Reads: parts, unread, calls and, if present, error.
    """

    async def step(state: ClaimsState, run: NodeContext) -> dict[str, Any]:
        error, unread = state.get("error"), state["unread"]
        if not error and {(one["start"], one["end"]) for one in unread} == {
            (one["start"], one["end"]) for one in state["parts"]
        }:
            error = WorldError(unread[0]["why"], kind=unread[0]["kind"]).record("part")
        run.session.finished = "failed" if error else "done"
        bounds = {name: getattr(run.settings, setting) for name, setting in SETTINGS.items()}
        lost, seconds = run.session.lost_spend(run.budget), round(run.budget.elapsed(), 3)
        spent = ceilings_and_spending(bounds | {"prices": run.budget.prices}, state["calls"], seconds, lost)
        took = usage(state["calls"]) | ({"ceilings": spent} if spent else {})
        warned: list[Warned] = []
        if cut := sum(one["kind"] == BUDGET_EXHAUSTED for one in unread):
            detail = (
                f"The budget did not allow for every part of the text: {cut} of {len(state['parts'])} were not read."
            )
            warned.append({"kind": BUDGET_EXHAUSTED, "where": "part", "detail": detail})
        warned += demo_model_warnings(state["calls"], "claims")
        update: dict[str, Any] = {"status": run.session.finished, "usage": took, "error": error}
        return update | ({"warnings": warned} if warned else {})

    return Node(step, always=True)


def plan_call(
    speaker: Speaker, prompt: str, values: Mapping[str, str], reply: type[Reply], quotes: int = 0
) -> PlannedCall:
    """The planned call of a step, with its estimated size; ``quotes`` are further tokens that its prompt will have."""
    schema = json.dumps(own_response_format(reply))
    size = sum(map(weight_of, (*speaker.filled(prompt, values), schema))) + int(quotes * BYTES_PER_TOKEN)
    return PlannedCall(speaker.role, prompt, speaker.model.name, size, reply_limit(speaker.model, reply.most_tokens))


async def begin_part(run: NodeContext, part: int, calls: list[PlannedCall]) -> Budget:
    """Reserves the cost of a part's steps; waits while other parts run, because they may release budget."""
    of_part, of_run = Budget(parent=run.budget), run.budget
    budget: dict[str, Any] = {"prices": of_run.prices, "kept": [asdict(call) for call in calls]}
    was_refused = of_run.refused
    while True:
        try:
            await of_part.begin(budget)
        except BudgetExhausted:
            if not run.session.parts:
                raise
            of_run.refused = was_refused
            await of_run.wait_for_change()
        else:
            run.session.parts[part] = of_part
            return of_part


def end_part(run: NodeContext, part: int) -> None:
    """Ends a part that has ceilings of its own: releases its unused budget for other parts."""
    if budget := run.session.parts.pop(part, None):
        budget.release_held()


def budget_of(run: NodeContext, part: int) -> Budget:
    """The ceilings for the steps of a part; those of the run if the part has none of its own."""
    return run.session.parts.get(part, run.budget)
