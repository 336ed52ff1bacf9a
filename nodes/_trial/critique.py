"""The end of a round: reflections, the critic, the court, and the reasons to stop (PROClaim, sections 2.5 and 2.6)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NotRequired

from langgraph.types import Send
from moot.core.errors import ReplyError
from moot.nodes._models.reply_limits import LONG_REPLY_TOKENS
from moot.nodes._records.entries import OPPOSITE, Side, StopReason, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import is_spent, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import TrialState
from moot.nodes._runtime.turns import Known, Said, Started, outcome_of, tells
from moot.nodes._steps.score import average
from moot.nodes._texts.replies import Reply
from moot.nodes._trial.courtroom import (
    BEST_EXHIBITS,
    SCORE_DECIMALS,
    SIDES,
    Share,
    Texts,
    case_of,
    exhibits_by_setting,
    is_above,
    on_record,
    own_turn,
    rank_by_weight,
    show_best,
    show_recent,
    show_record,
    show_round,
    show_statements,
    side_name,
    side_of,
    speaker_node,
    statements,
    this_round,
    to_counsel,
    turn_starter,
    turns_in_round,
    visible_exhibits,
)
from moot.nodes._trial.trial_settings import TrialSettings
from moot.retrievers import Evidence

# --- reflections ------------------------------------------------------------------------------------------------------


def reflection_score(logic: float, novelty: float, rebuttal: float) -> float:
    """The reflection score of a side: 0.4 logic + 0.3 novelty + 0.3 rebuttal (PROClaim, Eq. 2), all in [0, 1]."""
    return round(0.4 * logic + 0.3 * novelty + 0.3 * rebuttal, SCORE_DECIMALS) + 0.0  # never -0.0


NEED = " In `discovery_need`, say in one sentence which evidence, and about what, would mend the worst of them."
NO_NEED = " Leave `discovery_need` empty, as there is no further search."
"""What a counsel is asked for after its flaws, with and without a search to come."""


class ReflectionReply(Reply):
    """A counsel's assessment of its own side's case."""

    flaws: Texts
    logic: Share
    novelty: Share
    rebuttal: Share
    discovery_need: str
    refined_stance: str


class Reflection(Started):
    """A counsel's assessment of its side's case."""

    step: Literal["reflect"]
    flaws: list[str] | None
    logic: float | None
    novelty: float | None
    rebuttal: float | None
    discovery_need: str | None
    refined_stance: str | None
    outcome: str


@tells(Reflection)
def tell_reflection(turn: Turn, known: Known) -> Iterator[Said]:
    """The counsel's score of its own case, with its parts and flaws."""
    if (score := turn["scores"].get("reflection")) is None:
        yield Said("logic", "reflects", outcome=outcome_of(turn), who=side_name(turn))
        return
    parts = f"logic {turn['logic']:.2f}, novelty {turn['novelty']:.2f}, rebuttal {turn['rebuttal']:.2f}"
    yield Said("logic", "reflects", f"{score:.2f} ({parts})", " ".join(turn["flaws"] or []), who=side_name(turn))


