"""Writes the lines of text for a debate of any graph: its task, its turns, its rounds and its end.

What a turn says is told by its step (`moot.nodes._runtime.turns`).

`Words` stores the debate's settings and the updates so far. A whole document counts as one large update. `Live` (while
a debate runs) and `round_sections` (for a document) put the lines in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from moot.core.words import count_with_noun
from moot.nodes._records.entries import GATE, RoundRecord, Turn, Vote
from moot.nodes._records.reducers import merge_rounds, merge_turns
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.turns import Citation, Known, Said, kind_of, piece_in_words
from moot.nodes._steps.responding import tell_turn
from moot.nodes._texts.task import full_answer
from moot.retrievers._evidence import clean, merge_evidence
from moot.transcript.end import verdict
from moot.transcript.line import Line, Tone, has_rounds, line, own_line, unusable, with_reason

TONES: Mapping[str, Tone] = {
    **dict.fromkeys(("answer", "decision", "verdict", "statement"), "answer"),
    "finding": "finding",
    "person": "person",
    "failure": "warning",
}
"""The tone of a line, by the kind of what a turn says."""
STOPS = {
    "max_rounds": "The rounds are used up.",
    "budget_exhausted": "The budget is used up.",
    "judge_preference": "The debate stops: the moderator prefers an answer.",
}
"""Maps a stop reason to a sentence."""
DECISIONS = {
    "agreed": "The gate ends the debate: all agents gave the same answer.",
    "open": "The gate leaves the claim open, as all agents did: the debate goes on.",
    "unverified": "The gate leaves the claim open: all agents gave the same answer, with too few verified quotes.",
    "unwarranted": "The gate leaves the claim open: all agents gave the same answer, and no quote bears it out.",
    "disputed": "The gate leaves the claim open: the answers differ.",
    "first_answers": "All agents gave the same answer; this does not end it yet (`trigger`).",
    "unchanged": "The gate ends the debate: asked to attack its own answer, no agent changed it.",
    "changed": "The gate leaves the claim open: asked to attack its own answer, not every agent kept it.",
}
"""The decision of a gate, by the reason of its record."""
SEE_VERDICT = "reasons: see the verdict"
"""The text in place of reasons that are shown with the verdict."""
NAMED_VOTERS = 8
"""Maximum number of voters that are shown for an answer. For more voters, only their number is shown."""


class Words:
    """Writes the text of a debate. Systems with their own texts have a subclass; see `moot.transcript.kinds`."""

    concurrent_phases: Sequence[str] = ()
    """Phases that run concurrently."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Any = settings
        declared = (getattr(settings, kind) for kind in ("debaters", "agents", "judges") if hasattr(settings, kind))
        self.speakers: list[str] = [one.name for one in next(declared, ())]
        self.in_rounds = has_rounds(type(settings).model_fields)
        self.turns: list[Turn] = []
        self.rounds: list[RoundRecord] = []
        self.known = Known(settings)
        self.thoughts: dict[str, str] = {}
        self.reasons: dict[str, Turn | None] = {}
        self.decided: dict[str, Turn] | None = None

    def update(self, update: Mapping[str, Any]) -> None:
        """Stores the turns, rounds, evidence and sources of a node's update; of the first update, claim and task."""
        self.turns = merge_turns(self.turns, update.get("turns") or [])
        self.rounds = merge_rounds(self.rounds, update.get("round_log") or [])
        if update.get("graph"):
            self.known.claim, self.known.task = update["claim"], update["task"]
        found = merge_evidence(self.known.pieces.values(), pieces_of(update))
        self.known.pieces = {piece["id"]: piece for piece in found}
        self.known.corpora = update.get("corpora") or []

    def reasons_or_reference(self, turn: Turn, said: Said) -> str:
        """The reasons of an answer, or a reference to the place that shows them; empty if there are no reasons.

        A reference is used if an earlier turn gave the same reasons, or if the verdict shows them. `self.reasons` maps
        reasons to the turn that gave them first, or to None if the verdict shows them. While a debate runs,
        `self.decided` maps the reasons that the verdict will show to the deciding turns that gave them.
        """
        reason = clean(said.reason or "")
        if reason and reason not in self.reasons:
            if self.decided is None or not self._shows_reason(turn, said):
                self.reasons[reason] = turn
                return reason
            self.decided[reason] = turn
            return SEE_VERDICT
        first = self.reasons.get(reason)
        if first:
            return f"as {first['agent']} said" + f" in round {first['round']}" * self.in_rounds
        return SEE_VERDICT if reason else ""

    def _shows_reason(self, turn: Turn, said: Said) -> bool:
        """Whether the verdict shows a turn's reason, because the turn decides the debate, or is its only answer."""
        alone = not self.in_rounds and not self.speakers and "number" not in turn
        return said.kind in ("decision", "verdict", "finding") or alone

    def opening(self, update: Mapping[str, Any], given: Sequence[Any]) -> Iterator[Line]:
        """The lines on the debate's task and graph, and on the number of texts that came with the claim."""
        task = update["task"]
        yield own_line(f"{task['subject'].capitalize()}: {update['claim']}", "heading")
        if origin := ", ".join(filter(None, (task.get("speaker"), task.get("claim_date")))):
            yield own_line(f"Said by: {origin}" if task.get("speaker") else f"Said: {origin}", "aside")
        if page := task.get("appeared_at"):
            yield own_line(f"Appeared at: {page}", "aside")
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
        kind = kind_of(turn)
        if turn["phase"] == GATE:
            return "First answers"
        return self.round_heading(turn["round"]) if kind is None or kind.headed else None

    def round_heading(self, round: int) -> str | None:
        """The heading of a round; None if the system has no rounds."""
        return f"Round {round}" if self.in_rounds else None

    # --- turns ------------------------------------------------------------------------------------------------------

    def parts(self, turn: Turn) -> dict[str, list[Said]]:
        """What a turn says, part by part. A turn that no step has is told as far as it is an answer."""
        kind = kind_of(turn)
        parts: dict[str, list[Said]] = {}
        for said in (kind.tell if kind else tell_turn)(turn, self.known):
            parts.setdefault(said.part, []).append(said)
        return parts

    def lines(self, turn: Turn, part: Iterable[Said]) -> Iterator[Line]:
        """The lines of a part of what a turn says."""
        for said in part:
            who = said.who or turn["agent"]
            if said.part == "thought" and self.thoughts.get(who) == said.text:
                continue  # one thought may lead to several turns
            self.thoughts |= {who: said.text} if said.part == "thought" else {}
            reason = said.reason if said.answer is None else self.reasons_or_reference(turn, said)
            text = ": ".join(filter(None, (said.text, said.outcome and unusable(said.outcome))))
            tone: Tone = "warning" if said.outcome else TONES.get(said.kind, "")
            link = self.known.pieces[said.piece].get("url") if said.piece else None
            yield line(who, said.verb, with_reason(text, reason), tone, link, said)
            if said.kind == "statement" and said.citations:
                yield line("", "cites", "; ".join(dict.fromkeys(map(self._citation_in_words, said.citations))))

    def _citation_in_words(self, citation: Citation) -> str:
        missing = " (the quote is not found there)" * (not citation["fabricated"] and not citation["verified"])
        return piece_in_words(citation["evidence_id"], self.known, shown=not citation["fabricated"]) + missing

    # --- rounds -----------------------------------------------------------------------------------------------------

    def after_round(self, record: RoundRecord) -> Iterator[Line]:
        """The lines after a round; after the first answers before a debate, the votes and the gate's decision."""
        if record["phase"] != GATE:
            yield from self.after_votes(record)
            return
        yield own_line(f"Answers: {vote_words(record.get('votes') or [])}.")
        yield own_line(DECISIONS[record["reason"]])

    def after_votes(self, record: RoundRecord) -> Iterator[Line]:
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
        if reason == "judge_preference" and any(turn.get("decided") for turn in self.turns):
            yield own_line("The debate stops: the moderator can decide.")
        elif reason == "consensus" and self.rounds and self.rounds[-1]["reason"] == "unchanged":
            yield own_line("The debate stops: no agent changed its answer.")
        elif reason and reason != "single_pass":
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


def is_late(turn: Turn) -> bool:
    """Whether a turn is told after the votes of its round."""
    kind = kind_of(turn)
    return kind is not None and kind.late


def pieces_of(update: Mapping[str, Any]) -> list[Any]:
    """The evidence in a node's update; an empty list if there is none."""
    return update.get("evidence") or []


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
