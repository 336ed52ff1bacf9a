"""The trial (PROClaim; S2): who takes part, and what each is shown.

Two counsel, each a model, argue for two sides: the plaintiff for the claim, the defense against it. In the primary
debate each speaks for the side whose name it has, in the switched one for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from langgraph.types import Send
from moot.nodes.runtime.state import DebateState, Task, TrialState, Turn
from moot.nodes.speakers.hand_over import hand_over, new_turn
from moot.nodes.texts.show import show_claim, show_evidence
from moot.nodes.texts.task import wording
from moot.nodes.trial.admissibility import ranked
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers.evidence import standing

Side = Literal["plaintiff", "defense"]
SIDES: tuple[Side, Side] = ("plaintiff", "defense")
OTHER: dict[str, Side] = {"plaintiff": "defense", "defense": "plaintiff"}

RECENT = 4
"""Arguments and testimonies that speakers are shown: the last four (S2, section 2.4)."""
SO_FAR = "What was said last, in its order:"


def counsel_for(side: str, phase: str) -> str:
    """The counsel who speaks for a side in a phase of the trial; it is also the role that has its model."""
    return OTHER[side] if phase == "switched" else side


# --- turns ------------------------------------------------------------------------------------------------------------


def handed(state: TrialState) -> Turn:
    """The turn that a step was handed."""
    return state["turns"][0]


def side_of(state: TrialState) -> str:
    """The side for which the turn is that a step was handed."""
    return str(handed(state)["side"])


def given(state: TrialState, settings: Any) -> list[Evidence]:
    """The exhibits that a step was handed."""
    return state["evidence"]


def turn_of(agent: str, step: str, phase: str | None = None) -> Callable[[TrialState], Turn]:
    """Begins the turn of somebody who takes a step in the current round of a phase, by default the state's."""
    return lambda state: new_turn(this_round(state), agent, step, phase=phase or state["phase"])


def turn_after(agent: str, step: str) -> Callable[[TrialState], Turn]:
    """Begins the turn of somebody who answers the turn that was handed on: in its round, on its side's behalf."""

    def begin(state: TrialState) -> Turn:
        before = handed(state)
        number = SIDES.index(before["side"]) + 1
        return new_turn(before["round"], agent, step, number, phase=before["phase"], side=before["side"])

    return begin


def about(state: TrialState) -> tuple[str, Task, list[str]]:
    """What is tried: the claim, the task, and what the claim rests on."""
    return state["claim"], state["task"], state.get("premises", [])


def this_round(state: TrialState) -> int:
    """The number of the round that goes on, from 1; 0 where a phase has no rounds."""
    return state["rounds"] + 1 if "rounds" in state else 0


def said_in(turns: Iterable[Turn], round: int, step: str) -> list[Turn]:
    """The turns of a step in a round."""
    return [turn for turn in turns if turn["round"] == round and turn["step"] == step]


def premises_of(turns: Iterable[Turn]) -> list[str]:
    """What a claim rests on, as it was found; nothing where it was not."""
    return next((turn["premises"] or [] for turn in turns if turn["step"] == "premises"), [])


def statements(turns: Iterable[Turn], last: int | None = None) -> list[Turn]:
    """The arguments and testimonies that were given, in their order: all, or the last ones.

    A round's arguments come before its testimonies, whatever order their turns have.
    """
    given = [turn for turn in turns if turn.get("argument") or turn.get("testimony")]
    given.sort(key=lambda turn: (turn["round"], turn["step"] == "testify", SIDES.index(turn["side"] or "plaintiff")))
    return given if last is None else given[max(0, len(given) - last) :]


def to_sides(
    to: str, state: TrialState, step: str, sides: Sequence[Side] = SIDES, **more: Callable[[Side], Any]
) -> list[Send]:
    """The counsel of these sides go to a node, each with a turn of its own in the current round.

    Args:
        to: the node.
        state: the phase.
        step: what they do there.
        sides: for whom they speak.
        more: what else they are handed, by their side.
    """
    sends = []
    for side in sides:
        counsel = counsel_for(side, state["phase"])
        turn = new_turn(this_round(state), counsel, step, phase=state["phase"], side=side)
        further = {key: value(side) for key, value in more.items()}
        speaker = {"name": counsel, **further.pop("speaker", {})}
        sends.append(to_one(to, state, speaker, turn, **further))
    return sends


def to_one(to: str, state: TrialState | DebateState, speaker: Mapping[str, Any], turn: Turn, **more: Any) -> Send:
    """One speaker goes to a node with a turn, the phase and what the claim rests on."""
    known = {"phase": turn["phase"], "premises": state.get("premises") or premises_of(state["turns"]), "heard": []}
    return hand_over(to, state, speaker, turn, **({"evidence": []} | known | more))  # type: ignore[arg-type]


# --- evidence ---------------------------------------------------------------------------------------------------------


def on_record(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The pool of a debate: what was admitted, by its weight, then what the debate discovered, as it came."""
    pieces = standing(evidence)
    admitted = ranked(piece for piece in pieces if piece.get("status") == "admitted")
    return admitted + [piece for piece in pieces if piece.get("status") == "discovered"]


def kept_out(piece: Evidence) -> bool:
    """Whether a piece was found before the debates and not admitted to them."""
    return (piece.get("status") == "seed" or "weight" in piece) and piece["status"] != "admitted"


# --- what is shown ----------------------------------------------------------------------------------------------------


def holds(task: Task, side: str) -> str:
    """What a side says of the claim."""
    asked = task["subject"] == "question"
    if side == "plaintiff":
        return "the answer to the question is yes" if asked else "the claim is true"
    return "the answer to the question is no" if asked else "the claim is false"


def case(claim: str, task: Task, premises: Sequence[str] = (), exhibits: Sequence[Evidence] = ()) -> dict[str, str]:
    """What every prompt of a trial may begin with."""
    return wording(task) | {
        "claim": show_claim(claim, task),
        "premises": show_premises(premises),
        "exhibits": show_evidence(exhibits, "(no exhibit is on record)"),
        "plaintiff_holds": holds(task, "plaintiff"),
        "defense_holds": holds(task, "defense"),
    }


def show_premises(premises: Sequence[str]) -> str:
    """What a claim rests on, numbered, under a heading; nothing where that is not known."""
    if not premises:
        return ""
    lines = "\n".join(f"{number}. {premise}" for number, premise in enumerate(premises, 1))
    return f"What it rests on:\n{as_data('premises', lines)}"


def show_statements(turns: Sequence[Turn], heading: str, nothing: str = "") -> str:
    """Arguments and testimonies under a heading, with what they cite; without any, the words that say so."""
    return "\n".join([heading, *(show_statement(turn) for turn in turns)]) if turns else nothing


def show_statement(turn: Turn) -> str:
    """An argument or a testimony, with the ids of what it cites."""
    by = "expert" if turn["step"] == "testify" else str(turn["side"])
    marks = dict.fromkeys(f"{c['evidence_id']}{_doubt(c)}" for c in turn.get("citations") or [])
    text = turn.get("argument") or turn.get("testimony") or "(nothing that could be used)"
    on = f"Called by the {turn['side']}, on {turn['expertise']}:\n" if turn.get("expertise") else ""
    return as_data(
        "statement", on + text + (f"\nCites {', '.join(marks)}" if marks else ""), by=by, round=str(turn["round"])
    )


def _doubt(citation: Mapping[str, Any]) -> str:
    if citation["fabricated"]:
        return " (no such exhibit was shown)"
    return "" if citation["verified"] else " (its quote does not stand there)"
