"""The court: the sides of a trial and their counsel, the record, and how a speaker is asked (PROClaim).

Two counsel, each a model, argue for two sides. The plaintiff argues for the claim, and the defense against it. In the
primary debate, each counsel speaks for the side with the counsel's own name; in the switched debate, for the other
side. The steps of a trial are in the files negotiation, discovery, hearing, critique and panel, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from langgraph.types import Send
from moot.core.errors import MootError, ReplyError
from moot.core.redaction import redact
from moot.nodes._models.speaker import affects_only_call
from moot.nodes._models.step_record import StepRecord, record_failed_call
from moot.nodes._records.entries import OPPOSITE, Side, Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState, TrialState
from moot.nodes._runtime.turns import Kind, Said, new_turn, outcome_of
from moot.nodes._speakers.turns import send_turn
from moot.nodes._steps.responding import quote_check
from moot.nodes._texts.labels import fold_label
from moot.nodes._texts.quotes import check_citations, citation_warnings, fold_quote
from moot.nodes._texts.replies import Reply
from moot.nodes._texts.show import cited_ids, show_claim, show_evidence
from moot.nodes._texts.task import wording
from moot.nodes._trial.trial_settings import TrialSettings
from moot.prompts import as_data
from moot.prompts._files import enclose, without_brackets
from moot.retrievers import Evidence
from moot.retrievers._evidence import UNTITLED, active_evidence, clean
from pydantic import AfterValidator, Field

R = TypeVar("R", bound=Reply)

# --- sides and turns --------------------------------------------------------------------------------------------------

SIDES: tuple[Side, Side] = ("plaintiff", "defense")


def counsel_for(side: str, phase: str) -> str:
    """The name (and role) of the counsel that speaks for a side in a phase of the trial."""
    return OPPOSITE[side] if phase == "switched" else side


def own_turn(state: TrialState) -> Turn:
    """The turn that was passed to a node: the first turn in its state."""
    return state["turns"][0]


def this_round(state: TrialState) -> int:
    """The number of the current round, from 1; 0 in a phase without rounds."""
    return state["rounds"] + 1 if "rounds" in state else 0


def turns_in_round(turns: Iterable[Turn], round: int, step: str) -> list[Turn]:
    return [turn for turn in turns if turn["round"] == round and turn["step"] == step]


def turn_starter(agent: str, step: str, phase: str | None = None) -> Callable[[TrialState], Turn]:
    """Makes a function that starts an agent's turn in the current round of a phase, by default the state's phase."""
    return lambda state: new_turn(this_round(state), agent, step, phase=phase or state["phase"])


def premises_of(turns: Iterable[Turn]) -> list[str]:
    """The premises in the miner's turn; empty without this turn, or without a usable reply in it."""
    return next((turn["premises"] or [] for turn in turns if turn["step"] == "premises"), [])


def statements(turns: Iterable[Turn]) -> list[Turn]:
    """The turns with a usable argument or testimony, in the order of their rounds.

    In each round, arguments come before testimonies, and the plaintiff's turn before the defense's.

    Args:
        turns: the turns of one or more debates.
    """
    given = (turn for turn in turns if turn.get("argument") or turn.get("testimony"))
    return sorted(given, key=lambda t: (t["round"], t["step"] == "testify", SIDES.index(t["side"] or "plaintiff")))


def to_debates(state: DebateState, debates: Mapping[str, str]) -> list[Send]:
    """Builds the `Send`s that start the debates, each with the evidence from the negotiation.

    Args:
        state: the trial's state.
        debates: the node of each debate, by the debate's phase.
    """
    given = {
        "claim": state["claim"],
        "task": state["task"],
        "settings": state.get("settings", {}),
        "premises": premises_of(state["turns"]),
        "evidence": state["evidence"],
        "rounds": 0,
        "budget": state.get("budget"),
        "depth": state["depth"],
    }
    return [Send(node, {**given, "phase": phase}) for phase, node in debates.items()]


def to_counsel(to: str, state: TrialState, step: str, side: Side, known: Mapping[str, Any] | None = None) -> Send:
    """Builds the `Send` that starts a step of a side's counsel, with the record and the statements so far.

    ``known`` joins the counsel's declaration.
    """
    counsel = counsel_for(side, state["phase"])
    return to_speaker(
        to,
        state,
        {"name": counsel, **(known or {})},
        new_turn(this_round(state), counsel, step, phase=state["phase"], side=side),
        evidence=on_record(state["evidence"], state["turns"]),
        heard=statements(state["turns"]),
    )


def to_speaker(to: str, state: TrialState | DebateState, speaker: Mapping[str, Any], turn: Turn, **more: Any) -> Send:
    """Builds the `Send` that makes a speaker take its turn at a node."""
    known = {"phase": turn["phase"], "premises": state.get("premises") or premises_of(state["turns"]), "heard": []}
    return send_turn(to, state, speaker, turn, **({"evidence": []} | known | more))  # type: ignore[arg-type]


