"""Two debaters with fixed stances, and the moderator who decides between them (DebateCV, arXiv:2507.19090)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import UserError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import RoundReason, Task, Turn
from moot.nodes._records.reducers import recorded_round
from moot.nodes._runtime.ceilings import Decision, rounds_or_budget
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import DebateState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, outcome_of, tells, with_reply
from moot.nodes._speakers.turns import Agent, send_turn, speaker_declaration
from moot.nodes._steps.responding import quote_check, with_answer, without_unshown_evidence
from moot.nodes._texts.answers import ABSTENTION
from moot.nodes._texts.replies import AnswerReply, Reply, answer_reply
from moot.nodes._texts.show import NOT_LOOKED_FOR, NOTHING, show_claim, show_evidence, show_persona, show_remarks
from moot.nodes._texts.task import reported_rule, wording
from moot.nodes._trial.courtroom import all_exhibits, own_turn, position_of, show_statements, speaker_node
from moot.nodes._trial.hearing import ArgumentReply
from moot.nodes._trial.panel import verdict_labels
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence

SIDES: Mapping[str, Literal["plaintiff", "defense"]] = {"affirmative": "plaintiff", "negative": "defense"}
"""The two sides in the order in which they speak, each with the side of a trial that has the same position."""
ARGUE, MODERATE, DECIDE = "debate_cv/argue", "debate_cv/moderate", "debate_cv/verdict"
"""The names of the prompts."""


def check_two_sides(settings: Any, task: Task) -> None:
    """Checks that a task has a label for each of two sides.

    Args:
        settings: the debate's settings.
        task: the form of an answer.

    Raises:
        UserError: the task is not about a claim that holds or does not, nor a question with yes or no.
    """
    try:
        verdict_labels(task)
    except UserError as error:
        raise UserError(
            f"Two sides debate whether a claim holds, and the task {task['name']!r} has no label for each of them. "
            "Choose a task that checks claims, or a question with the labels yes and no.",
            kind="unfit_task",
        ) from error


# --- arguments --------------------------------------------------------------------------------------------------------


def arguments_of(turns: Sequence[Turn]) -> list[Turn]:
    """The turns in which the sides argued, in their order; a turn without a usable argument also counts."""
    return [turn for turn in turns if turn["step"] == "argue"]


def to_next_side(to: str, state: DebateState, debaters: Sequence[Agent]) -> Send:
    """Builds the `Send` of the side that argues next, with all evidence and all arguments so far.

    Args:
        to: the node.
        state: the debate's state.
        debaters: the two debaters, in their order.
    """
    argued = arguments_of(state["turns"])
    rounds, place = divmod(len(argued), len(debaters))
    debater = debaters[place]
    turn = new_turn(rounds + 1, debater.name, "argue", side=debater.name)
    return send_turn(to, state, speaker_declaration(debater), turn, evidence=state["evidence"], heard=argued)


def round_is_argued(state: DebateState) -> bool:
    """Whether both sides have argued in the current round.

    Args:
        state: the debate's state.
    """
    return len(arguments_of(state["turns"])) % len(SIDES) == 0


def argue_for_side_node() -> Node:
    """Writes an argument for a fixed side into the side's turn. If the model cannot be reached, the debate fails.

    Reads: claim, task, evidence, retrieval, heard, debater, turns.
    """

    def values(state: Any, settings: Any) -> dict[str, str]:
        side, evidence = str(own_turn(state)["side"]), state["evidence"]
        known = not evidence and not state["retrieval"]
        return shared_values(state["claim"], state["task"], evidence, state["heard"], known=known) | {
            "side": side,
            "position": position_of(state["task"], SIDES[side]),
            "persona": show_persona(state["debater"].get("persona")),
            "round": f"This is round {own_turn(state)['round']} of at most {settings.max_rounds}.",
        }

    return speaker_node(ARGUE, ArgumentReply, values, shown=all_exhibits, vital=True)


def shared_values(
    claim: str, task: Task, evidence: Sequence[Evidence], arguments: Sequence[Turn], *, known: bool
) -> dict[str, str]:
    """The values of placeholders that all prompts of such a debate have; ``known`` is that of `respond`."""
    shown = active_evidence(evidence)
    words = wording(task, given=bool(shown), known=known)
    if shown:
        words["cite"] += f" If none of it bears on the {task['subject']}, leave the list empty."
    return words | {
        "claim": show_claim(claim, task),
        "reported": reported_rule(task),
        "evidence": show_evidence(shown, NOT_LOOKED_FOR if known else NOTHING),
        "arguments": show_statements(arguments, "What was said, in its order:"),
        **{f"{side}_holds": position_of(task, same) for side, same in SIDES.items()},
    }


def is_closed_book(state: DebateState, evidence: Sequence[Evidence]) -> bool:
    """Whether a debate has no evidence, and made no search for any."""
    return not evidence and not any(turn["step"] == "retrieve" for turn in state["turns"])


# --- the moderator ----------------------------------------------------------------------------------------------------


class SidesReply(Reply):
    """Which side is ahead after a round, and whether the debate can be decided."""

    reason: str
    ahead: Literal["affirmative", "negative", "neither"]
    decided: bool


class SidesWeighed(Started):
    """A moderator's finding after a round: the side that is ahead, and whether the debate can be decided.

    ``leans`` is the label of the side that is ahead; null for neither.
    """

    step: Literal["moderate"]
    ahead: str | None
    leans: str | None
    decided: bool | None
    reason: str | None
    outcome: str


@tells(SidesWeighed)
def tell_sides(turn: Turn, known: Known) -> Iterator[Said]:
    """Which side the moderator finds ahead."""
    if turn["ahead"] is None:
        yield Said("ahead", "finds", outcome=outcome_of(turn))
        return
    ahead = "neither side ahead" if turn["ahead"] == "neither" else f"the {turn['ahead']} side ahead"
    can = "it can be decided" if turn["decided"] else "it cannot be decided yet"
    yield Said("ahead", "finds", f"{ahead}; {can}", turn["reason"], "finding")


async def weigh_sides(
    claim: str,
    task: Task,
    arguments: Sequence[Turn],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    known: bool = False,
    prompt: str = MODERATE,
) -> SidesReply:
    """Asks the moderator, in one call, which side is ahead, and whether the debate can be decided."""
    values = shared_values(claim, task, evidence, arguments, known=known)
    return await as_speaker(model, "moderator").ask(prompt, values, SidesReply)


def weigh_sides_node(prompt: str = MODERATE) -> Node:
    """Adds the moderator's turn after a round: which side is ahead, and whether the debate can be decided.

    Reads: claim, task, turns, evidence. If the call fails, or a ceiling prevents it, the debate goes on.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        arguments, evidence = arguments_of(state["turns"]), active_evidence(state["evidence"])
        round = arguments[-1]["round"]
        turn = new_turn(round, "moderator", "moderate")
        turn["evidence_ids"] = [piece["id"] for piece in evidence]
        speaker = await run.speaker_of({"name": "moderator", "told": show_remarks(state["turns"])})
        known = is_closed_book(state, evidence)
        call = weigh_sides(state["claim"], state["task"], arguments, evidence, speaker, known=known, prompt=prompt)
        turn = without_unshown_evidence(await with_reply(turn, SidesReply, call, run.record), speaker.not_shown)
        labels = verdict_labels(state["task"])
        turn["leans"] = {"affirmative": labels["SUPPORTED"], "negative": labels["NOT SUPPORTED"]}.get(turn["ahead"])
        reason: RoundReason = "decided" if turn["decided"] else "undecided"
        return {"turns": [turn], "rounds": round, **recorded_round(round, reason=reason)}

    return Node(step, prompts=(prompt,))


