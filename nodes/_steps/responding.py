"""Answering (Tool-MAD, algorithm 1, Respond): a debater's answer from its evidence and the others' last answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError, WorldError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.ceilings import Decision
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebaterState
from moot.nodes._runtime.turns import Citation, Known, Said, Search, outcome_of, tells
from moot.nodes._steps.assess import tell_assessment
from moot.nodes._steps.query import tell_query
from moot.nodes._steps.retrieving import tell_search
from moot.nodes._steps.score import tell_scores
from moot.nodes._steps.select import SelectionFields, tell_selection
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.plans import show_plan
from moot.nodes._texts.quotes import check_citations, citation_warnings, missing_quote_fault
from moot.nodes._texts.replies import AnswerReply, answer_reply
from moot.nodes._texts.show import (
    NOT_LOOKED_FOR,
    NOTHING,
    show_claim,
    show_evidence,
    show_given,
    show_opponents,
    show_own_answer,
    show_persona,
    shown_ids,
)
from moot.nodes._texts.task import (
    FROM_NEW_EVIDENCE,
    FROM_OTHERS,
    FROM_OWN_EVIDENCE,
    FROM_SHARED_EVIDENCE,
    FROM_SHOWN_PASSAGES,
    HEED,
    SHOWN_PASSAGES,
    wording,
)
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence, given_evidence

PROMPT = "tool_mad/respond"
SINGLE_PROMPT = "rag/answer"
"""The prompt of an agent that answers alone, once."""


class AnswerBegun(SelectionFields):
    """A pending answer.

    ``queries`` are the texts that were searched for, if there were several; ``query`` is the first. ``quoted_by`` has
    the passages that the agent is shown because answers of the last round quote them, each with those who did.
    """

    step: Literal["respond"]
    retrieval: NotRequired[Search]
    queries: NotRequired[list[str]]
    quoted_by: NotRequired[dict[str, list[str]]]
    thought: NotRequired[str]


class Answer(AnswerBegun):
    """An answer."""

    answer: str | None
    rationale: str | None
    citations: list[Citation]
    outcome: str
    confidence: NotRequired[float | None]


@tells(AnswerBegun, Answer)
def tell_turn(turn: Turn, known: Known) -> Iterator[Said]:
    """A debater's turn: its query, results and selection, then its answer and the answer's scores."""
    yield from tell_thought(turn)
    yield from tell_query(turn, known)
    yield from tell_search(turn, known)
    yield from tell_selection(turn, known)
    yield from tell_answer(turn, "answers" if turn["step"] == "respond" else turn["step"])
    yield from tell_scores(turn, known)
    yield from tell_assessment(turn)


def tell_thought(turn: Turn) -> Iterator[Said]:
    """An agent's text besides its tool calls and its answer."""
    if turn.get("thought"):
        yield Said("thought", "thinks", turn["thought"])


def tell_answer(turn: Turn, verb: str, kind: Literal["answer", "decision"] = "answer") -> Iterator[Said]:
    """The answer of a turn, if it has one, or why there is none."""
    if "answer" not in turn:
        return
    verb = f"answer {turn['number']}" if "number" in turn else verb
    if turn["answer"] is None:
        yield Said("answer", verb, kind=kind, outcome=outcome_of(turn))
        return
    sure = turn.get("confidence")
    text = turn["answer"] + (f" (says it is {sure:.0%} sure)" if sure is not None else "")
    cited = tuple(turn.get("citations") or ())
    yield Said("answer", verb, text, turn["rationale"], kind, answer=turn["answer"], citations=cited)


