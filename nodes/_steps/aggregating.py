"""Readers of one document each, whose answers an aggregator puts together (MADAM-RAG, arXiv:2504.13079)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import BudgetExhausted, ReplyError
from moot.core.redaction import redact
from moot.nodes._models.reply_limits import LONG_REPLY_TOKENS
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._records.entries import RoundReason, Task, Turn
from moot.nodes._records.pieces import Pieces
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import Decision, rounds_or_budget, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState, DebateState
from moot.nodes._runtime.turns import Citation, Known, Said, Started, new_turn, piece_in_words, tells
from moot.nodes._speakers.turns import send_turn
from moot.nodes._steps.compare import (
    EQUIVALENCE,
    agreed_answer,
    answers_of,
    close_round,
    common_outcome,
    compare_with,
    last_answers,
)
from moot.nodes._steps.isolate import answer_is, decisive_votes, origin_instructions
from moot.nodes._steps.responding import tell_answer, with_answer, without_answer
from moot.nodes._texts.answers import ABSTENTION, same_answer
from moot.nodes._texts.replies import AnswerReply, Reply, answer_reply, by_task
from moot.nodes._texts.show import best_rank, show_answers, show_claim, show_remarks, shown_ids
from moot.nodes._texts.task import mixed_label, unsettled_label, wording
from moot.prompts import as_data
from moot.prompts._files import without_brackets
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence
from moot.retrievers._origins import document_of
from pydantic import Field, create_model
from typing_extensions import TypedDict

PROMPT = "madam_rag/aggregate"
AGGREGATOR = "aggregator"
ELSEWHERE = " If your source is about another matter altogether, your reasons say only what it does not tell."


# --- the documents ----------------------------------------------------------------------------------------------------


def best_passages(evidence: Sequence[Evidence]) -> list[Evidence]:
    """The best-ranked active piece of each document, the best rank first; an unranked piece has its position."""
    ranked = sorted(
        ((best_rank(piece, place), piece) for place, piece in enumerate(active_evidence(evidence), 1)),
        key=lambda one: one[0],
    )
    found: dict[str, Evidence] = {}
    for _, piece in ranked:
        found.setdefault(document_of(piece), piece)
    return list(found.values())


def choose_documents_node() -> Node:
    """Chooses the passages that are read: the best of each document, of at most ``max_documents`` documents.

    Reads: evidence, metrics. The passages' ids are written to ``documents`` of the debate's ``metrics``.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        found = await asyncio.to_thread(best_passages, state["evidence"])
        read = [piece["id"] for piece in found[: run.settings.max_documents]]
        if left := len(found) - len(read):
            run.record.warn(
                "documents_left_out",
                f"`max_documents` is {run.settings.max_documents}, so {left} of {len(found)} documents were not read.",
            )
        return {"metrics": {**state["metrics"], "documents": read}}

    return Node(step)


def to_documents(state: DebateState) -> list[Send]:
    """Builds the `Send`s of a round: one agent for each document, which it reads alone.

    From the second round on, an agent also sees its own last answer and the aggregator's last reply. If there are no
    documents, there is one agent, without evidence.

    Args:
        state: the debate's state.
    """
    known, last = Pieces(state["evidence"]), {turn["agent"]: turn for turn in answers_of(state["turns"])}
    round = max((turn["round"] for turn in last.values()), default=0) + 1
    together = [turn for turn in state["turns"] if turn["step"] == "aggregate"][-1:]
    texts: list[list[Evidence]] = [[known[id]] for id in state["metrics"]["documents"]] or [[]]
    sends = []
    for number, evidence in enumerate(texts, 1):
        name = f"agent-{number}"
        turn, own = new_turn(round, name), last.get(name)
        sends.append(send_turn("answer", state, {"name": name}, turn, own=own, evidence=evidence, heard=together))
    return sends


def document_instructions(state: DebaterState, settings: Any) -> Mapping[str, str]:
    """Values of the placeholders of an agent with one document: `origin_instructions`, and the aggregator's last reply.

    Args:
        state: the agent's state.
        settings: the debate's settings.
    """
    together = "\n\n".join(show_aggregate(turn) for turn in state.get("heard") or [])
    told = origin_instructions(state, settings)
    return {**told, "untold": told["untold"] + (ELSEWHERE if told["untold"] else ""), "together": together}


# --- the end of a round -----------------------------------------------------------------------------------------------


