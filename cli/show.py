"""A debate on the screen as it happens. What is printed follows from what was written, whichever graph's node wrote it.

A turn grows while its speaker works (a query, what was found, an answer), and a debate's subgraphs hand their turns on
as they are: each field of a turn is printed once, when it first appears.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moot.cli.screen import Screen, counted, has_rounds, numbered, titled
from moot.cli.verdict import show_end
from moot.nodes.runtime.settings import Settings
from moot.nodes.runtime.state import PERSON, Turn, Vote, merge_turns
from moot.nodes.speakers.pool import POOL
from moot.nodes.texts.task import full_answer
from rich.console import Console

FIELDS = (
    "about",
    "thought",
    "tool",
    "query",
    "retrieval",
    "selected",
    "comparisons",
    "agree",
    "preferred",
    "comment",
    "score",
    "summary",
    "answer",
)
"""Fields of turns that are printed, in this order, each by the method of its name."""
OFTEN_EMPTY = {"thought", "query"}
"""Fields that are worth a line only where they hold something."""
ANSWERS = {"respond": "answers", "judge": "decides", "summarise": "concludes"}
"""What somebody does who gives an answer, by the turn's step."""
DECIDING = {"judge", "summarise"}
"""Steps that come after a debate has stopped."""
STOPS = {
    "max_rounds": "The rounds are used up.",
    "budget_exhausted": "The budget is used up.",
    "judge_preference": "The debate stops: the moderator prefers an answer.",
}
NAMED_VOTERS = 8
"""Of more voters for one answer only the number is printed."""