async def respond(
    claim: str,
    task: Task,
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    opponents: Sequence[Turn] = (),
    own: Turn | None = None,
    cited: Sequence[Evidence] = (),
    verified_quotes: bool = False,
    known: bool = False,
    direct: bool = False,
    persona: str | None = None,
    confidence: bool = False,
    plan: Turn | None = None,
    quoted_by: Mapping[str, Sequence[str]] | None = None,
    nothing: str = NOTHING,
    more: Mapping[str, str] | None = None,
    prompt: str = PROMPT,
) -> AnswerReply:
    """Asks a model for an answer to a claim, with reasons and citations.

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        evidence: the debater's evidence; may be empty. Prompts of debaters that do not search show only the texts that
            were given with the claim.
        model: the debater's model.
        opponents: the other debaters' last answers.
        own: the debater's own last answer.
        cited: the evidence that ``opponents`` and ``own`` cite. The prompt does not show it, but a reply may quote it.
        verified_quotes: whether an answer without a verified quote is refused. Without evidence, no quote is needed.
        known: whether the debater answers from its own knowledge, because there was no search and no text was given.
        direct: whether the answer is written before its reasons.
        persona: the debater's persona.
        confidence: whether the reply has a confidence, from 0 to 1.
        plan: the turn with the plan of the first search; None if there is none.
        quoted_by: for passages in ``evidence`` from which debaters quoted in the last round, the debaters' names.
        nothing: the text in the prompt if there is no evidence; not used if ``known``.
        more: values of further placeholders of the prompt.
        prompt: the prompt's name.

    Returns:
        The debater's reply, with ``answer``, ``rationale`` and ``citations``; if the argument ``confidence`` is true,
        also with ``confidence``. Each citation has an ``evidence_id`` and a ``quote``.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "debater")
    values = wording(task, given=bool(given_evidence(evidence)), known=known) | {
        "name": speaker.role,
        "claim": show_claim(claim, task),
        "plan": show_plan(plan, task["subject"]),
        "evidence": show_evidence(evidence, NOT_LOOKED_FOR if known else nothing, partial(quoting, by=quoted_by or {})),
        "given": show_given(evidence),
        "opponents": show_opponents(opponents),
        "own": show_own_answer(own),
        "heed": HEED if opponents else "",
        "others": rule_for_changes(opponents, own, known=known, passages=bool(quoted_by)),
        "shared": FROM_SHARED_EVIDENCE if opponents else "",
        "conformity": "",
        "persona": show_persona(persona),
        "confidence": CONFIDENCE_LINE if confidence else "",
        "demonstrations": "",
        **(more or {}),
    }
    shown = shown_ids(evidence, [*opponents, *([own] if own else [])])
    check = quote_check([*evidence, *cited], shown, speaker) if verified_quotes and evidence else None
    may_abstain = ABSTENTION in speaker.filled(prompt, values)[0]
    kind = answer_reply(task, direct=direct, confidence=confidence, may_abstain=may_abstain)
    return await speaker.ask(prompt, values, kind, sorted(shown), check)


def rule_for_changes(opponents: Sequence[Turn], own: Turn | None, *, known: bool, passages: bool) -> str:
    """The rule for changing an answer; empty for a debater that reads no answer of others.

    ``passages``: the evidence holds passages that debaters quoted.
    """
    if not opponents:
        return ""
    if known:
        return FROM_OTHERS
    if not own:
        return f"{FROM_NEW_EVIDENCE}\n{SHOWN_PASSAGES}" if passages else FROM_NEW_EVIDENCE
    return FROM_SHOWN_PASSAGES if passages else FROM_OWN_EVIDENCE


def quoting(piece: Evidence, by: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Who quoted a passage in the last round, as an attribute of its tag."""
    return {"quoted_by": ", ".join(by[piece["id"]])} if piece["id"] in by else {}


CONFIDENCE_LINE = "- In `confidence`, say how likely your answer is to be right, from 0 to 1."
"""The line of a prompt that asks for a confidence."""


def quote_check(evidence: Sequence[Evidence], shown: set[str], speaker: Speaker) -> Callable[[AnswerReply], str]:
    """A check of replies: returns the fault of a reply without a verified quote, else an empty text."""

    def check(reply: AnswerReply) -> str:
        # Evidence that the prompt left out cannot be quoted.
        seen = shown - speaker.not_shown
        return missing_quote_fault(check_citations(reply.citations, evidence, seen)) if seen else ""

    return check