def can_decide(state: DebateState) -> bool:
    """Whether the moderator found in the last round that the debate can be decided.

    Args:
        state: the debate's state.
    """
    found = [turn for turn in state["turns"] if turn["step"] == "moderate"]
    return bool(found) and found[-1]["decided"] is True


async def decide_between(
    claim: str,
    task: Task,
    arguments: Sequence[Turn],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    verified_quotes: bool = False,
    known: bool = False,
    prompt: str = DECIDE,
) -> AnswerReply:
    """Asks the moderator, in one call, for the verdict over all labels of the task."""
    speaker = as_speaker(model, "moderator")
    values = shared_values(claim, task, evidence, arguments, known=known)
    shown = {piece["id"] for piece in evidence}
    check = quote_check(evidence, shown, speaker) if verified_quotes and evidence else None
    kind = answer_reply(task, may_abstain=ABSTENTION in speaker.filled(prompt, values)[0])
    return await speaker.ask(prompt, values, kind, sorted(shown), check)


def decide_between_node(prompt: str = DECIDE) -> Node:
    """Adds the moderator's turn with the verdict, the answer and the stop reason.

    Reads: claim, task, turns, evidence, rounds. The debate fails if the moderator gives no usable answer.

    Args:
        prompt: the prompt's name.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        arguments, evidence = arguments_of(state["turns"]), active_evidence(state["evidence"])
        speaker = await run.speaker_of({"name": "moderator", "told": show_remarks(state["turns"])})
        reply = await decide_between(
            state["claim"],
            state["task"],
            arguments,
            evidence,
            speaker,
            verified_quotes=run.settings.verified_quotes,
            known=is_closed_book(state, evidence),
            prompt=prompt,
        )
        turn = new_turn(state["rounds"], "moderator", "judge")
        turn["evidence_ids"] = [piece["id"] for piece in evidence]
        turn = without_unshown_evidence(turn, speaker.not_shown)
        turn = with_answer(turn, reply, evidence, set(turn["evidence_ids"]), run.record)
        return {
            "turns": [turn],
            "answer": reply.answer,
            "raw_verdict": reply.answer,
            "stop_reason": "judge_preference" if can_decide(state) else rounds_or_budget(state, run.settings),
        }

    decision: dict[str | None, Decision] = {"moderator": Decision(prompt, answer_reply, around=1200)}
    return Node(step, prompts=(prompt,), decides=lambda settings: decision)