class Transcript(Screen):
    """Prints what nodes write."""

    fields: Sequence[str] = FIELDS

    def __init__(self, console: Console, settings: Settings) -> None:
        self.settings: Any = settings
        declared = (getattr(settings, kind) for kind in ("debaters", "agents", "judges") if hasattr(settings, kind))
        self.speakers = [one.name for one in next(declared, ())]
        super().__init__(console, self.speakers)
        self.in_rounds = has_rounds(type(settings).model_fields)
        self.round = -1
        self.turns: list[Turn] = []
        self.pieces: dict[str, Any] = {}
        self.said: set[tuple[Any, ...]] = set()
        self.drawn: set[int] = set()
        self.thoughts: dict[str, str] = {}
        self.last_votes: tuple[int, Sequence[Vote]] | None = None

    def update(self, written: Mapping[str, Any]) -> None:
        """What a node wrote. Errors are said at the end."""
        if written.get("error"):
            return
        if written.get("graph"):
            self._opening(written)
        turns = written.get("turns") or []
        self.turns = merge_turns(self.turns, turns)
        for piece in pieces_of(written):
            self.pieces.setdefault(piece["id"], piece)
        late = any(turn["step"] in DECIDING for turn in turns)
        if late:
            self._stop(written)
        for turn in turns:
            self._turn(turn, written)
        self._votes(written)
        for entry in written.get("graphs") or []:
            self._hearing(entry)
        if not late:
            self._stop(written)

    def close(self, document: Mapping[str, Any]) -> None:
        """The verdict with its citations, what it cost, and what went wrong."""
        show_end(self, document)

    def _opening(self, written: Mapping[str, Any]) -> None:
        task = written["task"]
        self.say(f"{task['subject'].capitalize()}: {written['claim']}", "bold")
        answers = ", ".join(full_answer(task, label) for label in task["labels"]) or task["kind"].replace("_", " ")
        self.say(f"Graph {written['graph']}; answers: {answers}", "dim")
        if given := pieces_of(written):
            self.say(f"Given with it: {counted(len(given), 'text')}", "dim")

    def _heading(self, number: int) -> None:
        if self.in_rounds and number > self.round:
            self.round = number
            self.say(f"Round {number}", "bold")

    # --- turns, field by field --------------------------------------------------------------------------------------

    def _turn(self, turn: Turn, written: Mapping[str, Any]) -> None:
        for field in self.fields:
            key = (*key_of(turn), field)
            if field in turn and key not in self.said and (turn.get(field) or field not in OFTEN_EMPTY):
                self.said.add(key)
                self._field(field, turn, written)

    def _field(self, field: str, turn: Turn, written: Mapping[str, Any]) -> None:
        self._enter(turn)
        getattr(self, f"_{field}")(turn, written)

    def _enter(self, turn: Turn) -> None:
        """A heading, where this turn is the first of a round."""
        if turn["step"] != "retrieve" and turn["agent"] != PERSON:  # what all share comes before the first round
            self._heading(turn["round"])

    def _thought(self, turn: Turn, written: Mapping[str, Any]) -> None:
        if self.thoughts.get(turn["agent"]) != turn["thought"]:  # one thought may lead to several searches
            self.thoughts[turn["agent"]] = turn["thought"]
            self.line(turn["agent"], "thinks", turn["thought"])

    def _tool(self, turn: Turn, written: Mapping[str, Any]) -> None:
        query = turn.get("query") or "(not carried out)"
        self.line(turn["agent"], numbered("asks", turn), f"{turn['tool']}: {query}")

    def _query(self, turn: Turn, written: Mapping[str, Any]) -> None:
        if "tool" not in turn and "retrieval" not in turn:  # a query that comes with its findings is the claim itself
            self.line(turn["agent"], "asks", turn["query"] or "")

    def _retrieval(self, turn: Turn, written: Mapping[str, Any]) -> None:
        what = numbered("finds", turn)
        choice = turn["agent"] == POOL and getattr(self.settings, "selection", False)
        for number, piece in enumerate(self._known(turn), 1):
            place = f"{number}. " if choice else ""  # debaters name pieces of a pool by their numbers
            self.line(turn["agent"], what, f"{place}{piece['title']} ({piece['source']}) [{piece['id']}]")
        self._nothing(turn, written, turn["agent"], what)

    def _nothing(self, turn: Turn, written: Mapping[str, Any], agent: str, what: str, for_what: str = "") -> None:
        """A line about a search that found nothing; none about one that found something."""
        if turn["retrieval"] == "failed":
            self.line(agent, what, f"{for_what}nothing, as a source could not be searched", "yellow")
        elif not turn["evidence_ids"]:
            asked = " and ".join(dict.fromkeys(reading["retriever"] for reading in written.get("corpora") or []))
            self.line(agent, what, f"{for_what}nothing in {asked}" if asked else f"{for_what}nothing")

    def _selected(self, turn: Turn, written: Mapping[str, Any]) -> None:
        if turn["selected"] is None:
            self.line(turn["agent"], "selects", "nothing: its reply could not be used", "yellow")
            return
        chosen = "; ".join(map(titled, self._known(turn))) if turn["selected"] else "nothing"
        dropped = ", ".join(map(str, turn.get("dropped") or []))
        self.line(
            turn["agent"],
            "selects",
            reasoned(chosen + f" (there is no item {dropped})" * bool(dropped), turn["reason"]),
        )

    def _known(self, turn: Turn) -> list[Any]:
        return [self.pieces[id] for id in turn.get("evidence_ids", []) if id in self.pieces]

    def _comparisons(self, turn: Turn, written: Mapping[str, Any]) -> None:
        for check in turn["comparisons"]:
            found = {True: "means the same as", False: "differs from", None: "no usable reply on"}[check["same"]]
            self.line(
                turn["agent"], numbered("compared", turn), reasoned(f'{found} "{check["with"]}"', check["reason"])
            )

    def _agree(self, turn: Turn, written: Mapping[str, Any]) -> None:
        found = {True: "agreement", False: "no agreement", None: unusable(turn)}[turn["agree"]]
        self.line(turn["agent"], "finds", reasoned(found, turn.get("reason")), "magenta")

    def _preferred(self, turn: Turn, written: Mapping[str, Any]) -> None:
        none = "no answer yet" if turn.get("outcome", "ok") == "ok" else unusable(turn)
        self.line(turn["agent"], "prefers", reasoned(turn["preferred"] or none, turn.get("reason")), "magenta")

    def _comment(self, turn: Turn, written: Mapping[str, Any]) -> None:
        comment, sure = turn["comment"], turn.get("confidence")
        said = unusable(turn) if comment is None else comment + ("" if sure is None else f" (sure: {sure:g} of 10)")
        self.line(turn["agent"], "reviews", f"{turn.get('reviewed', 'an answer')}: {said}")

    def _score(self, turn: Turn, written: Mapping[str, Any]) -> None:
        given = unusable(turn) if turn["score"] is None else f"{turn['score']:.2f}"
        self.line(turn["agent"], "scores", f"{turn.get('reviewed', 'an answer')}: {given}")

    def _summary(self, turn: Turn, written: Mapping[str, Any]) -> None:
        self.line(turn["agent"], "sums up", turn["summary"] or unusable(turn))

    def _answer(self, turn: Turn, written: Mapping[str, Any]) -> None:
        what = ANSWERS.get(turn["step"], turn["step"])
        what = f"answer {turn['number']}" if "number" in turn else what
        if turn["answer"] is None:
            self.line(turn["agent"], what, unusable(turn), "yellow")
            return
        sure = turn.get("confidence")
        answer = turn["answer"] + (f" (confidence {sure:.2f})" if sure is not None else "")
        self.line(turn["agent"], what, f"{answer} - {turn['rationale']}", "cyan")

    def _about(self, turn: Turn, written: Mapping[str, Any]) -> None:
        """What a person said who was asked."""
        for what, said in reviewed(turn, self.pieces):
            self.line(turn["agent"], what, said, "green")
        if turn.get("question"):  # what is decided anew is said anew
            self.said = {key for key in self.said if key[3:4] not in (("judge",), ("summarise",))}

    # --- rounds -----------------------------------------------------------------------------------------------------

    def _votes(self, written: Mapping[str, Any]) -> None:
        votes = written.get("votes") or []
        if weights := weights_of(votes):
            self.say(f"Weights: {weights}.", "magenta", 2)
            return
        now = (written.get("rounds") or 0, votes)
        if len(votes) < max(2, self._voters(now[0])) or now == self.last_votes:
            return
        self.last_votes = now
        self.say(f"{f'Round {now[0]}' if self.in_rounds else 'Votes'}: {tally(votes)}.", "magenta", 2)

    def _voters(self, round: int) -> int:
        """How many answer in a round: those declared, without those whose models failed in earlier rounds."""
        failed = {t["agent"] for t in self.turns if t.get("outcome") == "failed" and t["round"] < round}
        return len(set(self.speakers) - failed)

    def _hearing(self, entry: Mapping[str, Any]) -> None:
        """Who hears whom in a round, with the weights that decided it."""
        if entry["round"] in self.drawn:
            return
        self.drawn.add(entry["round"])
        self._heading(entry["round"])
        for reader, kept in entry["kept"].items():
            weights = entry.get("weights", {}).get(reader, {})
            others = [source for source in weights if source not in kept]
            heard = ", ".join(weighted(source, weights) for source in kept) or "nobody"
            left = f"; not {', '.join(weighted(source, weights) for source in others)}" if others else ""
            self.line(reader, "hears", heard + left)

    def _stop(self, written: Mapping[str, Any]) -> None:
        reason = written.get("stop_reason")
        if reason and reason != "single_pass" and ("stop", reason) not in self.said:
            self.said.add(("stop", reason))
            self.say(STOPS.get(reason, f"The debate stops: {reason}."), "magenta", 2)


