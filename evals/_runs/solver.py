"""A debate as an Inspect solver, for moot's own tasks and for other tasks.

    Task(dataset=[Sample(input="Saffron grows underground.", target="REFUTES")],
         solver=debate("tool_mad", model="openai:gpt-4o-mini"), scorer=match())

If the settings name no model, the debate uses Inspect's model (`moot.evals._runs.inspect_side`). Moot's nodes make the
calls, and the solver reports them to Inspect when the debate is over. So Inspect's time and error limits apply, but not
its token limits. The graphs' settings `budget` and `max_cost` limit the tokens and the cost of a debate;
`shared_ceilings` limits the totals of many debates.
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
from moot.core.errors import UserError
from moot.evals._runs.inspect_side import add_inspect_settings, messages_of, report_calls
from moot.evals._stats.outcomes import INPUTS, count_evidence, has_outcome
from moot.graphs import DebateSystem, load_graph
from moot.nodes._models.seeds import derived_seed
from moot.nodes._records.entries import ORIGIN
from moot.nodes._runtime.document import check_schema
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.settings import EvidenceSettings, Settings, checked_settings

DOCUMENT = "moot:document"
"""Key of a sample's store for the result document (see `document_in`). The document is stored as JSON in one string,
because Inspect would walk through an object at every step of a sample."""
EVIDENCE_COUNT = "found"
"""Key of a sample's metadata for the amount of evidence (`moot.evals._stats.outcomes.EvidenceCount`)."""

Question = Mapping[str, Any]
"""The input of a debate: claim and, if present, task, labels, options, given, claim_date, speaker and appeared_at."""
DebateRunner = Callable[[Question, TaskState], Awaitable[dict[str, Any]]]
"""Runs a debate on a sample's question and returns the result document."""


class DebateFailed(Exception):  # noqa: N818 - Inspect shows this name
    """The sample is missing data, because its debate could not run, or failed through no fault of the system."""


@solver(name="debate")
def debate(graph: str = "tool_mad", run: str = "", **settings: Any) -> Solver:
    """A solver that runs a debate on a sample's input.

    The sample's output is the answer, and its store has the result document (`document_in`). The sample's ``choices``
    are the options of a multiple-choice question. Its metadata may contain further inputs under the key ``moot``, such
    as ``claim_date``. The input ``published_before`` applies to systems with retrieval, unless the settings set
    ``published_before`` for all samples.

    Args:
        graph: the name of a debate system.
        run: further data that identify this run. They are stored in the log, and Inspect resumes only logs with the
            same data.
        settings: settings of the system; ``moot settings GRAPH`` lists them.

    Raises:
        UserError: the graph or a setting is unknown, or a value is out of its range.
    """
    system = load_graph(graph)
    refuse_fact_checks(system, checked_settings(system.settings, settings, graph))

    async def run_sample(question: Question, sample: TaskState) -> dict[str, Any]:
        chosen = checked_settings(system.settings, add_inspect_settings(settings))
        return await run_debate(system, question, settings_for_sample(chosen, sample, graph, settings))

    return debate_solver(run_sample)


def refuse_fact_checks(system: DebateSystem, settings: Settings) -> None:
    """Refuses the source of fact checks by others, which may have the answers of a benchmark's claims: a UserError."""
    needs: Needs = system.graph.builder.needs(settings)
    if "fact_checks" in needs.sources:
        raise UserError(
            "The source fact_checks may have the answers of a benchmark's claims, so evaluations do not search it. "
            "Leave it out of the sources.",
            kind="invalid_setting",
        )


def debate_solver(run_sample: DebateRunner) -> Solver:
    """Make a solver that runs a debate on every sample.

    If the debate fails, the sample fails with `DebateFailed`, and is missing data. But if the failure is the system's
    own fault (`has_outcome`), the sample does not fail, and its outcome is an abstention.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        options = [choice.value for choice in state.choices]
        document = await run_sample(make_question(state.input_text, options, state.metadata), state)
        state.store.set(DOCUMENT, json.dumps(document))
        state.metadata[EVIDENCE_COUNT] = count_evidence(document)._asdict()
        state.messages += messages_of(document)
        report_calls(document["calls"])
        if not has_outcome(document):
            raise DebateFailed(f"{document['error']['kind']}: {document['error']['detail']}")
        state.output = ModelOutput.from_content(document["graph"], document["answer"] or "")
        return state

    return solve


async def run_debate(system: DebateSystem, question: Question, settings: Settings) -> dict[str, Any]:
    """Run a debate, and return its result document."""
    document: dict[str, Any] = await system.graph.ainvoke(dict(question), context=settings.with_document())
    return document


def document_in(sample: EvalSample | TaskState) -> dict[str, Any] | None:
    """The result document of the debate on a sample; None if there is none.

    Args:
        sample: a sample from a log, or the state of a sample, as scorers receive it. If Inspect recovered the sample
            after a kill, its store is empty. The document is then found only in a sample from a log that was read with
            its events and attachments.

    Raises:
        ValueError: the document is damaged, or its schema is not the present one.
    """
    stored = sample.store.get(DOCUMENT)
    if stored is None and isinstance(sample, EvalSample):
        stored = _document_from_events(sample)
    return None if stored is None else parsed_document(stored)


def parsed_document(stored: str) -> dict[str, Any]:
    """Parse a result document."""
    document: dict[str, Any] = json.loads(stored)
    check_schema(document)
    return document


def _document_from_events(sample: EvalSample) -> str | None:
    """The result document as text, from the events of a sample; None if there is none."""
    changes = [change for event in sample.events if isinstance(event, StoreEvent) for change in event.changes]
    stored = [str(change.value) for change in changes if change.path == f"/{DOCUMENT}"]
    return sample.attachments.get(stored[-1].removeprefix("attachment://"), stored[-1]) if stored else None


def make_question(claim: str, options: Sequence[str] | None, metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """The input of a debate: a sample's claim and options, and further inputs from its metadata (`INPUTS`)."""
    inputs = (metadata or {}).get(INPUTS) or {}
    named = {key: inputs[key] for key in ("task", "labels", "given", *ORIGIN) if inputs.get(key)}
    return {"claim": claim, **named} | ({"options": list(options)} if options else {})


def settings_for_sample(settings: Settings, sample: TaskState, *system: Any) -> Settings:
    """Adapt settings to one sample: exclude evidence that is too new for the sample, and derive the sample's seed.

    If the sample has an input ``published_before``, evidence from this day or later is left out, unless the settings
    already set ``published_before``.
    """
    return _with_seed(_with_day(settings, sample), sample, system)


def _with_day(settings: Settings, sample: TaskState) -> Settings:
    """Set the setting ``published_before`` to the sample's input ``published_before``."""
    day = (sample.metadata.get(INPUTS) or {}).get("published_before")
    if not day or not isinstance(settings, EvidenceSettings) or settings.published_before:
        return settings
    return settings.model_copy(update={"published_before": date.fromisoformat(day)})


def _with_seed(settings: Settings, sample: TaskState, system: Sequence[Any]) -> Settings:
    """Derive a seed from the run's seed, the system, and the sample's id and epoch."""
    if settings.seed is None:
        return settings
    parts = json.loads(json.dumps(system, default=str))
    return settings.model_copy(update={"seed": derived_seed(settings.seed, *parts, sample.sample_id, sample.epoch)})
