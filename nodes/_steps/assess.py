"""Assessing an answer: which of its statements follow from its evidence, and which of its quotes bear it out.

One call replaces the two of `faithfulness`, and judges the quotes, too. Ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from langchain_core.language_models import BaseChatModel
from moot.core.errors import MootError
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.reply_limits import LONG_REPLY_TOKENS
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Bearing, Citation, Said
from moot.nodes._steps.score import failed_score_update, faithfulness_score, score_update
from moot.nodes._texts.replies import Reply, Text, one_of_each
from moot.nodes._texts.show import show_claim, show_evidence
from moot.nodes._texts.task import full_answer, is_reasoning_task, mixed_label
from moot.nodes._texts.verdict import counted_warrants, deciding_answers, was_assessed
from moot.prompts._files import as_data, join_blocks
from moot.retrievers import Evidence
from pydantic import create_model

PROMPT = "scoring/assess"
ALL_ELSE = "Take all else, also what is doubtful or beside the point."
FROM_EVIDENCE = (
    "Take only what the reasons take from the evidence. What they know, work out or conclude by themselves is no "
    "statement here; if there is nothing else, leave `statements` empty."
)
"""Which statements are taken: all, or on tasks of reasoning only those from evidence."""
ONE_PART = "So does a passage that shows one part of it, if the other quoted passages show the rest."
ONE_SIDE = (
    "This answer says that the evidence goes both ways, or that the claim is true and still misleads: a passage that "
    "shows one of the two sides `entails`, if another quoted passage shows the other."
)
"""Which passages bear an answer out together: in general, and if the answer is that the evidence conflicts."""


class AssessedStatement(Reply):
    """A statement of an answer's reasons, and whether it follows from the evidence."""

    text: Text
    reason: str
    supported: bool


class AssessedQuote(Reply):
    """What the passage of a quote, numbered from 0, does for the answer."""

    index: int
    bears: Bearing


class AssessReply(Reply):
    """The statements of an answer's reasons, and one entry for each of its quotes."""

    most_tokens = LONG_REPLY_TOKENS
    statements: list[AssessedStatement]
    quotes: list[AssessedQuote]


@lru_cache(maxsize=64)
def assess_reply(count: int) -> type[AssessReply]:
    """The class of replies with exactly one entry for each of ``count`` quotes, sorted by index."""
    return create_model("AssessReply", __base__=AssessReply, quotes=(one_of_each(AssessedQuote, count), ...))


@dataclass(frozen=True)
class Assessment:
    """The assessment of an answer.

    ``faithfulness`` is the share of ``statements`` that are ``supported``, None without statements; ``reasons`` says
    why each is or is not. ``bears`` says what the passage of each quote does for the answer.
    """

    faithfulness: float | None
    statements: list[str]
    supported: list[bool]
    reasons: list[str]
    bears: list[Bearing]


async def assess(
    claim: str,
    task: Task,
    answer: str,
    rationale: str,
    quotes: Sequence[Citation],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    prompt: str = PROMPT,
) -> Assessment:
    """Asks a model, in one call, what of an answer its evidence bears out.

    Args:
        claim: the claim of the debate.
        task: the form of an answer; with the claim's speaker and date, if they are known.
        answer: the answer.
        rationale: the answer's reasons.
        quotes: the answer's checked quotes; each is judged by its whole passage.
        evidence: the evidence on which the answer is based, with the passages of all quotes.
        model: the model that assesses.
        prompt: the prompt's name.

    Returns:
        The share of the reasons' statements that follow from the evidence, the statements, and for each quote
        ``entails``, ``contradicts`` or ``neither``. On a task of reasoning, only statements taken from the evidence
        count.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    meaning = task["meanings"].get(answer, "")
    said = full_answer(task, answer)
    numbered = (as_data("quote", one["quote"], index=str(i), of=one["evidence_id"]) for i, one in enumerate(quotes))
    each = f"one entry for each of the {len(quotes)} quotes" if len(quotes) > 1 else "one entry for the quote"
    values = {
        "subject": task["subject"],
        "claim": show_claim(claim, task),
        "answer": as_data("answer", f"{answer} - {meaning}" if meaning and said == answer else said),
        "reasons": as_data("reasons", rationale),
        "evidence": show_evidence(evidence),
        "quotes": join_blocks(numbered, empty="(none)"),
        "count": each if quotes else "the latter empty, as there are no quotes",
        "of": FROM_EVIDENCE if is_reasoning_task(task) else ALL_ELSE,
        "part": ONE_SIDE if answer == mixed_label(task) else ONE_PART,
    }
    reply = await as_speaker(model, "scorer").ask(prompt, values, assess_reply(len(quotes)))
    found = reply.statements
    supported = [one.supported for one in found]
    bears = [one.bears for one in reply.quotes]
    texts, reasons = [one.text for one in found], [one.reason for one in found]
    return Assessment(faithfulness_score(supported), texts, supported, reasons, bears)


def tell_assessment(turn: Turn) -> Iterator[Said]:
    """What was found of an answer's quotes and statements, once it was assessed."""
    if not (found := counted_warrants(turn.get("citations") or [])):
        return
    supported = turn.get("scores", {}).get("supported", [])
    held = f"; {sum(supported)} of {len(supported)} statements follow from the evidence" if supported else ""
    yield Said("assessment", "assessed", f"of its quotes, {found}{held}", kind="finding")


