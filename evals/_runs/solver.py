"""A debate as an Inspect solver, for moot's own tasks and for all others.

    Task(dataset=[Sample(input="Saffron grows underground.", target="REFUTES")],
         solver=debate("tool_mad", model="openai:gpt-4o-mini"), scorer=match())

Inspect's model is the debate's if the settings name none (`moot.evals._runs.inspect_side`). Moot's nodes make their own
calls and report them to Inspect when a debate is over: Inspect's time and error limits apply, its token limits do not
(`budget` and `max_cost` are settings of the graphs, and `shared_ceilings` limits many debates).
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
from moot.core.transport import dumps, loads
from moot.evals._runs.inspect_side import add_inspect_settings, messages_of, report_calls
from moot.evals._stats.evidence_count import count_evidence
from moot.evals._stats.outcomes import has_outcome
from moot.graphs import DebateSystem, load_graph
from moot.nodes._models.seeds import derived_seed
from moot.nodes._runtime.document import upgrade_document
from moot.nodes._runtime.settings import EvidenceSettings, Settings, checked_settings

DOCUMENT = "moot:document"
"""Key of a sample's store for the result document (see `document_in`). It is JSON in one string, because Inspect walks
through an object at every step of a sample."""
INPUTS = "moot"
"""Key of a sample's metadata for a debate's input: an object with ``task``, ``labels``, ``given``, ``claim_date``,
``speaker`` (as `moot.nodes.ClaimInput`) and ``published_before``. No other metadata reaches the debate."""
FOUND = "found"
"""Key of a sample's metadata for the amount of evidence (`moot.evals._stats.evidence_count.EvidenceCount`)."""

Question = Mapping[str, Any]
"""The input of a debate: claim and, if present, task, labels, options, given, claim_date and speaker."""
DebateRunner = Callable[[Question, TaskState], Awaitable[dict[str, Any]]]
"""Runs a debate on a sample's question and returns the result document."""


class DebateFailed(Exception):  # noqa: N818 - Inspect shows this name
    """A debate that could not run or failed, through no fault of the system: the sample is missing data."""


@solver(name="debate")
def debate(graph: str = "tool_mad", run: str = "", **settings: Any) -> Solver:
    """Debate a sample's input. The sample's output is the answer; its store has the result document under `DOCUMENT`.

    A sample's ``choices`` are the options of a multiple-choice question; its metadata may contain further inputs under
    the key `INPUTS`. ``published_before`` applies to systems with retrieval, unless the settings set it for all
    samples.

    Args:
        graph: a debate system by name.
        run: further data that identifies this run. It is stored in the log, and Inspect resumes only logs with the same
            data.
        settings: settings of the system; ``moot settings GRAPH`` lists them.

    Raises:
        UserError: an unknown graph or setting, a value out of its range.
    """
    system = load_graph(graph)
    checked_settings(system.settings, settings, graph)

    async def run_sample(question: Question, sample: TaskState) -> dict[str, Any]:
        chosen = checked_settings(system.settings, add_inspect_settings(settings))
        return await run_debate(system, question, settings_for_sample(chosen, sample, graph, settings))

    return debate_solver(run_sample)


def debate_solver(run_sample: DebateRunner) -> Solver:
    """Make a solver that runs a debate on every sample.

    If the debate fails, the sample fails, too, and is missing data. But if the failure is the system's own fault
    (`has_outcome`), the sample counts as an abstention.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        options = [choice.value for choice in state.choices]
        document = await run_sample(make_question(state.input_text, options, state.metadata), state)
        state.store.set(DOCUMENT, dumps(document).decode())
        state.metadata[FOUND] = count_evidence(document)._asdict()
        state.messages += messages_of(document)
        report_calls(document["calls"])
        if not has_outcome(document):
            raise DebateFailed(f"{document['error']['kind']}: {document['error']['detail']}")
        state.output = ModelOutput.from_content(document["graph"], document["answer"] or "")
        return state

    return solve


async def run_debate(system: DebateSystem, question: Question, settings: Settings) -> dict[str, Any]:
    """Run a debate, and return its result document as the API does."""
    document: dict[str, Any] = await system.graph.ainvoke(dict(question), context=settings)
    return document


def document_in(sample: EvalSample | TaskState) -> dict[str, Any] | None:
    """The result document of the debate on a sample, in this version's form; None if there is none.

    Args:
        sample: a sample from a log, or as scorers receive it. A sample that Inspect recovered after a kill has an empty
            store: it must have been read with its events and attachments, which also contain the document.

    Raises:
        ValueError: the document is damaged.
    """
    stored = sample.store.get(DOCUMENT)
    if stored is None and isinstance(sample, EvalSample):
        stored = _document_from_events(sample)
    return None if stored is None else parsed_document(stored)


def parsed_document(stored: str) -> dict[str, Any]:
    """Parse a result document, and convert it to this version's form.

    Raises:
        ValueError: it is damaged.
    """
    document: dict[str, Any] = upgrade_document(loads(stored))
    return document


def _document_from_events(sample: EvalSample) -> str | None:
    """The result document as text, from the events of a sample; None if there is none."""
    changes = [change for event in sample.events if isinstance(event, StoreEvent) for change in event.changes]
    stored = [str(change.value) for change in changes if change.path == f"/{DOCUMENT}"]
    return sample.attachments.get(stored[-1].removeprefix("attachment://"), stored[-1]) if stored else None


def make_question(claim: str, options: Sequence[str] | None, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The input of a debate from a sample: its input, its choices, and from its metadata only `INPUTS`."""
    inputs = (metadata or {}).get(INPUTS) or {}
    named = {key: inputs[key] for key in ("task", "labels", "given", "claim_date", "speaker") if inputs.get(key)}
    return {"claim": claim, **named} | ({"options": list(options)} if options else {})


def settings_for_sample(settings: Settings, sample: TaskState, *system: Any) -> Settings:
    """Adapt settings to one sample: leave out evidence from its claim's day or later, and derive its seed.

    Args:
        settings: the system's settings, with the run's seed.
        sample: the sample.
        system: values that identify the system among systems with the same seed.
    """
    return _with_seed(_with_day(settings, sample), sample, system)


def _with_day(settings: Settings, sample: TaskState) -> Settings:
    """Leave out evidence from the claim's day or later, unless the settings name another day."""
    day = (sample.metadata.get(INPUTS) or {}).get("published_before")
    if not day or not isinstance(settings, EvidenceSettings) or settings.published_before:
        return settings
    return settings.model_copy(update={"published_before": date.fromisoformat(day)})


def _with_seed(settings: Settings, sample: TaskState, system: Sequence[Any]) -> Settings:
    """Derive a seed from the run's seed, the system, and the sample's id and epoch.

    Settings without a seed are returned unchanged. A debate that runs again with the settings in its document sends the
    same seeds.
    """
    if settings.seed is None:
        return settings
    parts = json.loads(json.dumps(system, default=str))
    return settings.model_copy(update={"seed": derived_seed(settings.seed, *parts, sample.sample_id, sample.epoch)})
