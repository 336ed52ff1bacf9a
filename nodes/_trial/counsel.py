"""The counsel of a trial, their turns, and the texts that participants are shown (PROClaim).

Two counsel, each a model, argue for two sides. The plaintiff argues for the claim, and the defense against it. In the
primary debate, each counsel speaks for the side with the counsel's own name; in the switched debate, for the other
side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from langgraph.types import Send
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.state import DebateState, TrialState
from moot.nodes._runtime.turns import new_turn
from moot.nodes._speakers.turns import send_turn
from moot.nodes._texts.quotes import fold_quote
from moot.nodes._texts.show import cited_ids, show_claim, show_evidence
from moot.nodes._texts.task import wording
from moot.nodes._trial.admissibility import rank_by_weight
from moot.prompts import as_data
from moot.prompts._files import enclose, without_brackets
from moot.retrievers import Evidence
from moot.retrievers._evidence import UNTITLED, active_evidence, clean

Side = Literal["plaintiff", "defense"]
SIDES: tuple[Side, Side] = ("plaintiff", "defense")
OPPOSITE: dict[str, Side] = {"plaintiff": "defense", "defense": "plaintiff"}
"""The opposite side of each side."""

RECENT_STATEMENTS = 4
"""How many of the last arguments and testimonies `show_recent` shows (PROClaim, section 2.4)."""
NO_EXHIBIT = "(no exhibit is on record)"
OPENING_WORDS = 15
"""Number of words from the beginning of an exhibit that stand for a missing title."""
LONGEST_FIELD = 120
"""Number of characters after which an expert's ``expertise`` is cut in the expert's prompt and above the testimony."""
LONGEST_TITLE = 60
"""Number of characters after which an exhibit's title is cut in a list of exhibits."""
LONGEST_PASSAGE = 400
"""Number of characters after which a passage quoted from an exhibit is cut in a list of exhibits."""


def counsel_for(side: str, phase: str) -> str:
    """The name (and role) of the counsel that speaks for a side in a phase of the trial."""
    return OPPOSITE[side] if phase == "switched" else side


# --- turns ------------------------------------------------------------------------------------------------------------


def own_turn(state: TrialState) -> Turn:
    """The turn that was passed to a node: the first turn in its state."""
    return state["turns"][0]


def side_of(state: TrialState) -> str:
    """The side of the turn that was passed to a node."""
    return str(own_turn(state)["side"])


def exhibits_of(state: TrialState, settings: Any) -> list[Evidence]:
    """All exhibits that were passed to a node, for nodes whose speaker is shown all of them."""
    return state["evidence"]


def turn_starter(agent: str, step: str, phase: str | None = None) -> Callable[[TrialState], Turn]:
    """Makes a function that starts an agent's turn in the current round of a phase, by default the state's phase."""
    return lambda state: new_turn(this_round(state), agent, step, phase=phase or state["phase"])


def next_turn_starter(agent: str, step: str) -> Callable[[TrialState], Turn]:
    """Makes a function that starts an agent's turn with the round, phase and side of the turn passed to the node."""

    def begin(state: TrialState) -> Turn:
        before = own_turn(state)
        number = SIDES.index(before["side"]) + 1
        return new_turn(before["round"], agent, step, number, phase=before["phase"], side=before["side"])

    return begin


def trial_subject(state: TrialState) -> tuple[str, Task, list[str]]:
    """The subject of the trial: the claim, the task, and the claim's premises."""
    return state["claim"], state["task"], state.get("premises", [])


def this_round(state: TrialState) -> int:
    """The number of the current round, from 1; 0 in a phase without rounds."""
    return state["rounds"] + 1 if "rounds" in state else 0


def turns_in_round(turns: Iterable[Turn], round: int, step: str) -> list[Turn]:
    return [turn for turn in turns if turn["round"] == round and turn["step"] == step]


def round_values(state: TrialState, settings: Any) -> dict[str, Any]:
    """The values of the parameters ``round`` and ``max_rounds`` of a step's function."""
    return {"round": this_round(state) or own_turn(state)["round"], "max_rounds": settings.rounds_of(state["phase"])}


def premises_of(turns: Iterable[Turn]) -> list[str]:
    """The premises in the miner's turn; empty without this turn, or without a usable reply in it."""
    return next((turn["premises"] or [] for turn in turns if turn["step"] == "premises"), [])