def compare_with_last_round_node() -> Node:
    """Closes a round, and records in ``round_log`` whether an agent changed its answer since the round before.

    Reads: claim, task, turns. The ``reason`` is ``changed`` or ``unchanged``; after the first round ``first_answers``.
    The role ``equivalence`` compares an agent's two free-text answers if their texts differ. A vote that leaves the
    claim open only counts if all do: its agent's document does not tell.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        closed = await close_round(state, run, by_text=True)
        votes = decisive_votes(state["task"], closed["votes"])
        round, before = closed["rounds"], answers_of(state["turns"], closed["rounds"] - 1)
        changed, compared = await compare_with(state, run, before, last_answers(state["turns"]) if before else ())
        reason: RoundReason = "first_answers" if not before else "changed" if changed else "unchanged"
        update = closed | {"votes": votes, "turns": [*closed["turns"], *compared]}
        return update | recorded_round(round, reason=reason, votes=votes)

    return Node(step, prompts=(EQUIVALENCE,))


def answers_settled(state: DebateState, settings: Any) -> bool:
    """Whether the debate ends: no agent changed its answer in the last round or, by a setting, one answer is left.

    With the setting ``one_answer_ends``, one answer is left if all documents that tell give it, the aggregator gives it
    for the same round, and no document misleads. Documents that do not tell count only if none tells. Without a usable
    reply of an agent or of the aggregator, more than one answer may be left.

    Args:
        state: the debate's state after `compare_with_last_round_node` or `aggregate_node`.
        settings: settings with ``one_answer_ends``.
    """
    return _nobody_changed(state) or (settings.one_answer_ends and _one_answer_left(state))


def _nobody_changed(state: DebateState) -> bool:
    return bool(state["round_log"]) and state["round_log"][-1]["reason"] == "unchanged"


def _one_answer_left(state: DebateState) -> bool:
    last = [turn for turn in state["turns"] if turn["step"] == "aggregate" and turn["round"] == state["rounds"]][-1:]
    if not last or last[0]["answer"] is None or last[0]["misleading"]:
        return False
    votes = state["votes"]
    counted = [vote for vote in votes if vote["group"] is not None]
    left = agreed_answer(counted) if all(vote["answer"] is not None for vote in votes) else None
    return left is not None and same_answer(state["task"], left, last[0]["answer"])


# --- the aggregator ---------------------------------------------------------------------------------------------------


MAY_BE_EMPTY = Field(json_schema_extra={"minItems": 0})
"""Marks a list in a reply that grammars may leave empty."""


class DocumentsAnswer(Reply):
    """An answer, and the ids of the documents that give it."""

    answer: str
    documents: list[str]
    reason: str


class MisleadingDocument(Reply):
    """A document whose answer is not followed."""

    document: str
    reason: str


class AggregateReply(Reply):
    """The answers of the documents, and one answer from all of them."""

    most_tokens = LONG_REPLY_TOKENS
    answers: Annotated[list[DocumentsAnswer], MAY_BE_EMPTY]
    misleading: Annotated[list[MisleadingDocument], MAY_BE_EMPTY]
    rationale: str
    citations: list[Any]
    answer: str


@by_task
def aggregate_reply(task: Task, *, may_abstain: bool = False) -> type[AggregateReply]:
    """The class of an aggregator's replies, whose ``answer`` is an answer of the task."""
    answer = answer_reply(task, may_abstain=may_abstain)
    fields: Any = {
        name: (answer.model_fields[name].rebuild_annotation(), ...) for name in ("rationale", "citations", "answer")
    }
    return create_model("AggregateReply", __base__=AggregateReply, **fields)


class AnswerOfDocuments(TypedDict):
    """An answer, the ids of the documents that give it, and what it is based on."""

    answer: str
    documents: list[str]
    reason: str


class Misleading(TypedDict):
    """The id of a document whose answer is not followed, and why."""

    document: str
    reason: str


class Aggregate(Started):
    """An aggregator's reply after a round. ``answers`` and ``misleading`` are null without a usable reply."""

    step: Literal["aggregate"]
    answers: list[AnswerOfDocuments] | None
    misleading: list[Misleading] | None
    answer: str | None
    rationale: str | None
    citations: list[Citation]
    outcome: str


@tells(Aggregate, late=True)
def tell_aggregate(turn: Turn, known: Known) -> Iterator[Said]:
    """The documents' answers, the misleading documents, and the answer from all of them."""
    for one in turn["answers"] or ():
        titles = "; ".join(piece_in_words(id, known, shown=True) for id in one["documents"]) or "no document"
        yield Said("answers", "finds", f"{one['answer']}, from {titles}", one["reason"])
    for wrong in turn["misleading"] or ():
        yield Said("misleading", "discards", piece_in_words(wrong["document"], known, shown=True), wrong["reason"])
    yield from tell_answer(turn, "concludes")


def show_aggregate(turn: Turn) -> str:
    """An aggregator's reply under a heading, for agents; empty if it had no usable reply."""
    if turn["answer"] is None:
        return ""
    given = "\n".join(
        f"{one['answer']} (from {', '.join(one['documents']) or 'no document'}): {one['reason']}"
        for one in turn["answers"] or ()
    )
    wrong = "\n".join(f"{one['document']}: {one['reason']}" for one in turn["misleading"] or ())
    parts = [
        "All answers together, as somebody sums them up who has read every answer, but no document:",
        as_data("answers", given or "(none)"),
        as_data("misleading", wrong or "(none)"),
        f"Answer from all of them: {without_brackets(turn['answer'])}",
        as_data("reasons", turn["rationale"]),
    ]
    return "\n".join(parts)


