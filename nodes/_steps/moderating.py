"""Moderation: the answer that a moderator prefers after a round, if any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells, with_reply
from moot.nodes._steps.compare import answers_of
from moot.nodes._steps.responding import without_unshown_evidence
from moot.nodes._texts.answers import read_answer, same_answer
from moot.nodes._texts.replies import Reply, answer_type, by_task
from moot.nodes._texts.show import show_answers, show_claim, show_given
from moot.nodes._texts.task import wording
from moot.retrievers import Evidence
from moot.retrievers._evidence import given_evidence
from pydantic import BeforeValidator, create_model

PROMPT = "tit_for_tat/moderate"


class ModeratorReply(Reply):
    """The answer that a moderator prefers, or none yet."""

    reason: str
    preferred: str | None


@by_task
def moderator_reply(task: Task) -> type[ModeratorReply]:
    """The class of replies that prefer one of the task's answers or no answer."""

    def read_none(value: Any) -> Any:
        """None if the value is a spelling of "none" but not a valid answer of the task; other values unchanged."""
        is_none = isinstance(value, str) and value.strip().lower() in ("", "none", "null")
        return None if is_none and read_answer(task, value) is None else value

    kind: Any = Annotated[answer_type(task) | None, BeforeValidator(read_none)]
    return create_model("ModeratorReply", __base__=ModeratorReply, preferred=(kind, ...))


class Moderation(Started):
    """A moderator's preference after a round."""

    step: Literal["moderate"]
    preferred: str | None
    reason: str | None
    outcome: str


@tells(Moderation)
def tell_moderation(turn: Turn, known: Known) -> Iterator[Said]:
    """The answer that the moderator prefers, if any."""
    if turn["preferred"]:
        yield Said("preferred", "prefers", turn["preferred"], turn["reason"], "finding", answer=turn["preferred"])
    elif turn["outcome"] == "ok":
        yield Said("preferred", "prefers", "no answer yet", turn["reason"], "finding")
    else:
        yield Said("preferred", "prefers", outcome=turn["outcome"])


async def moderate(
    claim: str,
    task: Task,
    answers: Sequence[Turn],
    model: Speaker | BaseChatModel,
    *,
    evidence: Sequence[Evidence] = (),
    prompt: str = PROMPT,
) -> ModeratorReply:
    """Asks a moderator, in one call, which answer it prefers after a round, if any (Liang et al., arXiv:2305.19118).

    Args:
        claim: the claim of the debate.
        task: the form of an answer.
        answers: the round's answers, in the debaters' order.
        model: the moderator's model.
        evidence: all evidence; the moderator is shown only the given evidence (see `given_evidence`).
        prompt: the prompt's name.

    Returns:
        The moderator's reply, with ``reason``, and the ``preferred`` answer or None.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    speaker = as_speaker(model, "moderator")
    shown = {"claim": show_claim(claim, task), "given": show_given(evidence), "answers": show_answers(answers)}
    values = wording(task, given=bool(given_evidence(evidence))) | shown
    return await speaker.ask(prompt, values, moderator_reply(task))


def moderate_node(prompt: str = PROMPT) -> Node:
    """Adds the moderator's turn, and the answer if the moderator prefers one.

    Reads: claim, task, turns, rounds, evidence. If the moderator's model cannot be reached or gives no usable reply,
    or if a ceiling prevents the call, no answer is preferred, and the debate goes on.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        evidence = given_evidence(state["evidence"])
        turn: Turn = {**new_turn(state["rounds"], "moderator", "moderate"), "evidence_ids": [p["id"] for p in evidence]}
        speaker, answers = await run.speaker("moderator"), answers_of(state["turns"])
        call = moderate(state["claim"], state["task"], answers, speaker, evidence=evidence, prompt=prompt)
        turn = await with_reply(turn, ModeratorReply, call, run.record)
        if turn["outcome"] != "ok":
            return {"turns": [turn]}
        preferred = turn["preferred"]
        given = [t["answer"] for t in answers if t.get("answer") is not None]
        if preferred is not None and not any(same_answer(state["task"], preferred, str(answer)) for answer in given):
            run.record.warn("new_answer", f"The moderator prefers {preferred!r}, an answer that no debater gave.")
        update: dict[str, Any] = {
            "turns": [without_unshown_evidence(turn, speaker.not_shown)],
            **recorded_round(state["rounds"], reason="no_preference" if preferred is None else "preferred"),
        }
        if preferred is not None:
            update |= {"answer": preferred, "raw_verdict": preferred, "stop_reason": "judge_preference"}
        return update

    return Node(step, prompts=(prompt,))