def statements(turns: Iterable[Turn], last: int | None = None) -> list[Turn]:
    """The turns with a usable argument or testimony, in the order of their rounds.

    In each round, arguments come before testimonies, and the plaintiff's turn before the defense's.

    Args:
        turns: the turns of one or more debates.
        last: how many of the last such turns to return; None for all.
    """
    given = [turn for turn in turns if turn.get("argument") or turn.get("testimony")]
    given.sort(key=lambda turn: (turn["round"], turn["step"] == "testify", SIDES.index(turn["side"] or "plaintiff")))
    return given if last is None else given[max(0, len(given) - last) :]


def to_sides(
    to: str, state: TrialState, step: str, sides: Sequence[Side] = SIDES, **more: Callable[[Side], Any]
) -> list[Send]:
    """Builds a `Send` to a node for the counsel of each side, with a new turn in the current round."""
    sends = []
    for side in sides:
        counsel = counsel_for(side, state["phase"])
        turn = new_turn(this_round(state), counsel, step, phase=state["phase"], side=side)
        # They are keys of the node's input; only the value of ``speaker`` joins the counsel's declaration.
        further = {key: value(side) for key, value in more.items()}
        speaker = {"name": counsel, **further.pop("speaker", {})}
        sends.append(send_to_speaker(to, state, speaker, turn, **further))
    return sends


def send_to_speaker(
    to: str, state: TrialState | DebateState, speaker: Mapping[str, Any], turn: Turn, **more: Any
) -> Send:
    """Builds the `Send` that makes a speaker take its turn at a node."""
    known = {"phase": turn["phase"], "premises": state.get("premises") or premises_of(state["turns"]), "heard": []}
    return send_turn(to, state, speaker, turn, **({"evidence": []} | known | more))  # type: ignore[arg-type]


# --- evidence ---------------------------------------------------------------------------------------------------------


def on_record(evidence: Iterable[Evidence], turns: Iterable[Turn] = ()) -> list[Evidence]:
    """The evidence on record in a debate: admitted pieces by weight, then discovered ones in the order of searches."""
    pieces = active_evidence(evidence)
    admitted = rank_by_weight(piece for piece in pieces if piece.get("status") == "admitted")
    discovered = [piece for piece in pieces if piece.get("status") == "discovered"]
    searches = sorted(
        (turn for turn in turns if turn.get("joined")), key=lambda turn: (turn["round"], SIDES.index(turn["side"]))
    )
    # In this order, prompts begin as in the previous round, so that a provider's prefix cache can reuse them.
    order = {id: place for place, id in enumerate(dict.fromkeys(id for turn in searches for id in turn["joined"]))}
    return admitted + sorted(discovered, key=lambda piece: order.get(piece["id"], len(order)))


def is_unadmitted(piece: Evidence) -> bool:
    """Whether a piece of evidence was given or found before the debates, but was not admitted to them."""
    return (piece.get("status") == "seed" or "weight" in piece) and piece["status"] != "admitted"


def visible_exhibits(
    exhibits: Sequence[Evidence], history: Iterable[Turn] = (), *, whole: bool = True
) -> list[Evidence]:
    """The active exhibits that a speaker may cite: all if ``whole``, otherwise those that ``history`` cites."""
    cited = cited_ids(history)
    return [piece for piece in active_evidence(exhibits) if whole or piece["id"] in cited]


# --- texts for prompts ------------------------------------------------------------------------------------------------


def position_of(task: Task, side: str) -> str:
    """A side's position on the claim."""
    asked = task["subject"] == "question"
    if side == "plaintiff":
        return "the answer to the question is yes" if asked else "the claim is true"
    return "the answer to the question is no" if asked else "the claim is false"


def common_values(
    claim: str, task: Task, premises: Sequence[str] = (), exhibits: Sequence[Evidence] = ()
) -> dict[str, str]:
    """The values for placeholders that all prompts of a trial share."""
    return wording(task) | {
        "claim": show_claim(claim, task),
        "premises": show_premises(premises),
        "exhibits": show_evidence(exhibits, NO_EXHIBIT),
        "plaintiff_holds": position_of(task, "plaintiff"),
        "defense_holds": position_of(task, "defense"),
    }


def show_premises(premises: Sequence[str]) -> str:
    """The premises of a claim, numbered, under a heading; empty if there are none."""
    if not premises:
        return ""
    lines = "\n".join(f"{number}. {premise}" for number, premise in enumerate(premises, 1))
    return f"The premises:\n{as_data('premises', lines)}"


