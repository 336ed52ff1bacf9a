"""Agreement: a judge says whether a round's answers agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, Literal, NotRequired

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._steps.compare import WORDED_KINDS, agreed_answer, last_answers
from moot.nodes._texts.answers import surely_differ
from moot.nodes._texts.replies import Reply
from moot.nodes._texts.show import show_answers, show_claim
from moot.nodes._texts.task import wording

PROMPT = "madke/agree"


class AgreeReply(Reply):
    """Whether all answers agree."""

    reason: str
    agree: bool


class Agreement(Started):
    """A model's judgement of whether a round's answers agree."""

    step: Literal["agree"]
    agree: bool | None
    agreed: NotRequired[bool]
    reason: str | None
    outcome: str


@tells(Agreement)
def tell_agreement(turn: Turn, known: Known) -> Iterator[Said]:
    """The judge's reply, and what counts instead if the votes contradict it."""
    if turn["agree"] is None:
        yield Said("agree", "finds", outcome=turn["outcome"])
        return
    found = "agreement" if turn["agree"] else "no agreement"
    if turn.get("agreed", turn["agree"]) != turn["agree"]:
        counts = "an agreement: the answers are the same" if turn["agreed"] else "no agreement: the answers differ"
        found += f" (counts as {counts})"
    yield Said("agree", "finds", found, turn["reason"], "finding")


DO_NOT_WEIGH = "Do not weigh who is right."
WEIGH = "It is false, too, if the answer that they share is wrong as far as you can tell: the debate then goes on."


async def all_agree(
    claim: str,
    task: Task,
    answers: Sequence[Turn],
    model: Speaker | BaseChatModel,
    prompt: str = PROMPT,
    *,
    correct: bool = False,
) -> AgreeReply:
    """Whether debaters' answers agree, according to a model (MADKE 3.2.2, Eq. 5): one call.

    With ``correct``, as the paper's prompt has it, an answer that all share must also be right, as far as it can tell.
    """
    values = wording(task) | {"claim": show_claim(claim, task), "answers": show_answers(answers)}
    values |= (
        {"correct": ", and this answer is correct", "weigh": WEIGH}
        if correct
        else {"correct": "", "weigh": DO_NOT_WEIGH}
    )
    return await as_speaker(model, "judge").ask(prompt, values, AgreeReply)


def agreement_node(prompt: str = PROMPT, *, correct: Callable[[Any], bool] = lambda settings: False) -> Node:
    """Asks the role ``judge`` whether the last round's answers agree.

    Reads: claim, task, turns, rounds, votes. In the judge's turn, ``agree`` is the judge's reply. It is null if no
    reply was usable, or a ceiling left too little for the call. ``agreed``, also in this turn, is the step's result.

    The judge's reply decides only if the votes do not show whether the answers agree (`undecided`). Otherwise the votes
    decide, and a reply that contradicts them causes a warning. But if the agreed answer must be ``correct``, a reply
    that it is not decides, too. The debate fails if the call fails.

    Args:
        prompt: the prompt's name.
        correct: takes the settings; returns whether an answer must also be correct to count as agreed.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        turn = new_turn(state["rounds"], "judge", "agree")
        speaker, answers = await run.speaker("judge"), last_answers(state["turns"])
        try:
            must = correct(run.settings)
            reply = await all_agree(state["claim"], state["task"], answers, speaker, prompt, correct=must)
            found: dict[str, Any] = {"agree": reply.agree, "reason": reply.reason, "outcome": "ok"}
        except ReplyError as error:
            found = {"agree": None, "reason": None, "outcome": error.kind}
        agreed = agreed_answer(state["votes"]) is not None
        if undecided(state):
            agreed = found["agree"] is True
        elif agreed and correct(run.settings):
            agreed = found["agree"] is not False
        elif found["agree"] not in (agreed, None):
            finding, votes = ("no agreement", "are the same") if agreed else ("an agreement", "differ or are missing")
            run.record.warn("judge_contradicts_votes", f"The judge found {finding}, but the answers {votes}.")
        record = recorded_round(state["rounds"], reason="agreed" if agreed else "no_agreement")
        return {"turns": [{**turn, **found, "agreed": agreed}], **record}

    return Node(step, prompts=(prompt,))


def undecided(state: DebateState) -> bool:
    """Whether the votes are not enough to tell if the answers agree.

    This is so if all agents gave free-text answers that are not all in one group, and no two answers certainly differ.
    For example, an answer and an abstention certainly differ (`surely_differ`).

    Args:
        state: the debate's state.
    """
    given = [vote["answer"] for vote in state["votes"]]
    if state["task"]["kind"] not in WORDED_KINDS or agreed_answer(state["votes"]) is not None:
        return False
    answers = [answer for answer in given if answer is not None]
    return answers == given and not any(surely_differ(one, other) for one, other in combinations(answers, 2))


def all_agreed(state: DebateState) -> bool:
    """Whether the last round's answers agree, according to the judge's turn or, without one, the votes.

    Args:
        state: the debate's state.
    """
    judged = [turn for turn in state["turns"] if turn["step"] == "agree" and turn["round"] == state["rounds"]]
    return bool(judged[-1]["agreed"]) if judged else agreed_answer(state["votes"]) is not None
