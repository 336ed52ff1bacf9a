"""What all steps of a trial share. A `Step` has the prompt, the reply class and the role of one step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from moot.core.errors import MootError, ReplyError
from moot.core.redaction import redact
from moot.nodes._models.ledger import Ledger, record_failed_call
from moot.nodes._models.speaker import Speaker, affects_only_call, as_speaker
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.node import Node, NodeContext
from moot.nodes._runtime.state import TrialState
from moot.nodes._texts.quotes import check_citations, citation_warnings
from moot.nodes._texts.replies import Reply
from moot.nodes._trial.counsel import own_turn
from moot.retrievers import Evidence

R = TypeVar("R", bound=Reply)
F = TypeVar("F", bound=Callable[..., Any])
Ask = Callable[[TrialState, Speaker, Any], Awaitable[R]]
"""Takes the state, the speaker and the settings; makes a step's call, and returns the reply."""
ChooseExhibits = Callable[[TrialState, Any], Sequence[Evidence]]
"""Takes the state and the settings; returns the exhibits that a speaker is shown."""

PARAMETERS = {
    "claim": "the claim of the trial.",
    "task": "the form of an answer.",
    "premises": "the premises of the claim.",
    "exhibits": "the evidence on record.",
    "history": "the arguments and testimonies so far; the last four are shown.",
    "model": "the model that is called.",
    "side": "``plaintiff`` or ``defense``.",
    "whole": "whether all exhibits are shown whole; if not, only the titles and quotes of cited exhibits.",
    "round": "the round's number, from 1; with 0, the prompt does not name the round.",
    "max_rounds": "the maximum number of rounds.",
    "prompt": "the prompt's name.",
}
"""The meanings of parameters that the functions of several steps share."""


def with_parameters(**parameters: str) -> Callable[[F], F]:
    """A decorator that adds the sections on parameters and errors to the docstring of a step's function."""

    def add_to_docstring(function: F) -> F:
        known = PARAMETERS | parameters
        lines = [f"    {name}: {known[name]}" for name in signature(function).parameters]
        raises = "    UserError, WorldError, ReplyError: the call failed, or no reply could be used."
        function.__doc__ = "\n".join([function.__doc__ or "", "", "Args:", *lines, "", "Raises:", raises])
        return function

    return add_to_docstring


@dataclass(frozen=True)
class Step(Generic[R]):
    """A step that makes one call to a model; the fields of the reply become fields of a turn."""

    prompt: str
    reply: type[R]
    role: str = ""  # whose model is called; empty for a side's counsel

    async def ask(
        self,
        model: Speaker | BaseChatModel,
        values: Mapping[str, str],
        prompt: str,
        *,
        side: str = "",
        evidence_ids: Sequence[str] = (),
        check: Callable[[R], str] | None = None,
    ) -> R:
        """Makes the call with `Speaker.ask`; with a ``side``, the prompt also gets the side and its position."""
        if side:
            values = {**values, "side": side, "position": values[f"{side}_holds"]}
        return await as_speaker(model, self.role or side).ask(prompt, values, self.reply, evidence_ids, check)

    def node(
        self,
        ask: Ask[R],
        begin: Callable[[TrialState], Turn] = own_turn,
        *,
        shown: ChooseExhibits = lambda state, settings: (),
        scores: Callable[[R], dict[str, float]] = lambda reply: {},
        vital: bool = False,
    ) -> Node:
        """A node that makes the call and writes the reply into a turn."""
        fields = self.reply.model_fields

        async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
            exhibits = list(shown(state, run.settings))
            turn: Turn = {**begin(state), "evidence_ids": [piece["id"] for piece in exhibits]}
            run.ledger.set_turn(turn)
            speaker = await run.speaker_of({**state.get("debater", {}), "name": turn["role"]})
            try:
                reply = await ask(state, speaker, run.settings)
            except MootError as error:
                # An unusable reply never ends the debate; another failed call does if it is ``vital``.
                if not affects_only_call(error) or (vital and not isinstance(error, ReplyError)):
                    raise
                empty = dict.fromkeys(fields) | ({"citations": []} if "citations" in fields else {})
                return {"turns": [{**turn, **empty, "outcome": record_failed_call(error, run.ledger)}]}
            # Only the exhibits that stayed in the prompt may be cited.
            if speaker.not_shown:
                exhibits = [piece for piece in exhibits if piece["id"] not in speaker.not_shown]
                turn = {**turn, "evidence_ids": [piece["id"] for piece in exhibits]}
            given = reply.model_dump() | checked_citations(reply, exhibits, run.ledger)
            return {"turns": [{**turn, **given, "scores": scores(reply), "outcome": "ok"}]}

        return Node(step, prompts=(self.prompt,))


def checked_citations(reply: Reply, shown: Sequence[Evidence], ledger: Ledger) -> dict[str, Any]:
    """A reply's ``citations``, checked against the shown exhibits, with warnings; {} if its class has no such field."""
    ids = {piece["id"] for piece in shown}
    for challenge in getattr(reply, "challenges", []):
        if challenge.evidence_id not in ids:
            challenged = redact(challenge.evidence_id)[:80]
            ledger.warn("unknown_exhibit", f"{challenged!r} was challenged, but was not shown.")
    if (quotes := getattr(reply, "citations", None)) is None:
        return {}
    citations = check_citations(quotes, shown, ids)
    for kind, fault in citation_warnings(citations):
        ledger.warn(kind, fault)
    return {"citations": citations}
