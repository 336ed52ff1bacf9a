"""Writes the lines of text for a debate of any graph: its task, the fields of its turns, its rounds and its end.

`Words` stores the debate's settings and the updates so far. A whole document counts as one large update. `Live` (while
a debate runs) and `round_sections` (for a document) put the lines in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._records.entries import PERSON, RoundRecord, Task, Turn, Vote
from moot.nodes._records.reducers import merge_rounds, merge_turns
from moot.nodes._runtime.settings import Settings
from moot.nodes._speakers.pool import POOL
from moot.nodes._texts.task import full_answer
from moot.retrievers._evidence import clean
from moot.transcript.end import verdict
from moot.transcript.line import (
    Line,
    has_rounds,
    line,
    on_page,
    own_line,
    titled,
    unusable,
    with_reason,
    with_turn_number,
)

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
"""Fields of turns that are shown, in this order. The method ``_NAME`` yields the lines for the field ``NAME``."""
HIDDEN_IF_EMPTY = {"thought", "query"}
"""Fields that are shown only if they are not empty."""
ANSWERS = {"respond": "answers", "judge": "decides", "summarise": "concludes"}
"""Maps a turn's step to the verb for the agent who gives the answer. For other steps, the verb is the step itself."""
DECIDING = {"judge", "summarise"}
"""Steps of turns that decide after a debate has stopped. A summary of a round also has the step ``summarise``,
but decides nothing.
"""
STOPS = {
    "max_rounds": "The rounds are used up.",
    "budget_exhausted": "The budget is used up.",
    "judge_preference": "The debate stops: the moderator prefers an answer.",
}
"""Maps a stop reason to a sentence."""
SEE_VERDICT = "reasons: see the verdict"
"""The text in place of reasons that are shown with the verdict."""
NAMED_VOTERS = 8
"""Maximum number of voters that are shown for an answer. For more voters, only their number is shown."""