def respond_node(
    prompt: str = PROMPT,
    *,
    then: str | None = None,
    direct: bool = False,
    confidence: bool = False,
    may_leave: bool = False,
    more: Callable[[DebaterState, Any], Mapping[str, str]] | None = None,
) -> Node:
    """Writes the debater's answer into its turn.

    Reads: claim, task, debater, opponents, turns and, if present, evidence, own, cited, pool, retrieval, steps, plan.

    After an unusable reply, or if a ceiling prevented the call, the answer is null, and ``outcome`` says why.

    Args:
        prompt: the prompt's name.
        then: the prompt of agents that see an answer, their own or others'; by default ``prompt``.
        direct: whether the answer is written before its reasons.
        confidence: whether the reply has a confidence, from 0 to 1.
        may_leave: whether the debater leaves the debate if an external cause makes the call fail. If true, ``outcome``
            is ``failed``, and a warning says why. If false, the debate fails.
        more: takes the state and the settings; returns values of further placeholders of the prompts.
    """

    async def step(state: DebaterState, run: NodeContext) -> dict[str, Any]:
        opponents, own = state["opponents"], state.get("own")
        evidence, cited = active_evidence(state.get("evidence") or []), state.get("cited") or []
        turn: Turn = {**state["turns"][0], "evidence_ids": [piece["id"] for piece in evidence]}
        speaker = await run.speaker_of(state["debater"])
        try:
            reply = await respond(
                state["claim"],
                state["task"],
                evidence,
                speaker,
                opponents=opponents,
                own=own,
                cited=cited,
                verified_quotes=run.settings.verified_quotes,
                known=not evidence and not has_searched(state),
                direct=direct,
                persona=state["debater"].get("persona"),
                confidence=confidence,
                plan=state.get("plan"),
                quoted_by=turn.get("quoted_by"),
                nothing=no_evidence_reason(state),
                more=more(state, run.settings) if more else None,
                prompt=then if then and (opponents or own) else prompt,
            )
        except ReplyError as error:
            return {"turns": [without_answer(turn, error.kind)]}
        except WorldError as error:
            if not may_leave:
                raise
            run.record.warn("agent_left", f"{error.detail} The debate goes on without {turn['agent']}.")
            return {"turns": [without_answer(turn, "failed")]}
        shown = shown_ids(evidence, [*opponents, *([own] if own else [])]) - speaker.not_shown
        turn = without_unshown_evidence(turn, speaker.not_shown)
        return {"turns": [with_answer(turn, reply, [*evidence, *cited], shown, run.record)]}

    kind = partial(answer_reply, direct=direct, confidence=confidence)
    decision: dict[str | None, Decision] = {None: Decision(prompt, kind, more)}
    return Node(step, prompts=(prompt, then) if then else (prompt,), decides=lambda settings: decision)


def has_searched(state: DebaterState) -> bool:
    """Whether there was a search for evidence, by the speaker or for all speakers."""
    turn = state["turns"][0]
    return turn.get("query") is not None or bool(turn.get("retrieval") or state.get("retrieval") or state.get("steps"))


def no_evidence_reason(state: DebaterState) -> str:
    """The text that a prompt shows if there is no evidence."""
    turn = state["turns"][0]
    if "selected" in turn and state.get("pool"):
        return "(none of what was found was selected)"
    if (turn.get("retrieval") or state.get("retrieval")) == "failed":
        return "(none, as the sources could not be searched)"
    return NOTHING


def without_unshown_evidence(turn: Turn, not_shown: Set[str]) -> Turn:
    """The turn without the ids of the evidence that its prompt left out."""
    return {**turn, "evidence_ids": [id for id in turn["evidence_ids"] if id not in not_shown]} if not_shown else turn


def with_answer(
    turn: Turn, reply: AnswerReply, evidence: Sequence[Evidence], shown: set[str], record: StepRecord
) -> Turn:
    """The turn with the reply's answer, reasons and checked citations; wrong citations cause warnings."""
    citations = check_citations(reply.citations, evidence, shown)
    for kind, fault in citation_warnings(citations):
        record.warn(kind, fault)
    answered: Turn = {
        **turn,
        "answer": reply.answer,
        "rationale": reply.rationale,
        "citations": citations,
        "outcome": "ok",
    }
    confidence = getattr(reply, "confidence", None)
    return answered if confidence is None else {**answered, "confidence": confidence}


def without_answer(turn: Turn, outcome: str) -> Turn:
    """The turn with null as the answer and as the reasons, without citations, and with this ``outcome``."""
    return {**turn, "answer": None, "rationale": None, "citations": [], "outcome": outcome}
