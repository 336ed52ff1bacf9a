"""Final answers by a summariser, who chooses one of the debaters' answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import ReplyError
from moot.core.redaction import redact
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.ceilings import Decision, rounds_or_budget, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._steps.agreeing import all_agreed
from moot.nodes._steps.compare import common_outcome, last_answers
from moot.nodes._steps.responding import tell_answer
from moot.nodes._texts.answers import ABSTENTION, same_answer
from moot.nodes._texts.replies import Reply, Text, answer_type, by_task
from moot.nodes._texts.show import show_answers, show_claim, show_remarks
from moot.nodes._texts.task import wording
from pydantic import AfterValidator, WithJsonSchema, create_model

PROMPT = "madke/summary"


class FinalReply(Reply):
    """The final answer of a debate."""

    rationale: Text
    answer: str


def final_reply(task: Task, given: Sequence[str] = ()) -> type[FinalReply]:
    """The class of the final reply, whose ``answer`` must equal a given one (`same_answer`), if any is given."""
    return _final_reply(task, tuple(dict.fromkeys(given)))


@by_task
def _final_reply(task: Task, given: tuple[str, ...]) -> type[FinalReply]:
    def check_given(text: str) -> str:
        if given and not any(same_answer(task, one, text) for one in given):
            raise ValueError(f"is {redact(text)[:80]!r}, which nobody answered; choose among {list(given)}")
        return text

    narrowed = [WithJsonSchema({"type": "string", "enum": list(given)})] if given else []
    answer = answer_type(task, may_abstain=ABSTENTION in given)
    kind: Any = Annotated[answer, AfterValidator(check_given), *narrowed]
    return create_model("FinalReply", __base__=FinalReply, answer=(kind, ...))


class FinalAnswer(Started):
    """A summariser's final answer."""

    step: Literal["summarise"]
    answer: str | None
    rationale: str | None
    outcome: str


@tells(FinalAnswer, late=True)
def tell_final_answer(turn: Turn, known: Known) -> Iterator[Said]:
    """The final answer."""
    return tell_answer(turn, "concludes", "decision")


async def sum_up(
    claim: str, task: Task, answers: Sequence[Turn], model: Speaker | BaseChatModel, prompt: str = PROMPT
) -> FinalReply:
    """The final answer, which is one of the debaters' last answers (MADKE 3.2.2, Eq. 6): one call."""
    # If there are none, every answer of the task is valid.
    given = [str(turn["answer"]) for turn in answers if turn.get("answer") is not None]
    values = wording(task) | {"claim": show_claim(claim, task), "answers": show_answers(answers)}
    return await as_speaker(model, "summariser").ask(prompt, values, final_reply(task, given))


def summarise_node(prompt: str = PROMPT) -> Node:
    """Ends the debate with an answer that the role ``summariser`` makes from the last round's answers.

    Reads: claim, task, turns, rounds, votes. If all answers are the same, the summariser is not called, unless a person
    made a remark, which it answers. If no debater gave an answer, the debate fails. But if a ceiling kept at
    least one debater from answering, the summariser answers from the claim alone. The debate also fails if the
    summariser's call fails, or if its reply is unusable or has an answer that no debater gave.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        answers = last_answers(state["turns"])
        if all(turn.get("answer") is None for turn in answers) and not any(map(stopped_by_ceiling, answers)):
            raise ReplyError(
                "No debater gave a usable answer in the last round, so there is nothing to sum up. "
                "Try another model, or another value of `structured_output`.",
                common_outcome(answers),
            )
        told, given = show_remarks(state["turns"]), {turn["answer"] for turn in answers} - {None}
        reason = "consensus" if all_agreed(state) else rounds_or_budget(state, run.settings)
        if len(given) == 1 and not told:  # the summariser could not say anything else
            return {"answer": (answer := given.pop()), "raw_verdict": answer, "stop_reason": reason}
        speaker = await run.speaker_of({"name": "summariser", "told": told})
        reply = await sum_up(state["claim"], state["task"], answers, speaker, prompt)
        turn = new_turn(state["rounds"], "summariser", "summarise")
        return {
            "turns": [{**turn, "answer": reply.answer, "rationale": reply.rationale, "outcome": "ok"}],
            "answer": reply.answer,
            "raw_verdict": reply.answer,
            "stop_reason": reason,
        }

    return Node(step, prompts=(prompt,), decides=lambda settings: {"summariser": Decision(prompt, final_reply)})