def pieces_of(written: Mapping[str, Any]) -> list[Any]:
    """The evidence that a node wrote."""
    return written.get("evidence") or []


def reviewed(turn: Turn, pieces: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a person changed or said, each with what was done; that all was accepted where there is nothing."""

    def names(ids: Sequence[str]) -> str:
        return "; ".join(titled(pieces[id]) for id in ids)

    said = [("asks", f"for {name}: {query}") for name, query in turn.get("queries", {}).items()]
    said += [("premise", premise) for premise in turn.get("premises") or []]
    said += [("strikes", names(turn["struck"]))] if turn.get("struck") else []
    said += [("adds", names(turn["added"]))] if turn.get("added") else []
    said += [("remarks", str(turn["remark"]))] if turn.get("remark") else []
    said += [("questions", f"the verdict: {turn['question']}")] if turn.get("question") else []
    return said or [("accepts", turn["step"].removeprefix("review_"))]


def key_of(turn: Turn) -> tuple[Any, ...]:
    """What tells a turn from others."""
    return (turn["round"], turn["phase"], turn["agent"], turn["step"], turn.get("number"))


def reasoned(what: str, reason: str | None) -> str:
    """A finding with its reason."""
    return f"{what} - {reason}" if reason else what


def unusable(turn: Turn) -> str:
    """What is said of a reply that could not be used."""
    return f"nothing that can be used ({turn.get('outcome', 'unparsed')})"


def weighted(name: str, weights: Mapping[str, float]) -> str:
    """A name with its weight, where it has one."""
    return f"{name} ({weights[name]:.2f})" if name in weights else name


def tally(votes: Sequence[Vote]) -> str:
    """Each answer with who gave it: ``SUPPORTS from agent-1, agent-3; REFUTES from agent-2``."""
    by_group: dict[int | None, list[Vote]] = {}
    for vote in votes:
        by_group.setdefault(vote["group"], []).append(vote)
    return "; ".join(
        f"{same[0]['answer'] or 'no answer'} from {voters(same, len(votes))}" for same in by_group.values()
    )


def weights_of(votes: Sequence[Vote]) -> str:
    """What the votes for each answer weigh together; nothing where votes count alike."""
    sums: dict[str, float] = {}
    for vote in votes:
        if "weight" in vote:
            answer = next(str(v["answer"]) for v in votes if v["group"] == vote["group"])
            sums[answer] = sums.get(answer, 0.0) + vote["weight"]
    return ", ".join(f"{answer} {total:.1f}" for answer, total in sums.items())


def voters(votes: Sequence[Vote], total: int) -> str:
    """Who gave one answer: by name, or by number where one agent gave several; how many where they are many."""
    if len(votes) > NAMED_VOTERS:
        return f"{len(votes)} of {total}"
    if numbers := [str(vote["number"]) for vote in votes if "number" in vote]:
        return f"answer{'s' * (len(votes) > 1)} {', '.join(numbers)}"
    return ", ".join(vote["agent"] for vote in votes)
