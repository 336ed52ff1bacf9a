"""A second opinion on a verdict: a reviewer reads all evidence, but not the debate, and gives each label a probability.

It never replaces the verdict. Ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from moot.core.errors import MootError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, tells
from moot.nodes._texts.labels import fold_label
from moot.nodes._texts.replies import Reply, Text, by_task
from moot.nodes._texts.show import show_claim, show_evidence
from moot.nodes._texts.task import describe_labels, rules_of_labels
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence
from pydantic import AfterValidator, BeforeValidator, Field, create_model
from typing_extensions import TypedDict

PROMPT = "scoring/second_opinion"
REVIEWER = "reviewer"
DECIMALS = 6
"""Decimal places of a probability."""


class OpinionReply(Reply):
    """A probability for each label, with reasons. The probabilities make 1."""

    reason: Text
    probabilities: dict[str, float]


class SecondOpinion(Started):
    """A second opinion: the probability of each label, by a reviewer who read the evidence, but not the debate."""

    step: Literal["second_opinion"]
    probabilities: dict[str, float] | None
    reason: str | None
    outcome: str


@tells(SecondOpinion, headed=False, late=True)
def tell_opinion(turn: Turn, known: Known) -> Iterator[Said]:
    """The probabilities, the greatest first."""
    if not turn["probabilities"]:
        yield Said("opinion", "estimates", outcome=turn["outcome"])
        return
    ordered = sorted(turn["probabilities"].items(), key=lambda pair: -pair[1])
    text = ", ".join(f"{label} {share:.2f}" for label, share in ordered)
    yield Said("opinion", "estimates", text, turn["reason"], "finding")


@by_task
def opinion_reply(task: Task) -> type[OpinionReply]:
    """The class of replies with a probability for each label of the task."""
    by_form = {fold_label(label): label for label in task["labels"]}
    share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
    make: Any = TypedDict
    shares = make("Probabilities", dict.fromkeys(task["labels"], share))

    def with_labels(given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {by_form.get(fold_label(str(key)), key): value for key, value in given.items()}

    kind = Annotated[shares, BeforeValidator(with_labels), AfterValidator(normalised)]  # type: ignore[valid-type]
    return create_model("OpinionReply", __base__=OpinionReply, probabilities=(kind, ...))


def normalised(shares: Mapping[str, float]) -> dict[str, float]:
    """Probabilities that make 1: {a: 0.6, b: 0.2} becomes {a: 0.75, b: 0.25}; ValueError if all are 0."""
    total = sum(shares.values())
    if not total:
        raise ValueError("needs a probability above 0")
    return {label: round(share / total, DECIMALS) for label, share in shares.items()}


async def second_opinion(
    claim: str, task: Task, evidence: Sequence[Evidence], model: Speaker | BaseChatModel, prompt: str = PROMPT
) -> OpinionReply:
    """Asks a reviewer, in one call, how likely each label of a task is."""
    # The order of the ids tells nothing of the debate.
    values = {
        "subject": task["subject"],
        "answers": describe_labels(task) + rules_of_labels(task),
        "claim": show_claim(claim, task),
        "evidence": show_evidence(sorted(evidence, key=lambda piece: piece["id"])),
    }
    return await as_speaker(model, REVIEWER).ask(prompt, values, opinion_reply(task))


def opinion_on(verdict: str, shares: Mapping[str, float], doubt_below: float | None) -> dict[str, Any]:
    """What a second opinion says of a verdict: the likeliest label with its probability (``certainty``), and the
    verdict's; whether they agree, and whether the verdict is ``doubted``.
    """
    likeliest = max(shares, key=lambda label: shares[label])
    share = shares.get(verdict, 0.0)
    found = {"answer": likeliest, "certainty": shares[likeliest], "probability": share, "agrees": likeliest == verdict}
    return {**found, "doubted": doubt_below is not None and share < doubt_below}


def second_opinion_node() -> Node:
    """Adds the turn of a second opinion, and what it says of the verdict as ``second_opinion`` of ``metrics``.

    Reads: claim, task, evidence, answer, rounds, metrics. It does nothing unless the setting ``second_opinion`` is on,
    and there is a verdict. If the call fails, a warning says why.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        turn = {**new_turn(state["rounds"], REVIEWER, "second_opinion"), "probabilities": None, "reason": None}
        before = Counter(run.budget.skipped), Counter(run.budget.cut)
        evidence = active_evidence(state["evidence"])
        turn["evidence_ids"] = [piece["id"] for piece in evidence]
        try:
            reply = await second_opinion(state["claim"], state["task"], evidence, await run.speaker(REVIEWER))
        except MootError as error:  # whatever it is: the debate has its verdict
            run.record.warn("opinion_missing", f"There is no second opinion: {error.detail}")
            return {"turns": [{**turn, "outcome": getattr(error, "kind", "failed")}]}
        finally:
            run.budget.skipped, run.budget.cut = before
        found = opinion_on(str(state["answer"]), reply.probabilities, run.settings.doubt_below)
        said: Turn = {**turn, "probabilities": reply.probabilities, "reason": reply.reason, "outcome": "ok"}
        return {"turns": [said], "metrics": {**state["metrics"], "second_opinion": found}}

    def idle(state: DebateState, settings: Any) -> bool:
        asked = getattr(settings, "second_opinion", False) and state["answer"] is not None
        return not asked

    return Node(step, prompts=(PROMPT,), idle=idle)
