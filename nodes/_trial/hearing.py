"""The statements in a round in court: the counsel's arguments and the experts' testimonies (PROClaim, section 2.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NotRequired

from langgraph.types import Send
from moot.nodes._records.entries import Side, Turn
from moot.nodes._runtime.node import Node
from moot.nodes._runtime.state import TrialState
from moot.nodes._runtime.turns import Citation, Known, Said, Started, new_turn, outcome_of, tells
from moot.nodes._texts.replies import Quote, Reply, Text
from moot.nodes._trial.courtroom import (
    LONGEST_FIELD,
    SIDES,
    all_exhibits,
    case_of,
    exhibits_by_setting,
    one_line,
    own_turn,
    show_recent,
    show_record,
    show_round,
    side_name,
    side_of,
    speaker_node,
    tell_statement,
    this_round,
    to_counsel,
    turns_in_round,
)
from moot.nodes._trial.trial_settings import TrialSettings
from moot.prompts import as_data
from moot.prompts._files import join_blocks
from pydantic import model_validator

# --- arguments --------------------------------------------------------------------------------------------------------


class ArgumentReply(Reply):
    """A counsel's argument."""

    argument: Text
    citations: list[Quote]


class OpenArgumentReply(ArgumentReply):
    """A counsel's argument, and whether the counsel concedes the case of its side."""

    concedes: bool


CONCESSION = (
    "If the evidence on record has settled the matter against your side, so that no honest argument and no doubt is "
    "left, set `concedes` to true, and say in the `argument` only what settles it; otherwise set it to false. To "
    "concede is no fault."
)
"""What a counsel is told in the lean procedure."""


class Argument(Started):
    """A counsel's argument; ``concedes`` exists in the lean procedure."""

    step: Literal["argue"]
    argument: str | None
    citations: list[Citation]
    concedes: NotRequired[bool | None]
    outcome: str


@tells(Argument)
def tell_argument(turn: Turn, known: Known) -> Iterator[Said]:
    """The argument, whether it concedes, and the counsel's name if it speaks for the other side."""
    by = "" if turn.get("side") in (turn["agent"], None) else f"(by the {turn['agent']}'s counsel) "
    yield from tell_statement(turn, "argument", "argues", by)
    if turn.get("concedes"):
        text = "that the evidence has settled the matter against it"
        yield Said("concedes", "concedes", text, kind="finding", who=side_name(turn))


def to_argument(to: str, state: TrialState, side: Side) -> list[Send]:
    """Builds the `Send` that makes a side's counsel argue.

    The counsel gets the record and the statements so far. From the end of the previous round, it also gets the side's
    reflection and the critic's advice.

    Args:
        to: the node.
        state: the state of the debate in court.
        side: the side that argues.
    """
    return [to_counsel(to, state, "argue", side, last_findings(state["turns"], side, this_round(state) - 1))]


def last_findings(turns: Sequence[Turn], side: str, round: int) -> dict[str, Any]:
    """The critic's ``advice`` for a side after a round, and the ``flaws`` and ``stance`` of the side's reflection."""
    recommended = next((turn["recommendations"] for turn in turns_in_round(turns, round, "critique")), None) or {}
    reflected = next((turn for turn in turns_in_round(turns, round, "reflect") if turn["side"] == side), None)
    own = {"flaws": reflected.get("flaws") or [], "stance": reflected.get("refined_stance") or ""} if reflected else {}
    return {"advice": recommended.get(side, []), "flaws": [], "stance": ""} | own


def argue_node() -> Node:
    """Writes a side's argument into the side's turn. If the counsel's model cannot be reached, the trial fails.

    Reads: claim, task, phase, evidence, heard, debater, turns and, if present, premises and rounds.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        known = state["debater"]
        return {
            **case_of(state),
            **side_of(state),
            "exhibits": show_record(state["evidence"]),
            "statements": show_recent(state["heard"]),
            "advice": show_advice(known.get("advice", [])),
            "reflection": show_reflection(known.get("flaws", []), known.get("stance", "")),
            "round": show_round(state, settings),
            "concession": CONCESSION if settings.procedure == "lean" else "",
        }

    return speaker_node("proclaim/argue", ArgumentReply, values, shown=all_exhibits, vital=True, lean=OpenArgumentReply)


def show_advice(advice: Sequence[str]) -> str:
    """The critic's advice under a heading; empty if there is no advice."""
    lines = join_blocks((f"- {line}" for line in advice), empty="")
    return f"What the critic advised your side after the last round:\n{as_data('advice', lines)}" if lines else ""


def show_reflection(flaws: Sequence[str], stance: str) -> str:
    """The findings of a side's last reflection on its own case, under a heading; empty if there are none."""
    lines = [f"Flaw: {flaw}" for flaw in flaws] + ([f"Your case, as you would put it now: {stance}"] if stance else [])
    heading = "What you found when you looked back at your own case after the last round:"
    return f"{heading}\n{as_data('reflection', chr(10).join(lines))}" if lines else ""


# --- requests for experts ---------------------------------------------------------------------------------------------


class ExpertRequestReply(Reply):
    """Whether a side wants an expert to testify, on what, and why."""

    reason: str
    needed: bool
    expertise: str

    @model_validator(mode="after")
    def _check_expertise(self) -> ExpertRequestReply:
        if self.needed and not self.expertise.strip():
            raise ValueError("`expertise` is empty, though an expert is `needed`")
        return self