def show_record(
    exhibits: Sequence[Evidence], history: Sequence[Turn] = (), *, whole: bool = True, titles: bool = False
) -> str:
    """The exhibits on record, under a heading: all texts if ``whole``, otherwise titles and quotes of cited ones."""
    pieces = active_evidence(exhibits)
    if whole or not pieces:
        return f"Exhibits on record:\n{show_evidence(pieces, NO_EXHIBIT)}"
    passages = verified_passages(history)
    used = visible_exhibits(pieces, history, whole=False)
    rest = [piece for piece in pieces if piece not in used]
    lines = [
        line
        for piece in used
        for line in (
            _title_line(piece),
            *(f'- "{one_line(q, LONGEST_PASSAGE)}"' for q in passages.get(piece["id"], ())),
        )
    ]
    others = f"(On record and not cited: {len(rest)})"
    if titles:
        lines, others = [*lines, *map(_title_line, rest)], ""
    parts = ["Exhibits on record, by title, with what was quoted from them:"]
    return "\n".join([*parts, *([enclose("exhibits", lines)] if lines else []), *([others] if rest and others else [])])


def verified_passages(history: Iterable[Turn]) -> dict[str, list[str]]:
    """The verified quotes from each exhibit, by the exhibit's id, without quotes that longer quotes contain."""
    found: dict[str, dict[str, str]] = {}
    for turn in history:
        for citation in turn.get("citations") or []:
            if citation["verified"]:
                quote = citation["quote"]
                found.setdefault(citation["evidence_id"], {}).setdefault(fold_quote(quote), quote)
    return {
        id: [quote for words, quote in quotes.items() if not any(words in other for other in quotes if other != words)]
        for id, quotes in found.items()
    }


def _title_line(piece: Evidence) -> str:
    """An exhibit's id and title; without a title, its id and first words."""
    words = piece["text"].split()
    opening = " ".join(words[:OPENING_WORDS]) + (" ..." if len(words) > OPENING_WORDS else "")
    return f"{piece['id']}: {one_line(opening if piece['title'] in ('', UNTITLED) else piece['title'], LONGEST_TITLE)}"


def exhibits_by_setting(state: TrialState, settings: Any) -> list[Evidence]:
    """The exhibits that a reflecting side or an expert is shown: all or, by the setting, those cited so far."""
    return visible_exhibits(state["evidence"], state["heard"], whole=settings.exhibits == "whole")


def show_recent(history: Sequence[Turn], nothing: str = "") -> str:
    """The last `RECENT_STATEMENTS` arguments and testimonies, oldest first; without any, the argument ``nothing``."""
    return show_statements(history[-RECENT_STATEMENTS:], "What was said last, in its order:", nothing)


def show_statements(turns: Sequence[Turn], heading: str, nothing: str = "") -> str:
    """Arguments and testimonies under a heading, with their citations; without any, the argument ``nothing``."""
    return "\n".join([heading, *(show_statement(turn) for turn in turns)]) if turns else nothing


def show_statement(turn: Turn) -> str:
    """An argument or a testimony in a tag, which only moot can write, with its citations and their faults."""
    by, kind = ("expert", "testimony") if turn["step"] == "testify" else (str(turn["side"]), "argument")
    field = turn.get("expertise")
    called = f"Called by the {turn['side']}, on {one_line(field, LONGEST_FIELD)}:\n" if field else ""
    marks = dict.fromkeys(map(_cited_text, turn.get("citations") or []))
    cites = {"cites": ", ".join(marks)} if marks else {}
    text = called + (turn.get("argument") or turn.get("testimony") or "(nothing that could be used)")
    return as_data(kind, text, by=by, round=str(turn["round"]), **cites)


def _cited_text(citation: Mapping[str, Any]) -> str:
    """The id of a cited exhibit, and a note if the quote is not verified; for a fabricated citation, only a note."""
    if citation["fabricated"]:
        return "an exhibit that the speaker was never shown"
    return str(citation["evidence_id"]) + ("" if citation["verified"] else " (its quote is not in that evidence)")


def one_line(text: str, most: int) -> str:
    """A text by a model or a source as one line, without angle brackets, cut after ``most`` characters."""
    line = " ".join(clean(text).split())
    return without_brackets(line if len(line) <= most else line[:most].rstrip() + " ...")


def show_round(round: int, max_rounds: int | None) -> str:
    """The sentence with the round's number, and with the maximum number of rounds if known; empty for round 0."""
    most = f" of at most {max_rounds}" if max_rounds else ""
    return f"This is round {round}{most}." if round else ""