class Words:
    """Writes the text of a debate. Systems with their own texts have a subclass; see `moot.transcript.kinds`.

    Args:
        settings: the settings of the debate.
    """

    fields: Sequence[str] = FIELDS
    concurrent_phases: Sequence[str] = ()
    """Phases that run concurrently."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Any = settings
        declared = (getattr(settings, kind) for kind in ("debaters", "agents", "judges") if hasattr(settings, kind))
        self.speakers: list[str] = [one.name for one in next(declared, ())]
        self.in_rounds = has_rounds(type(settings).model_fields)
        self.turns: list[Turn] = []
        self.rounds: list[RoundRecord] = []
        self.pieces: dict[str, Any] = {}
        self.subject = "claim"
        self.task: Task | None = None
        self.thoughts: dict[str, str] = {}
        self.reasons: dict[str, Turn | None] = {}
        self.decided: dict[str, Turn] | None = None

    def update(self, update: Mapping[str, Any]) -> None:
        """Stores the turns, rounds and evidence of a node's update, and the task of a debate's first update."""
        self.turns = merge_turns(self.turns, update.get("turns") or [])
        self.rounds = merge_rounds(self.rounds, update.get("round_log") or [])
        if update.get("graph"):
            self.task = update["task"]
            self.subject = update["task"]["subject"]
        for piece in pieces_of(update):
            self.pieces.setdefault(piece["id"], piece)

    def reasons_or_reference(self, turn: Turn, reason: str | None) -> str:
        """The reasons of an answer, or a reference to the place that shows them; empty if there are no reasons.

        A reference is used if an earlier turn gave the same reasons, or if the verdict shows them. `self.reasons` maps
        reasons to the turn that gave them first, or to None if the verdict shows them. While a debate runs,
        `self.decided` maps the reasons that the verdict will show to the deciding turns that gave them.
        """
        reason = clean(reason or "")
        if reason and reason not in self.reasons:
            if self.decided is None or not self._decides(turn):
                self.reasons[reason] = turn
                return reason
            self.decided[reason] = turn
            return SEE_VERDICT
        first = self.reasons.get(reason)
        if first:
            return f"as {first['agent']} said" + f" in round {first['round']}" * self.in_rounds
        return SEE_VERDICT if reason else ""

    def _decides(self, turn: Turn) -> bool:
        """Whether a turn decides the debate.

        It does if its step is in `DECIDING`, or if it prefers an answer. It also does if the system has neither rounds
        nor declared agents, and the answer has no number.
        """
        alone = not self.in_rounds and not self.speakers and "number" not in turn
        return turn["step"] in DECIDING or bool(turn.get("preferred")) or alone

    def opening(self, update: Mapping[str, Any], given: Sequence[Any]) -> Iterator[Line]:
        """The lines on the debate's task and graph, and on the number of texts that came with the claim."""
        task = update["task"]
        yield own_line(f"{task['subject'].capitalize()}: {update['claim']}", "heading")
        if origin := ", ".join(filter(None, (task.get("speaker"), task.get("claim_date")))):
            yield own_line(f"Said by: {origin}" if task.get("speaker") else f"Said: {origin}", "aside")
        labels = [full_answer(task, label) for label in task["labels"]]
        answers = ", ".join(f'"{label}"' if "," in label else label for label in labels)
        answers = answers or task["kind"].replace("_", " ")
        yield own_line(f"Graph {update['graph']}; answers: {answers}", "aside")
        if given:
            yield own_line(f"Given with it: {count_with_noun(len(given), 'text')}", "aside")
        for warned in update.get("warnings") or []:
            if warned["kind"] == "same_source":
                yield own_line(warned["detail"], "warning")

    def heading(self, turn: Turn) -> str | None:
        """The heading of a turn; None if the turn stays under the previous heading, or if there are no rounds."""
        has_no_heading = turn["step"] == "retrieve" or turn["agent"] == PERSON
        return None if has_no_heading else self.round_heading(turn["round"])

    def round_heading(self, round: int) -> str | None:
        """The heading of a round; None if the system has no rounds."""
        return f"Round {round}" if self.in_rounds else None

    # --- turns, field by field --------------------------------------------------------------------------------------

    def entries(self, turn: Turn) -> list[str]:
        """The fields of a turn that are shown, in order."""
        return [field for field in self.fields if field in turn and (turn.get(field) or field not in HIDDEN_IF_EMPTY)]

    def field_lines(self, field: str, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        """The lines for a field of a turn. ``update`` has data that the turn lacks, such as the searched corpora."""
        found: Iterator[Line] = getattr(self, f"_{field}")(turn, update)
        return found

    def _thought(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if self.thoughts.get(turn["agent"]) != turn["thought"]:  # one thought may lead to several turns
            self.thoughts[turn["agent"]] = turn["thought"]
            yield line(turn["agent"], "thinks", turn["thought"])

    def _tool(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        query = turn.get("query") or "(not carried out)"
        yield line(turn["agent"], with_turn_number("asks", turn), f"{turn['tool']}: {query}")

    def _query(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if "tool" not in turn:
            yield line(turn["agent"], "asks", turn["query"] or "")

    def _retrieval(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        what = with_turn_number("finds", turn)
        is_numbered = turn["agent"] == POOL and getattr(self.settings, "selection", False)
        for number, piece in enumerate(self._known_pieces(turn), 1):
            prefix = f"{number}. " if is_numbered else ""  # debaters name pieces of a pool by their numbers
            yield line(
                turn["agent"],
                what,
                f"{prefix}{piece['title']} ({piece['source']}{on_page(piece)}) [{piece['id']}]",
                link=piece.get("url"),
            )
        yield from self._no_results(turn, update, turn["agent"], what)

    def _no_results(
        self, turn: Turn, update: Mapping[str, Any], agent: str, what: str, for_what: str = ""
    ) -> Iterator[Line]:
        """A line about a search without results; no line if there are results."""
        if turn["retrieval"] == "failed":
            yield line(agent, what, f"{for_what}nothing, because a source could not be searched", "warning")
        elif not turn["evidence_ids"]:
            asked = " and ".join(dict.fromkeys(reading["retriever"] for reading in update.get("corpora") or []))
            yield line(agent, what, f"{for_what}nothing in {asked}" if asked else f"{for_what}nothing")

    def _selected(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["selected"] is None:
            yield line(turn["agent"], "selects", "nothing: its reply could not be used", "warning")
            return
        chosen = "; ".join(map(titled, self._known_pieces(turn))) if turn["selected"] else "nothing"
        dropped = ", ".join(map(str, turn.get("dropped") or []))
        yield line(
            turn["agent"],
            "selects",
            with_reason(chosen + f" (there is no item {dropped})" * bool(dropped), turn["reason"]),
        )

    def _known_pieces(self, turn: Turn) -> list[Any]:
        return [self.pieces[id] for id in turn.get("evidence_ids", []) if id in self.pieces]

    def _comparisons(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        for check in turn["comparisons"]:
            found = {True: "means the same as", False: "differs from", None: "no usable reply on"}[check["same"]]
            yield line(
                turn["agent"],
                with_turn_number("compared", turn),
                with_reason(f'{found} "{check["with"]}"', check["reason"]),
            )

    def _agree(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        found = {True: "agreement", False: "no agreement", None: unusable(turn)}[turn["agree"]]
        if turn["agree"] is not None and turn.get("agreed", turn["agree"]) != turn["agree"]:
            counts = "an agreement: the answers are the same" if turn["agreed"] else "no agreement: the answers differ"
            found += f" (counts as {counts})"
        yield line(turn["agent"], "finds", with_reason(found, turn.get("reason")), "finding")

    def _preferred(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        if turn["preferred"]:
            found, why = turn["preferred"], self.reasons_or_reference(turn, turn.get("reason"))
        else:
            found = "no answer yet" if turn.get("outcome", "ok") == "ok" else unusable(turn)
            why = turn.get("reason") or ""
        yield line(turn["agent"], "prefers", with_reason(found, why), "finding")

    def _comment(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        comment, sure = turn["comment"], turn.get("confidence")
        text = unusable(turn) if comment is None else comment + ("" if sure is None else f" (sure: {sure:g} of 10)")
        yield line(turn["agent"], "reviews", f"{turn.get('reviewed', 'an answer')}: {text}")

    def _score(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        given = unusable(turn) if turn["score"] is None else f"{turn['score']:.2f}"
        yield line(turn["agent"], "scores", f"{turn.get('reviewed', 'an answer')}: {given}")

    def _summary(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        yield line(turn["agent"], "sums up", turn["summary"] or unusable(turn))

    def _answer(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        what = ANSWERS.get(turn["step"], turn["step"])
        what = f"answer {turn['number']}" if "number" in turn else what
        if turn["answer"] is None:
            yield line(turn["agent"], what, unusable(turn), "warning")
            return
        sure = turn.get("confidence")
        answer = turn["answer"] + (f" (says it is {sure:.0%} sure)" if sure is not None else "")
        yield line(
            turn["agent"], what, with_reason(answer, self.reasons_or_reference(turn, turn["rationale"])), "answer"
        )

    def _about(self, turn: Turn, update: Mapping[str, Any]) -> Iterator[Line]:
        """A line for each change, remark or question of a person who was asked."""
        for what, text in person_actions(turn, self.pieces):
            yield line(turn["agent"], what, text, "person")

    # --- rounds -----------------------------------------------------------------------------------------------------

    def after_round(self, record: RoundRecord) -> Iterator[Line]:
        """The votes of a round, once all its agents have answered; nothing if fewer than two agents vote."""
        votes = record.get("votes") or []
        # If agents speak one after the other, the record has only the votes so far.
        if len(votes) >= max(2, self._voter_count(record["round"])):
            yield own_line(f"{self.round_heading(record['round']) or 'Votes'}: {vote_words(votes)}.")

    def _voter_count(self, round: int) -> int:
        """The number of agents who vote in a round: all declared agents that have not failed so far."""
        failed = {t["agent"] for t in self.turns if t.get("outcome") == "failed" and t["round"] <= round}
        return len(set(self.speakers) - failed)

    def hearing(self, entry: Mapping[str, Any]) -> Iterator[Line]:
        """A line for each agent: the agents that it hears in a round, then the weighed agents that it does not hear."""
        for reader, kept in entry["kept"].items():
            weights = entry.get("weights", {}).get(reader, {})
            others = [source for source in weights if source not in kept]
            heard = ", ".join(with_weight(source, weights) for source in kept) or "nobody"
            unheard = f"; not {', '.join(with_weight(source, weights) for source in others)}" if others else ""
            yield line(reader, "hears", heard + unheard)

    # --- the end ----------------------------------------------------------------------------------------------------

    def weights(self, votes: Sequence[Vote]) -> Iterator[Line]:
        """The sum of the weights of the votes for each answer; nothing if no vote has a weight."""
        if weights := weights_of(votes):
            yield own_line(f"Weights: {weights}.")

    def stop(self, reason: str | None) -> Iterator[Line]:
        """Why the debate stops; nothing without a reason, or if the reason is ``single_pass``."""
        if reason and reason != "single_pass":
            yield own_line(STOPS.get(reason, f"The debate stops: {reason}."))

    def verdict(self, document: Mapping[str, Any]) -> Iterator[Line]:
        """The verdict of a debate with the status ``done``."""
        return verdict(document, self.reasons)

    # --- only in trials ---------------------------------------------------------------------------------------------

    def pools(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The evidence before it is weighed; nothing, except in a trial."""
        yield from ()

    def rulings(self, pieces: Iterable[Any]) -> Iterator[Line]:
        """The rulings on the evidence; nothing, except in a trial."""
        yield from ()

    def concurrent_debate_stop(self, entry: Mapping[str, Any]) -> Iterator[Line]:
        """Why one of several concurrent debates stops; nothing, except in a trial."""
        yield from ()


def pieces_of(update: Mapping[str, Any]) -> list[Any]:
    """The evidence in a node's update; an empty list if there is none."""
    return update.get("evidence") or []


def person_actions(turn: Turn, pieces: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A person's changes, remarks and question, each as a verb and a text; if there are none, "accepts" and a step."""

    def titles(ids: Sequence[str]) -> str:
        return "; ".join(titled(pieces[id]) for id in ids)

    changes = [("asks", f"for {name}: {query}") for name, query in turn.get("queries", {}).items()]
    changes += [("premise", premise) for premise in turn.get("premises") or []]
    changes += [("strikes", titles(turn["struck"]))] if turn.get("struck") else []
    changes += [("adds", titles(turn["added"]))] if turn.get("added") else []
    changes += [("remarks", str(turn["remark"]))] if turn.get("remark") else []
    changes += [("questions", f"the verdict: {turn['question']}")] if turn.get("question") else []
    return changes or [("accepts", turn["step"].removeprefix("review_"))]


def with_weight(name: str, weights: Mapping[str, float]) -> str:
    """A name with its weight, if it has one."""
    return f"{name} ({weights[name]:.2f})" if name in weights else name


def vote_words(votes: Sequence[Vote]) -> str:
    """Each answer with its voters: ``SUPPORTS from agent-1, agent-3; REFUTES from agent-2``."""
    by_group: dict[int | None, list[Vote]] = {}
    for vote in votes:
        by_group.setdefault(vote["group"], []).append(vote)
    return "; ".join(
        f"{same[0]['answer'] or 'no answer'} from {voters(same, len(votes))}" for same in by_group.values()
    )


def weights_of(votes: Sequence[Vote]) -> str:
    """The sum of the weights of the votes for each answer, in words; empty if no vote has a weight."""
    sums: dict[str, float] = {}
    for vote in votes:
        if "weight" in vote:
            answer = next(str(v["answer"]) for v in votes if v["group"] == vote["group"])
            sums[answer] = sums.get(answer, 0.0) + vote["weight"]
    return ", ".join(f"{answer} {total:.1f}" for answer, total in sums.items())


def voters(votes: Sequence[Vote], total: int) -> str:
    """The voters for one answer: their names, or the numbers of their answers if the answers are numbered.

    If there are more voters than `NAMED_VOTERS`, only the number of voters and the ``total`` are shown.
    """
    if len(votes) > NAMED_VOTERS:
        return f"{len(votes)} of {total}"
    if numbers := [str(vote["number"]) for vote in votes if "number" in vote]:
        return f"answer{'s' * (len(votes) > 1)} {', '.join(numbers)}"
    return ", ".join(vote["agent"] for vote in votes)