def to_reflection(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s for the reflections of the sides that have given a usable argument in this debate.

    A side that concedes in this round does not reflect.

    Args:
        to: the node.
        state: the state of the debate in court.
    """
    spoken = {turn["side"] for turn in statements(state["turns"]) if turn["step"] == "argue"}
    return [to_counsel(to, state, "reflect", side) for side in SIDES if side in spoken.difference(conceding(state))]


def reflect_node() -> Node:
    """Writes a counsel's assessment of its own side's case into the counsel's turn, with the reflection score.

    The counsel is shown the last two arguments of each side.

    Reads: claim, task, phase, evidence, heard, turns and, if present, premises, rounds and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        side, argued = own_turn(state)["side"], [turn for turn in state["heard"] if turn["step"] == "argue"]
        own, others = ([turn for turn in argued if turn["side"] == party][-2:] for party in (side, OPPOSITE[side]))
        both = statements([*own, *others])
        return {
            **case_of(state),
            **side_of(state),
            "exhibits": show_record(state["evidence"], state["heard"], whole=settings.exhibits == "whole"),
            "statements": show_statements(
                both, "What the two sides argued last, in its order:", "Nothing was argued yet."
            ),
            "round": show_round(state, settings),
            "need": NEED if settings.searches_in_debates and has_further_round(state, settings) else NO_NEED,
        }

    return speaker_node(
        "proclaim/reflect",
        ReflectionReply,
        values,
        shown=exhibits_by_setting,
        scores=lambda reply: {"reflection": reflection_score(reply.logic, reply.novelty, reply.rebuttal)},
    )


# --- the critic -------------------------------------------------------------------------------------------------------


class SideScores(Reply):
    """How well one side did in a round."""

    reason: str
    logic: Share
    evidence: Share
    rebuttal: Share


class Recommendations(Reply):
    """Advice for each side, and queries that might help."""

    plaintiff: Texts
    defense: Texts
    queries: Texts


ADVICE = (
    "`recommendations` say for the `plaintiff` and for the `defense` what to do better, and in `queries` what to "
    "search for."
)
NO_ADVICE = "Leave the lists in `recommendations` empty, as no round follows."
"""What the critic is asked for, with and without a round to come."""


class CritiqueReply(Reply):
    """A critic's view of a round."""

    plaintiff: SideScores
    defense: SideScores
    unresolved_premises: Texts
    recommendations: Recommendations
    debate_resolved: bool


class OpenCritiqueReply(CritiqueReply):
    """A critic's view of a round, and the side with the weaker case."""

    most_tokens = LONG_REPLY_TOKENS
    weaker: Literal["plaintiff", "defense", "neither"]


WEAKER = (
    "In `weaker`, name the side whose case the evidence bears out less, however well it was argued: plaintiff, defense "
    "or neither."
)
"""What the critic is asked for in the lean procedure."""


class Critique(Started):
    """A critic's view of a round; ``weaker`` exists in the lean procedure."""

    step: Literal["critique"]
    plaintiff: dict[str, Any] | None
    defense: dict[str, Any] | None
    unresolved_premises: list[str] | None
    recommendations: dict[str, list[str]] | None
    debate_resolved: bool | None
    weaker: NotRequired[str | None]
    outcome: str


@tells(Critique)
def tell_critique(turn: Turn, known: Known) -> Iterator[Said]:
    """The critic's scores of both sides, whether the debate is resolved, and what is still open."""
    if turn["debate_resolved"] is None:
        yield Said("critique", "scores", outcome=outcome_of(turn))
        return
    for side in SIDES:
        if rating := turn[side]:
            scores = (
                f"logic {rating['logic']:.2f}, evidence {rating['evidence']:.2f}, rebuttal {rating['rebuttal']:.2f}"
            )
            yield Said("critique", "scores", f"{side}: {scores}", rating["reason"])
    if turn["debate_resolved"]:
        yield Said("critique", "finds", f"the debate resolved{_early_note(turn, known)}", kind="finding")
    if still := "; ".join(turn["unresolved_premises"] or []):
        yield Said("critique", "finds", f"still open: {still}")


def _early_note(turn: Turn, known: Known) -> str:
    """A note if a decision to end the debate has no effect in this round; empty otherwise."""
    if not known.settings.progressive_retrieval:
        return " (which does not end it: without progressive retrieval all rounds take place)"
    least = known.settings.min_rounds
    if turn["round"] >= least:
        return ""
    if known.settings.procedure == "lean" and turn["step"] == "critique":
        return f" (before round {least}, this ends it only if the weaker side concedes)"
    return f" (which does not end it before round {least})"


def critique_node() -> Node:
    """Adds the critic's turn.

    Reads: claim, task, phase, turns, evidence and, if present, premises, rounds and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        record, history = on_record(state["evidence"], state["turns"]), statements(state["turns"])
        return {
            **case_of(state),
            "exhibits": (
                show_best(record, history)
                if settings.exhibits == "best"
                else show_record(record, history, whole=settings.exhibits == "whole")
            ),
            "statements": show_statements(history, "What was said so far, in its order:", "Nothing was said so far."),
            "round": show_round(state, settings),
            "next": ADVICE if has_further_round(state, settings) else NO_ADVICE,
            "weaker": WEAKER if settings.procedure == "lean" else "",
        }

    def shown(state: TrialState, settings: TrialSettings) -> list[Evidence]:
        record = on_record(state["evidence"], state["turns"])
        whole = settings.exhibits == "whole" or (settings.exhibits == "best" and len(record) <= BEST_EXHIBITS)
        cited = visible_exhibits(record, statements(state["turns"]), whole=whole)
        best = rank_by_weight(record)[:BEST_EXHIBITS] if settings.exhibits == "best" else []
        return [piece for piece in record if piece in cited or piece in best]

    begin = turn_starter("critic", "critique")
    return speaker_node("proclaim/critique", CritiqueReply, values, begin, shown=shown, lean=OpenCritiqueReply)


# --- the court --------------------------------------------------------------------------------------------------------


class ClosingReply(Reply):
    """Whether the court closes the debate."""

    reason: str
    close: bool


class Closing(Started):
    """Whether the court closes the debate."""

    step: Literal["close"]
    close: bool | None
    reason: str | None
    outcome: str


@tells(Closing)
def tell_closing(turn: Turn, known: Known) -> Iterator[Said]:
    """Whether the court closes the debate."""
    if turn["close"] is None:
        yield Said("close", "decides", outcome=outcome_of(turn))
        return
    found = f"to close the debate{_early_note(turn, known)}" if turn["close"] else "to go on"
    yield Said("close", "decides", found, turn["reason"], "finding")


def has_further_round(state: TrialState, settings: TrialSettings) -> bool:
    """Whether this round is not the last one that the settings allow."""
    return this_round(state) < settings.rounds_of(state["phase"])


def may_close(state: TrialState, settings: TrialSettings) -> bool:
    """Whether the court is asked after this round whether to close the debate.

    The court is not asked if its decision could change nothing. There are four such cases: without progressive
    retrieval; before ``min_rounds``; after the last round; and if novelty is exhausted, which comes before the court in
    `stop_reason`. In the lean procedure, there is one more: if a side concedes.

    Args:
        state: the state of the debate in court.
        settings: the trial's settings.
    """
    rounds = this_round(state)
    if not settings.progressive_retrieval or rounds < settings.min_rounds or not has_further_round(state, settings):
        return False
    if settings.procedure == "lean" and conceding(state):
        return False
    # Exhausted novelty comes before the court in `stop_reason`.
    return not is_exhausted(values_by_round(state["turns"], rounds)["novelty"], settings.exhaustion)


def conceding(state: TrialState) -> list[Side]:
    """The sides that concede in this round; always empty in the full procedure."""
    argued = turns_in_round(state["turns"], this_round(state), "argue")
    return [turn["side"] for turn in argued if turn.get("concedes")]


def is_conceded(critique: Mapping[str, Any] | None, sides: Collection[str]) -> bool:
    """Whether the side with the weaker case is among the sides that concede; if neither is weaker, any counts."""
    weaker = critique.get("weaker") if critique else None
    return weaker in sides or (weaker == "neither" and bool(sides))


def court_node() -> Node:
    """Adds the court's turn, which decides whether to close the debate.

    Reads: claim, task, phase, turns and, if present, premises, rounds and debater.
    """
    return speaker_node(
        "proclaim/close",
        ClosingReply,
        lambda state, settings: {
            **case_of(state),
            "statements": show_recent(statements(state["turns"]), "Nothing was said yet."),
            "round": show_round(state, settings),
        },
        turn_starter("court", "close"),
    )


# --- the reasons to stop ----------------------------------------------------------------------------------------------

CONSECUTIVE_ROUNDS = 2
"""Number of last values that must all be below the threshold: changes for a plateau, mean novelties for exhaustion."""


def reflection_total(plaintiff: float | None, defense: float | None) -> float | None:
    """The sum of both sides' reflection scores of a round, in [0, 2]; None if either is unknown."""
    return None if plaintiff is None or defense is None else round(plaintiff + defense, SCORE_DECIMALS)


def changes(totals: Sequence[float | None]) -> list[float | None]:
    """The absolute differences between consecutive totals; None if one of the two is unknown."""
    return [
        None if before is None or now is None else round(abs(now - before), SCORE_DECIMALS)
        for before, now in pairwise(totals)
    ]


def is_plateau(totals: Sequence[float | None], least: float = 0.05) -> bool:
    """Whether the last two changes of the reflection total are known and below ``least`` (PROClaim, section 2.5, i)."""
    return _all_below(changes(totals), least)


def is_exhausted(novelties: Sequence[float | None], least: float = 0.10) -> bool:
    """Whether the mean novelty is known and below ``least`` in the last two rounds (PROClaim, section 2.5, iii)."""
    return _all_below(novelties, least)


def _all_below(values: Sequence[float | None], least: float) -> bool:
    """Whether the last `CONSECUTIVE_ROUNDS` values are known and below ``least``; False if there are fewer values."""
    last = values[-CONSECUTIVE_ROUNDS:]
    return len(last) == CONSECUTIVE_ROUNDS and all(value is not None and is_above(least, value) for value in last)


def stop_reason(
    *,
    rounds: int,
    totals: Sequence[float | None],
    novelties: Sequence[float | None],
    resolved: bool,
    closed: bool,
    conceded: bool = False,
    min_rounds: int = 2,
    max_rounds: int = 10,
    plateau: float = 0.05,
    exhaustion: float = 0.10,
) -> StopReason | None:
    """The reason to stop a debate after a round; None if the debate continues (PROClaim, section 2.5).

    If the weaker side concedes (``conceded``), a debate that the critic finds resolved also ends before ``min_rounds``.
    """
    # Of several reasons, the first counts.
    reasons: list[tuple[StopReason, bool]] = [
        ("reflection_plateau", is_plateau(totals, plateau)),
        ("critic_resolved", resolved),
        ("novelty_exhausted", is_exhausted(novelties, exhaustion)),
        ("judicial_signal", closed),
    ]
    if rounds >= min_rounds:
        for reason, holds in reasons:
            if holds:
                return reason
    if resolved and conceded:
        return "critic_resolved"
    return "max_rounds" if rounds >= max_rounds else None


# --- the end of a round -----------------------------------------------------------------------------------------------


def close_round_node() -> Node:
    """Counts and records the round, and decides whether the debate stops.

    Reads: phase, rounds, turns. If the debate stops, the node adds the debate's entry to ``debates``. But if the
    debate stops and a side gave no usable argument in any round, the trial fails, because the panel must hear both
    sides. In the switched debate, or if a ceiling prevented an argument, there is only a warning.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        settings, turns, rounds = run.settings, state["turns"], this_round(state)
        course = values_by_round(turns, rounds)
        reason = "max_rounds" if rounds >= settings.rounds_of(state["phase"]) else None
        if settings.progressive_retrieval:
            reason = stop_reason(
                rounds=rounds,
                totals=course["reflection_total"],
                novelties=course["novelty"],
                resolved=_any_turn_has(turns, rounds, "critique", "debate_resolved"),
                closed=_any_turn_has(turns, rounds, "close", "close"),
                conceded=is_conceded(next(iter(turns_in_round(turns, rounds, "critique")), None), conceding(state)),
                min_rounds=settings.min_rounds,
                max_rounds=settings.rounds_of(state["phase"]),
                plateau=settings.plateau,
                exhaustion=settings.exhaustion,
            )
        if reason is None and is_spent(state):
            reason = "budget_exhausted"
        continues = "min_rounds" if rounds < settings.min_rounds else "unresolved"
        found = reason or (continues if settings.progressive_retrieval else "every_round")
        record = recorded_round(rounds, state["phase"], reason=found)
        if reason is None:
            return {"rounds": rounds, **record}
        # The panel must hear both sides.
        _check_arguments(state, run)
        entry = {"phase": state["phase"], "stop_reason": reason, "rounds": rounds, **course}
        return {"rounds": rounds, "stop_reason": reason, "debates": [entry], **record}

    return Node(step)


def _any_turn_has(turns: Sequence[Turn], round: int, step: str, field: str) -> bool:
    return any(turn.get(field) is True for turn in turns_in_round(turns, round, step))


def _check_arguments(state: TrialState, run: NodeContext) -> None:
    heard = {turn["side"] for turn in state["turns"] if turn.get("argument")}
    silent = " and the ".join(side for side in SIDES if side not in heard)
    cut = any(stopped_by_ceiling(turn) for turn in state["turns"] if turn["step"] == "argue")
    if silent and state["phase"] == "primary" and not cut:
        raise ReplyError(
            f"The {silent} gave no usable argument in any round, and the panel must hear both sides. Try another "
            "model, or another value of `structured_output`.",
            "unparsed",
        )
    if silent:
        when = "after the sides were switched" if state["phase"] == "switched" else "before the budget was used up"
        run.record.warn("side_not_heard", f"The {silent} gave no usable argument {when}.")


def values_by_round(turns: Sequence[Turn], rounds: int) -> dict[str, Any]:
    """The fields of a `CourtDebate` with values by round, and the reasons why the sides' searches ended."""
    sides = {side: [_reflection_score(turns, round, side) for round in range(1, rounds + 1)] for side in SIDES}
    totals = [reflection_total(*scores) for scores in zip(*sides.values(), strict=True)]
    novelty = [_mean_novelty(turns, round) for round in range(1, rounds + 1)]
    ended = {turn["side"]: turn["ended"] for turn in turns if turn.get("ended")}
    return {"reflection": sides, "reflection_total": totals, "novelty": novelty, "retrieval_ended": ended}


def _reflection_score(turns: Sequence[Turn], round: int, side: str) -> float | None:
    reflections = turns_in_round(turns, round, "reflect")
    return next((turn["scores"].get("reflection") for turn in reflections if turn["side"] == side), None)


def _mean_novelty(turns: Sequence[Turn], round: int) -> float | None:
    """The mean novelty of a round's candidates: the mean of each turn, weighted by its number of candidates."""
    weighted = [
        value
        for turn in turns_in_round(turns, round, "discover")
        for value in [turn["scores"].get("novelty")] * len(turn["evidence_ids"])
        if value is not None
    ]
    return average(weighted)