async def aggregate(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = PROMPT
) -> AggregateReply:
    """Asks an aggregator, in one call, to put the agents' last answers together (MADAM-RAG, section 3)."""
    # The ``evidence_ids`` of each answer are the id of its agent's document.
    speaker = as_speaker(model, AGGREGATOR)
    conflict = answer_is(mixed_label(task) or unsettled_label(task))
    values = wording(task) | {
        "claim": show_claim(claim, task),
        "conflict": f"- If documents that deserve equal trust contradict each other, and nothing tells which of them "
        f"is right, {conflict}.",
        "untold": f"- If no document tells the answer, {answer_is(unsettled_label(task))}. Do not guess.",
        "answers": show_answers(answers, evidence_ids=True),
    }
    if task["kind"] == "short_answer":  # the task's own rules say how to leave an answer open
        values["untold"] = "- Leave open what no document tells. Do not guess."
    kind = aggregate_reply(task, may_abstain=ABSTENTION in speaker.filled(prompt, values)[0])
    return await speaker.ask(prompt, values, kind, sorted(document_ids(answers)))


def document_ids(answers: Sequence[Turn]) -> set[str]:
    """The ids of the documents of all agents."""
    return {id for turn in answers for id in turn.get("evidence_ids") or []}


def aggregate_node(prompt: str = PROMPT) -> Node:
    """Adds the aggregator's turn after a round: the documents' answers, and one answer from all of them.

    Reads: claim, task, turns, rounds, evidence. If no agent has a usable answer and no ceiling prevented one, the
    debate fails. It also fails if the aggregator gives no usable reply, unless a ceiling prevents the call and an
    earlier round has one.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        answers = last_answers(state["turns"])
        if all(turn.get("answer") is None for turn in answers) and not any(map(stopped_by_ceiling, answers)):
            raise ReplyError(
                "No agent gave a usable answer in the last round, so there is nothing to put together. Try another "
                "model, or another value of `structured_output`.",
                common_outcome(answers),
            )
        shown = document_ids(answers)
        evidence = [piece for piece in active_evidence(state["evidence"]) if piece["id"] in shown]
        turn = new_turn(state["rounds"], AGGREGATOR, "aggregate")
        turn["evidence_ids"] = [piece["id"] for piece in evidence]
        speaker = await run.speaker_of({"name": AGGREGATOR, "told": show_remarks(state["turns"])})
        try:
            reply = await aggregate(state["claim"], state["task"], answers, speaker, prompt)
        except BudgetExhausted as error:
            if not any(t.get("answer") for t in state["turns"] if t["step"] == "aggregate"):
                raise
            return {"turns": [without_answer({**turn, "answers": None, "misleading": None}, error.kind)]}
        turn |= named_documents(reply, shown, run.record)
        own = AnswerReply(answer=reply.answer, rationale=reply.rationale, citations=reply.citations)
        return {"turns": [with_answer(turn, own, evidence, shown_ids(evidence), run.record)]}

    return Node(step, prompts=(prompt,))


def named_documents(reply: AggregateReply, shown: set[str], record: StepRecord) -> dict[str, Any]:
    """The documents' answers and the misleading documents, without ids of other documents, which cause a warning."""
    named = [id for one in reply.answers for id in one.documents] + [one.document for one in reply.misleading]
    for id in dict.fromkeys(id for id in named if id not in shown):
        record.warn("unknown_document", f"{redact(id)[:80]!r} was named as a document, but nobody read such a one.")
    answers = [one.model_dump() | {"documents": [id for id in one.documents if id in shown]} for one in reply.answers]
    return {"answers": answers, "misleading": [one.model_dump() for one in reply.misleading if one.document in shown]}


def conclude_aggregate_node(prompt: str = PROMPT) -> Node:
    """Ends the debate with the aggregator's last answer. Reads: task, turns, votes, rounds, round_log.

    The settings need ``one_answer_ends``.

    Args:
        prompt: the name of the aggregator's prompt, for which ceilings keep a call.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        [last] = [turn for turn in state["turns"] if turn["step"] == "aggregate" and turn["answer"] is not None][-1:]
        cut = any(map(stopped_by_ceiling, answers_of(state["turns"])))
        settled = answers_settled(state, run.settings) and not cut
        reason = "consensus" if settled else rounds_or_budget(state, run.settings)
        record = recorded_round(state["rounds"], reason="agreed") if settled and not _nobody_changed(state) else {}
        return {"answer": last["answer"], "raw_verdict": last["answer"], "stop_reason": reason, **record}

    decision = Decision(prompt, aggregate_reply, around=1200)
    return Node(step, decides=lambda settings: {AGGREGATOR: decision})
