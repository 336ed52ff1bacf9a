"""A debate as a solver of Inspect, for moot's own tasks and for anybody's.

    Task(dataset=[Sample(input="Saffron grows underground.", target="REFUTES")],
         solver=debate("tool_mad", model="openai:gpt-4o-mini"), scorer=match())

Inspect's model is the debate's if the settings name none (`moot.evals.runs.inspect_side`). Moot's nodes make their own
calls, of which Inspect is told when a debate is over: its time and error limits hold, its token limits do not (`budget`
and `max_cost` are settings of the graphs, and `shared_ceilings` bounds many debates).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from typing import Any

from inspect_ai.event import StoreEvent
from inspect_ai.log import EvalSample
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState, solver
from moot.evals.runs.inspect_side import messages_of, settings_with_inspects, tell_calls
from moot.evals.stats.found import found_in
from moot.evals.stats.outcomes import has_outcome
from moot.graphs import DebateSystem, load_graph
from moot.nodes.models.seeds import derived_seed
from moot.nodes.runtime.document import upgraded
from moot.nodes.runtime.settings import EvidenceSettings, Settings, checked_settings

DOCUMENT = "moot:document"
"""Where a sample's store holds the result document, for `document_in`: as JSON in one string, as Inspect walks through
an object at every step of a sample."""
INPUTS = "moot"
"""What a sample's metadata say of the input of a debate: an object with ``task``, ``labels``, ``given``,
``claim_date``, ``speaker`` (as `moot.nodes.ClaimInput`) and ``published_before``. Nothing else of them reaches it."""
FOUND = "found"
"""Where a sample's metadata say how much evidence its debate had (`moot.evals.stats.found.Found`)."""

Question = Mapping[str, Any]
"""What a debate is given: claim, and where they are there task, labels, options, given, claim_date and speaker."""
Debate = Callable[[Question, TaskState], Awaitable[dict[str, Any]]]
"""Holds a debate on a question of a sample; gives the result document."""


class DebateFailed(Exception):  # noqa: N818 - what Inspect shows of a sample
    """A debate that ended without a verdict for a reason that is not the system's: the sample is missing data."""


@solver(name="debate")
def debate(graph: str = "tool_mad", run: str = "", **settings: Any) -> Solver:
    """Debates a sample's input; its output is the answer, its store holds the result document under `DOCUMENT`.

    A sample's ``choices`` are the options of a multiple-choice question; its metadata may hold further inputs under the
    key `INPUTS`. ``published_before`` holds for systems that look for evidence unless it is set for all.

    Args:
        graph: a debate system by name.
        run: what else tells this run from others; logs say it, and Inspect goes on with no log that says another.
        settings: of that system; ``moot settings GRAPH`` lists them.

    Raises:
        UserError: an unknown graph or setting, a value out of its range.
    """
    system = load_graph(graph)
    checked_settings(system.settings, settings)

    async def hold(question: Question, sample: TaskState) -> dict[str, Any]:
        chosen = checked_settings(system.settings, settings_with_inspects(settings))
        return await document_of(system, question, seeded(dated(chosen, sample), sample, graph, settings))

    return solving(hold)


def solving(hold: Debate) -> Solver:
    """A solver that holds a debate on every sample.

    The sample fails where the debate did, as missing data, but not if that is the system's own fault (`has_outcome`):
    then it has no answer.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        options = [choice.value for choice in state.choices]
        document = await hold(question_of(state.input_text, options, state.metadata), state)
        state.store.set(DOCUMENT, json.dumps(document, ensure_ascii=False))
        state.metadata[FOUND] = found_in(document)._asdict()
        state.messages += messages_of(document)
        tell_calls(document["calls"])
        if not has_outcome(document):
            raise DebateFailed(f"{document['error']['kind']}: {document['error']['detail']}")
        state.output = ModelOutput.from_content(document["graph"], document["answer"] or "")
        return state

    return solve


async def document_of(system: DebateSystem, question: Question, settings: Settings) -> dict[str, Any]:
    """The result document of a debate, as it also comes from the API."""
    document: dict[str, Any] = await system.graph.ainvoke(dict(question), context=settings)
    return document


def document_in(sample: EvalSample | TaskState) -> dict[str, Any] | None:
    """The result document of the debate on a sample, of this version's form; None where it left none.

    Args:
        sample: of a log, or as scorers have it. One that Inspect recovered after a kill has an empty store: it must
            have been read with its events and attachments, which hold the document too.

    Raises:
        ValueError: it is damaged.
    """
    held = sample.store.get(DOCUMENT)
    if held is None and isinstance(sample, EvalSample):
        held = _recorded(sample)
    return None if held is None else parsed_document(held)


def parsed_document(held: str) -> dict[str, Any]:
    """The result document of this version's form that a text holds.

    Raises:
        ValueError: it is damaged.
    """
    document: dict[str, Any] = upgraded(json.loads(held))
    return document


def _recorded(sample: EvalSample) -> str | None:
    """The document as the events of a sample tell it."""
    changes = [change for event in sample.events if isinstance(event, StoreEvent) for change in event.changes]
    held = [str(change.value) for change in changes if change.path == f"/{DOCUMENT}"]
    return sample.attachments.get(held[-1].removeprefix("attachment://"), held[-1]) if held else None


def question_of(claim: str, options: Sequence[str] | None, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a debate is given of a sample: its input, its choices, and of its metadata `INPUTS` alone."""
    said = (metadata or {}).get(INPUTS) or {}
    named = {key: said[key] for key in ("task", "labels", "given", "claim_date", "speaker") if said.get(key)}
    return {"claim": claim, **named} | ({"options": list(options)} if options else {})


def dated(settings: Settings, sample: TaskState) -> Settings:
    """The settings for one sample: evidence from the claim's day on is left out, unless a day is set for all."""
    day = (sample.metadata.get(INPUTS) or {}).get("published_before")
    if not day or not isinstance(settings, EvidenceSettings) or settings.published_before:
        return settings
    return settings.model_copy(update={"published_before": date.fromisoformat(day)})


def seeded(settings: Settings, sample: TaskState, *system: Any) -> Settings:
    """The settings for one sample: a seed of its own, if there is one, that follows from it, sample and system.

    A debate that is held anew with the settings that its document records sends the same seeds.

    Args:
        settings: the system's, with the run's seed.
        sample: of which the id and the epoch count.
        system: what tells the system from others that are run with the same seed.
    """
    if settings.seed is None:
        return settings
    told = json.loads(json.dumps(system, default=str))
    return settings.model_copy(update={"seed": derived_seed(settings.seed, *told, sample.sample_id, sample.epoch)})