# --- scores ----------------------------------------------------------------------------------------------------------

SCORE_DECIMALS = 9
"""Decimal places to which weights, scores and their differences are rounded."""


def is_above(value: float, threshold: float) -> bool:
    """Whether a value is above a threshold, after their difference is rounded to `SCORE_DECIMALS`."""
    return round(value - threshold, SCORE_DECIMALS) > 0


# --- the record -------------------------------------------------------------------------------------------------------


def rank_by_weight(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The evidence, highest weight first; a missing weight counts as 0, and pieces of equal weight keep their order."""
    return sorted(evidence, key=lambda piece: -piece.get("weight", 0.0))


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
    return (piece.get("status") == "seed" or "weight" in piece) and piece["status"] not in ("admitted", "discovered")


def visible_exhibits(
    exhibits: Sequence[Evidence], history: Iterable[Turn] = (), *, whole: bool = True
) -> list[Evidence]:
    """The active exhibits that a speaker may cite: all if ``whole``, otherwise those that ``history`` cites."""
    cited = cited_ids(history)
    return [piece for piece in active_evidence(exhibits) if whole or piece["id"] in cited]


def all_exhibits(state: TrialState, settings: TrialSettings) -> list[Evidence]:
    """All exhibits that were passed to a node, for speakers who are shown all of them."""
    return state["evidence"]


def exhibits_by_setting(state: TrialState, settings: TrialSettings) -> list[Evidence]:
    """The exhibits that a reflecting side or an expert is shown: all or, by the setting, those cited so far."""
    return visible_exhibits(state["evidence"], state["heard"], whole=settings.exhibits == "whole")


# --- texts for prompts ------------------------------------------------------------------------------------------------

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


def case_of(state: TrialState) -> dict[str, str]:
    """The values for placeholders that all prompts of a trial share, from the state."""
    return case_values(state["claim"], state["task"], state.get("premises", []))


def case_values(claim: str, task: Task, premises: Sequence[str]) -> dict[str, str]:
    """The values for placeholders that all prompts of a trial share: the claim, its premises, the sides' positions."""
    lines = "\n".join(f"{number}. {premise}" for number, premise in enumerate(premises, 1))
    return wording(task) | {
        "claim": show_claim(claim, task),
        "premises": f"The premises:\n{as_data('premises', lines)}" if lines else "",
        "plaintiff_holds": position_of(task, "plaintiff"),
        "defense_holds": position_of(task, "defense"),
    }


def position_of(task: Task, side: str) -> str:
    """A side's position on the claim."""
    asked = task["subject"] == "question"
    if side == "plaintiff":
        return "the answer to the question is yes" if asked else "the claim is true"
    return "the answer to the question is no" if asked else "the claim is false"


def side_of(state: TrialState) -> dict[str, str]:
    """The side of the turn that was passed to a node, and the side's position, as values for placeholders."""
    side = str(own_turn(state)["side"])
    return {"side": side, "position": position_of(state["task"], side)}


def show_round(state: TrialState, settings: TrialSettings) -> str:
    """The sentence with the round's number and the maximum number of rounds."""
    number = this_round(state) or own_turn(state)["round"]
    return f"This is round {number} of at most {settings.rounds_of(state['phase'])}."


BEST_EXHIBITS = 5
"""How many exhibits are shown whole with the setting ``exhibits=best``: about as many as a trial admits."""


def show_best(exhibits: Sequence[Evidence], history: Sequence[Turn] = ()) -> str:
    """The exhibits on record: the texts of the `BEST_EXHIBITS` with the greatest weight, and the titles of the rest."""
    best, rest = _best(exhibits)
    others = show_record(rest, history, whole=False, titles=True) if rest else ""
    return "\n\n".join(filter(None, (show_record(best), others)))


def _best(exhibits: Sequence[Evidence]) -> tuple[list[Evidence], list[Evidence]]:
    pieces = active_evidence(exhibits)
    best = rank_by_weight(pieces)[:BEST_EXHIBITS]
    return best, [piece for piece in pieces if piece not in best]


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
    lines: list[str] = []
    for piece in used:
        lines += [_title_line(piece)]
        lines += [f'- "{one_line(quote, LONGEST_PASSAGE)}"' for quote in passages.get(piece["id"], ())]
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


# --- how turns are told -----------------------------------------------------------------------------------------------

MOST_TITLES = 5
"""Maximum number of titles in a list. The other titles are only counted."""


def tell_statement(turn: Turn, field: str, verb: str, prefix: str = "", kind: Kind = "statement") -> Iterator[Said]:
    """A statement after its prefix, with its citations, or why there is none."""
    if turn[field] is None:
        yield Said(field, verb, outcome=outcome_of(turn), who=side_name(turn))
        return
    cited = tuple(turn.get("citations") or ())
    yield Said(field, verb, prefix + turn[field], kind=kind, who=side_name(turn), citations=cited)


def side_name(turn: Mapping[str, Any]) -> str:
    """The name of a speaker; for a counsel, the name of the side that the counsel speaks for."""
    return str(turn.get("side") or turn["agent"]) if turn["agent"] in SIDES else str(turn["agent"])


def names_suffix(names: Sequence[str]) -> str:
    """A colon, the first `MOST_TITLES` names and the number of the other names; empty for no names."""
    more = [f"and {len(names) - MOST_TITLES} more"] if len(names) > MOST_TITLES else []
    return f": {'; '.join([*names[:MOST_TITLES], *more])}" if names else ""


def last_values(values: Sequence[float | None], count: int) -> str:
    """The last ``count`` values of a series, as a text."""
    return ", ".join("unknown" if value is None else f"{value:.2f}" for value in values[-count:])


# --- asking a speaker -------------------------------------------------------------------------------------------------


def unique_texts(texts: list[str]) -> list[str]:
    """The texts without blank texts and without repetitions (compared with `fold_label`)."""
    found: dict[str, str] = {}
    for text in texts:
        if text.strip():
            found.setdefault(fold_label(text), text.strip())
    return list(found.values())


Texts = Annotated[list[str], AfterValidator(unique_texts), Field(json_schema_extra={"minItems": 0})]
"""A list of texts without blank texts and repetitions, in a reply. It may be empty."""
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
"""A number from 0 to 1, in a reply."""


def speaker_node(
    prompt: str,
    reply: type[R],
    values: Callable[[TrialState, Any], Mapping[str, str]],
    begin: Callable[[TrialState], Turn] = own_turn,
    *,
    shown: Callable[[TrialState, Any], Sequence[Evidence]] = lambda state, settings: (),
    scores: Callable[[R], dict[str, float]] = lambda reply: {},
    vital: bool = False,
    lean: type[R] | None = None,
) -> Node:
    """A node that asks the speaker of a turn once; the fields of the reply become fields of the turn.

    ``lean`` is the reply in the lean procedure, if it is another one. ``values`` fill the prompt, and ``shown`` are the
    exhibits that the speaker may cite. A ``vital`` turn fails the trial if its model cannot be reached, and its quotes
    are checked if the setting ``verified_quotes`` is on.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        kind = lean if lean and run.settings.procedure == "lean" else reply
        fields = kind.model_fields
        exhibits = list(shown(state, run.settings))
        ids = {piece["id"] for piece in exhibits}
        turn: Turn = {**begin(state), "evidence_ids": [piece["id"] for piece in exhibits]}
        run.record.set_turn(turn)
        speaker = await run.speaker_of({**state.get("debater", {}), "name": turn["role"]})
        check: Any = None
        if vital and run.settings.verified_quotes and exhibits:
            check = quote_check(exhibits, ids, speaker)
        try:
            found = await speaker.ask(prompt, values(state, run.settings), kind, sorted(ids), check)
        except MootError as error:
            # An unusable reply never ends the debate; another failed call does if it is ``vital``.
            if not affects_only_call(error) or (vital and not isinstance(error, ReplyError)):
                raise
            empty = dict.fromkeys(fields) | ({"citations": []} if "citations" in fields else {})
            return {"turns": [{**turn, **empty, "outcome": record_failed_call(error, run.record)}]}
        # Only the exhibits that stayed in the prompt may be cited.
        if speaker.not_shown:
            exhibits = [piece for piece in exhibits if piece["id"] not in speaker.not_shown]
            turn = {**turn, "evidence_ids": [piece["id"] for piece in exhibits]}
        given = found.model_dump() | checked_citations(found, exhibits, run.record)
        return {"turns": [{**turn, **given, "scores": scores(found), "outcome": "ok"}]}

    return Node(step, prompts=(prompt,))


def checked_citations(reply: Reply, shown: Sequence[Evidence], record: StepRecord) -> dict[str, Any]:
    """A reply's ``citations``, checked against the shown exhibits, with warnings; {} if its class has no such field."""
    ids = {piece["id"] for piece in shown}
    for challenge in getattr(reply, "challenges", []):
        if challenge.evidence_id not in ids:
            challenged = redact(challenge.evidence_id)[:80]
            record.warn("unknown_exhibit", f"{challenged!r} was challenged, but was not shown.")
    if (quotes := getattr(reply, "citations", None)) is None:
        return {}
    citations = check_citations(quotes, shown, ids)
    for kind, fault in citation_warnings(citations):
        record.warn(kind, fault)
    return {"citations": citations}