class ExpertRequestBegun(Started):
    """A pending request."""

    step: Literal["request_expert"]


class ExpertRequest(Started):
    """Whether a side wants an expert."""

    step: Literal["request_expert"]
    needed: bool | None
    expertise: str | None
    reason: str | None
    outcome: str


@tells(ExpertRequestBegun, ExpertRequest)
def tell_expert_request(turn: Turn, known: Known) -> Iterator[Said]:
    """A side's request for an expert, if it has one."""
    if turn.get("needed"):
        yield Said("needed", "wants", f"an expert on {turn['expertise']}", turn["reason"], who=side_name(turn))
    elif "needed" in turn and turn["needed"] is None:
        yield Said("needed", "wants", outcome=outcome_of(turn), who=side_name(turn))


def may_ask_experts(state: TrialState, settings: TrialSettings) -> bool:
    """Whether the sides may ask for experts in this round.

    In the lean procedure, they may only if the critic found a premise unresolved after the last round.

    Args:
        state: the state of the debate in court.
        settings: the trial's settings.
    """
    if settings.procedure == "full":
        return True
    last = turns_in_round(state["turns"], this_round(state) - 1, "critique")
    return any(turn.get("unresolved_premises") for turn in last)


def to_expert_requests(to: str, state: TrialState) -> list[Send]:
    """Builds the `Send`s that ask each side whether it requests an expert, with the record and the statements so far.

    Args:
        to: the node.
        state: the state of the debate in court.
    """
    return [to_counsel(to, state, "request_expert", side) for side in SIDES]


def request_expert_node() -> Node:
    """Writes a side's decision on requesting an expert into the side's turn.

    Reads: claim, task, phase, heard, turns and, if present, premises, rounds and debater.
    """
    return speaker_node(
        "proclaim/request_expert",
        ExpertRequestReply,
        lambda state, settings: {
            **case_of(state),
            **side_of(state),
            "statements": show_recent(state["heard"]),
            "round": show_round(state, settings),
        },
    )


# --- the ruling and the testimony -------------------------------------------------------------------------------------


def turn_after_request(agent: str, step: str) -> Callable[[TrialState], Turn]:
    """Makes a function that starts an agent's turn on a side's request, with the request's round, phase and side."""

    def begin(state: TrialState) -> Turn:
        asked = own_turn(state)
        number = SIDES.index(asked["side"]) + 1
        return new_turn(asked["round"], agent, step, number, phase=asked["phase"], side=asked["side"])

    return begin


class ExpertRulingReply(Reply):
    """Whether the court hears an expert."""

    reason: str
    granted: bool


class ExpertRuling(Started):
    """Whether an expert is heard."""

    step: Literal["rule_on_expert"]
    number: int
    granted: bool | None
    reason: str | None
    outcome: str


@tells(ExpertRuling)
def tell_expert_ruling(turn: Turn, known: Known) -> Iterator[Said]:
    """Whether the court hears a side's expert."""
    whose = f"the {turn['side']}'s expert"
    if turn["granted"] is None:
        yield Said("granted", "rules", f"on {whose}", outcome=outcome_of(turn))
    else:
        yield Said("granted", "hears" if turn["granted"] else "refuses", whose, turn["reason"])


def rule_on_expert_node() -> Node:
    """Adds the court's turn with its ruling on a side's request for an expert.

    Reads: claim, task, phase, heard, turns and, if present, premises, rounds and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        asked = own_turn(state)
        field = one_line(str(asked["expertise"]), LONGEST_FIELD)
        request = f"By the {asked['side']}: an expert in {field}.\nReason: {asked['reason']}"
        return {
            **case_of(state),
            "statements": show_recent(state["heard"]),
            "request": as_data("request", request),
            "round": show_round(state, settings),
        }

    return speaker_node(
        "proclaim/rule_on_expert", ExpertRulingReply, values, turn_after_request("court", "rule_on_expert")
    )


class TestimonyReply(Reply):
    """An expert's testimony."""

    __test__ = False  # pytest must not collect it as a test

    testimony: Text
    citations: list[Quote]


class Testimony(Started):
    """An expert's testimony."""

    step: Literal["testify"]
    number: int
    expertise: str | None
    testimony: str | None
    citations: list[Citation]
    outcome: str


@tells(Testimony)
def tell_testimony(turn: Turn, known: Known) -> Iterator[Said]:
    """The testimony, who called the expert, and on what."""
    return tell_statement(turn, "testimony", "testifies", f"(called by the {turn['side']}, on {turn['expertise']}) ")


def testify_node() -> Node:
    """Adds the expert's turn with the testimony.

    Reads: claim, task, evidence, heard, turns and, if present, premises and debater.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        asked = own_turn(state)
        return {
            **case_of(state),
            "exhibits": show_record(state["evidence"], state["heard"], whole=settings.exhibits == "whole"),
            "statements": show_recent(state["heard"]),
            "request": as_data("request", str(asked["reason"])),
            "expertise": one_line(str(asked["expertise"]), LONGEST_FIELD),
        }

    begin = turn_after_request("expert", "testify")
    return speaker_node(
        "proclaim/testify",
        TestimonyReply,
        values,
        lambda state: {**begin(state), "expertise": str(own_turn(state)["expertise"])},
        shown=exhibits_by_setting,
    )