async def assessed(
    claim: str,
    task: Task,
    turn: Turn,
    evidence: Sequence[Evidence],
    speaker: Speaker,
    run: NodeContext,
    *,
    decided: bool = False,
) -> dict[str, Any]:
    """The state update with an answer's assessment: its scores, and the ``warrant`` of each checked quote.

    If the assessment fails, the score is null, the quotes have no warrant, and a warning says why
    (`failed_score_update`).
    """
    quotes = [one for one in turn.get("citations") or [] if one["verified"]]
    try:
        found = await assess(claim, task, turn["answer"], turn["rationale"] or "", quotes, evidence, speaker)
    except MootError as error:
        return failed_score_update(turn, "faithfulness", error, run, decided=decided)
    bears = iter(found.bears)
    cited = [{**one, "warrant": next(bears)} if one["verified"] else one for one in turn.get("citations") or []]
    scores = {"faithfulness": found.faithfulness, "statements": found.statements, "supported": found.supported}
    update = score_update(turn, {**scores, "reasons": found.reasons})
    return {"turns": [{**one, "citations": cited} for one in update["turns"]]}


def assess_node(
    answers: Callable[[DebateState], Sequence[Turn]] = deciding_answers,
    when: Callable[[Any], bool] = lambda settings: getattr(settings, "assess", False),
) -> Node:
    """Assesses answers that were not assessed yet, in parallel, and writes the assessments into their turns.

    Reads: claim, task, turns, evidence, votes, rounds, answer, raw_verdict, metrics. By default, it does
    nothing unless the setting ``assess`` is on. Neither a ceiling that prevents an assessment nor an assessment that
    fails ends a debate that has its verdict.

    The arguments of a trial are assessed together, as one answer (`case_of`), whose scores are written into the last.

    Args:
        answers: takes the state; returns the turns to assess. By default those of the answers that decide, unless they
            leave the claim open. Answers without evidence are not assessed.
        when: takes the settings; returns whether answers are assessed.
    """

    def waiting(state: DebateState) -> list[Turn]:
        found = [turn for turn in answers(state) if has_passages(turn)]
        if any(turn["step"] == "argue" for turn in found):
            return [] if any(map(was_assessed, found)) else found
        return [turn for turn in found if turn.get("answer") and not was_assessed(turn)]

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        known, speaker = Pieces(state["evidence"]), await run.speaker("scorer")
        before = Counter(run.budget.skipped), Counter(run.budget.cut)

        def read_by(turn: Turn) -> list[Evidence]:
            return [known[id] for id in dict.fromkeys([*turn["evidence_ids"], *quoted_ids(turn)])]

        turns = waiting(state)
        argued = [turn for turn in turns if turn["step"] == "argue"]
        cases = [case_of(argued, state["answer"])] if argued else turns
        decided = state["raw_verdict"] is not None
        made = await all_at_once(
            assessed(state["claim"], state["task"], turn, read_by(turn), speaker, run, decided=decided)
            for turn in cases
        )
        run.budget.skipped, run.budget.cut = before
        found = [turn for update in made for turn in update["turns"]]
        return {"turns": with_warrants(argued, found[0]) if argued else found}

    def idle(state: DebateState, settings: Any) -> bool:
        return not (when(settings) and waiting(state))

    return Node(step, prompts=(PROMPT,), idle=idle)


def case_of(arguments: Sequence[Turn], answer: str | None) -> Turn:
    """The arguments of a trial as one answer: their texts are its reasons, their checked quotes its quotes.

    Its evidence are the passages that they quote or, if they quote none, all exhibits.
    """
    once = {_key(one): one for turn in arguments for one in turn["citations"] if one["verified"]}
    reasons = "\n\n".join(turn["argument"] for turn in arguments)
    told = {"answer": answer, "rationale": reasons, "citations": [*once.values()]}
    return {**arguments[-1], **told, **({"evidence_ids": []} if once else {})}


def with_warrants(arguments: Sequence[Turn], case: Turn) -> list[Turn]:
    """The arguments with the warrants of their quotes in an assessed case, and the last one with the case's scores.

    A case whose assessment failed has no citations.
    """
    found = {_key(one): one.get("warrant") for one in case.get("citations", []) if "warrant" in one}
    written: list[Turn] = []
    for turn in arguments:
        cited = [{**one, "warrant": found[_key(one)]} if _key(one) in found else one for one in turn["citations"]]
        written.append({**turn, "citations": cited})
    written[-1] = {**written[-1], "scores": {**written[-1].get("scores", {}), **case["scores"]}}
    return written


def _key(citation: Citation) -> tuple[str, str]:
    return citation["evidence_id"], citation["quote"]


def quoted_ids(turn: Turn) -> list[str]:
    """The ids of the evidence that an answer quotes word for word."""
    return [one["evidence_id"] for one in turn.get("citations") or [] if one["verified"]]


def has_passages(turn: Turn) -> bool:
    """Whether an answer is based on evidence: it was shown some, or quotes some."""
    return bool(turn.get("evidence_ids") or quoted_ids(turn))
