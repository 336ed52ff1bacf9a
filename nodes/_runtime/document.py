"""Builds the result documents of new, finished and unfinished debates, and checks the schema of documents."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from moot.nodes._models.chat_models import EMBEDDED
from moot.nodes._records.entries import Call, Turn, Warned
from moot.nodes._records.reducers import written_values
from moot.nodes._runtime.ceilings import ceilings_and_spending
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import SCHEMA_VERSION, DebateState, TrialUpdate, VerdictOutput
from moot.nodes._texts.answers import abstains
from moot.nodes._texts.calibrated import calibrated
from moot.nodes._texts.default_confidence import confidence_of
from moot.nodes._texts.dissent import dissent_of
from moot.nodes._texts.quotes import count_citations
from moot.nodes._texts.task import unsettled_label
from moot.nodes._texts.verdict import count_verdict_citations, share_warnings, verdict_warnings, why_withheld
from moot.retrievers._evidence import Evidence
from typing_extensions import get_type_hints

DEMO_MODEL_LINE = "The demonstration model took part: it shows that everything runs, but do not trust its verdicts."
FAKE_MODEL_LINE = "A fake model answered: its replies are random, so do not trust its verdicts."
NOTED = "document_noted"
"""The kind of the warning that something of a document is missing, or was read in an unusual way."""
RECORDED_LINE = "The model's replies come from the record of `moot demo`: no model was asked."

MOOT_VERSION = version("moot")
"""The installed version of moot, read once."""


def blank_document(graph: str, settings: Settings, id: str = "") -> dict[str, Any]:
    """The result document of a debate before its first call."""
    return {
        "schema_version": SCHEMA_VERSION,
        "id": id,
        "status": "interrupted",  # until the debate is closed
        "error": None,
        "graph": graph,
        "task": None,
        "answer": None,
        "raw_verdict": None,
        "confidence": None,
        "confidence_parts": None,
        "confidence_from": None,
        "prediction_set": None,
        "decision": None,
        "calibration": None,
        "stop_reason": None,
        "rounds": 0,
        "turns": [],
        "evidence": [],
        "scores": {},
        "votes": [],
        "graphs": [],
        "debates": [],
        "round_log": [],
        "dissent": None,
        "robustness": None,
        "metrics": {},
        "calls": [],
        "usage": usage([]),
        "depth": 0,
        "seconds": 0.0,
        "settings": settings.recorded(),
        "models": {},
        "corpora": [],
        "warnings": [],
        "moot_version": MOOT_VERSION,
        "started_at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "beside": None,
    }


def completed_fields(state: DebateState) -> dict[str, Any]:
    """The fields that complete a result document; ``warnings`` are only the new ones."""
    failed, metrics = state["error"] is not None, state["metrics"]
    if abstained := not failed and abstains(state["task"], state["answer"]):
        metrics = {**metrics, "abstained": True}
    seconds = round((datetime.now(UTC) - datetime.fromisoformat(state["started_at"])).total_seconds(), 3)
    ceilings = ceilings_and_spending(state.get("budget"), state["calls"], seconds)
    update: dict[str, Any] = {
        "status": "failed" if failed else "done",
        "usage": usage(state["calls"]) | ({"ceilings": ceilings} if ceilings else {}),
        "models": models_used(state["calls"]),
        "metrics": {**metrics, "citations": count_citations(state["turns"])},
        "seconds": seconds,
        "rounds": state["rounds"] or count_rounds(state["turns"]),
    }
    # A failed debate has no answer, raw verdict, confidence or stop reason.
    if failed:
        update |= {"answer": None, "raw_verdict": None, "stop_reason": None}
        update |= {"confidence": None, "confidence_parts": None}
    if abstained:  # only `raw_verdict` keeps the abstention
        update["answer"] = None
    update |= confidence_of({**state, **update})
    completed: Any = {**state, **update}
    if completed["turns"]:
        update["dissent"] = dissent_of(completed)
    update["metrics"]["verdict_citations"] = count_verdict_citations(completed)
    known = [one["detail"] for one in state["warnings"]]  # an inner debate may have added an equal warning
    added = verdict_warnings(completed) + shortened_prompt_warnings(state["calls"]) + share_warnings(state)
    added += demo_model_warnings(state["calls"]) + noted_warnings(state["evidence"])
    warned = [warning for warning in added if warning["detail"] not in known]
    if why := "" if failed else why_withheld(completed):
        update |= {"answer": unsettled_label(state["task"]), "confidence": None, "confidence_parts": None}
        update["metrics"]["withheld"] = True
        for change in (update.get("dissent") or {"changes": []})["changes"]:
            change["towards_verdict"] = None
        warned.append({"kind": "verdict_withheld", "where": "verdict", "detail": why})
    update |= calibrated(state.get("calibration"), {**state, **update}, done=not failed)
    return {**update, "warnings": warned} if warned else update


def noted_warnings(evidence: Iterable[Evidence]) -> list[Warned]:
    """A warning for each document of which something is missing, or was read in an unusual way."""
    details = dict.fromkeys(f"{piece['source']}: {piece['note']}." for piece in evidence if piece.get("note"))
    return [{"kind": NOTED, "where": "evidence", "detail": detail} for detail in details]


def demo_model_warnings(calls: Sequence[Call], results: str = "verdicts") -> list[Warned]:
    """Warnings that a demonstration, fake or recorded model took part; ``results`` is the word for its output."""
    models = {call["model"] for call in calls}
    lines = [DEMO_MODEL_LINE] if EMBEDDED in models else []
    lines += [FAKE_MODEL_LINE] if any(model.startswith("fake:") for model in models) else []
    warned: list[Warned] = [
        {"kind": "demo_model", "where": "model", "detail": line.replace("verdicts", results)} for line in lines
    ]
    if any(model.startswith("recorded:") for model in models):
        warned.append({"kind": "recorded_model", "where": "model", "detail": RECORDED_LINE})
    return warned


def shortened_prompt_warnings(calls: Sequence[Call]) -> list[Warned]:
    """A warning for each role and model whose prompts were shortened to fit into a context or under a ceiling."""
    found: dict[tuple[str, str], list[Call]] = {}
    for call in calls:
        if "left_out" in call:
            found.setdefault((call["role"], call["model"]), []).append(call)
    return [_shortened_prompt_warning(role, model, same) for (role, model), same in found.items()]


def _shortened_prompt_warning(role: str, model: str, calls: Sequence[Call]) -> Warned:
    most = max(calls, key=lambda call: (call["left_out"]["evidence"], len(call["left_out"]["rounds"])))["left_out"]
    rounds = max((call["left_out"] for call in calls), key=lambda left: len(left["rounds"]))
    in_part, shortened = (max(call["left_out"][key] for call in calls) for key in ("in_part", "said"))
    parts = (
        [f"{most['evidence']} of {most['of_evidence']} pieces of evidence were left out"] if most["evidence"] else []
    )
    parts += [f"{in_part} piece{'s were' if in_part > 1 else ' was'} shown in part"] if in_part else []
    parts += [f"{len(rounds['rounds'])} of {rounds['of_rounds']} rounds were left out"] if rounds["rounds"] else []
    parts += [f"{shortened} statement{'s were' if shortened > 1 else ' was'} shown in part"] if shortened else []
    at_most = f"At most {'; '.join(parts)}. " if parts else ""
    first, last = (pick(call["round"] for call in calls) for pick in (min, max))
    when = f" (rounds {first} to {last})" if first < last else f" (round {last})" if last else ""
    detail = (
        f"{len(calls)} prompt{'s' if len(calls) > 1 else ''}{when} would not have fit into "
        f"{min(call['left_out']['context'] for call in calls):,} tokens: the context of {model}, or the part of "
        f"the budget that was left for the decision. {at_most}"
        "`left_out` of each call has the details."
    )
    return {"kind": "prompt_shortened", "where": role, "detail": detail}


def closed_state(state: DebateState, update: Mapping[str, Any]) -> dict[str, Any]:
    """The state with the updates of `completed_fields`, whose warnings are added to the state's warnings."""
    return {**state, **update, "warnings": [*state["warnings"], *update.get("warnings", [])]}


def count_rounds(turns: Sequence[Turn]) -> int:
    """The last round of a trial's primary debate in which the critic spoke; 0 for debates that are not trials."""
    return max((t["round"] for t in turns if t["step"] == "critique" and t["phase"] == "primary"), default=0)


def usage(calls: Sequence[Call]) -> dict[str, Any]:
    """Calls and tokens, in total and by role; ``uncounted`` calls have no count of tokens."""
    # The totals include stored replies. Of equal calls that shared a request, only the sent one has tokens.
    total, earlier, by_role = Usage(), Usage(), defaultdict[str, Usage](Usage)
    for call in calls:
        total.add(call)
        by_role[call["role"]].add(call)
        if call.get("from_store"):
            earlier.add(call)
    found = vars(total) | {"by_role": {role: vars(used) for role, used in sorted(by_role.items())}}
    return found | ({"from_store": vars(earlier)} if earlier.calls else {})


@dataclass
class Usage:
    """A number of calls, and their tokens."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    uncounted: int = 0

    def add(self, call: Call) -> None:
        """Counts a call."""
        self.calls += 1
        self.prompt_tokens += call["prompt_tokens"] or 0
        self.completion_tokens += call["completion_tokens"] or 0
        self.uncounted += call["prompt_tokens"] is None


def models_used(calls: Sequence[Call]) -> dict[str, Any]:
    """For each role, the model that the settings name for its first call, and the names reported for all its calls."""
    found: dict[str, Any] = {}
    for call in calls:
        reported = found.setdefault(call["role"], {"model": call["model"], "reported": []})["reported"]
        if call["reported_model"] and call["reported_model"] not in reported:
            bisect.insort(reported, call["reported_model"])
    return found


def with_writes(state: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """A debate's state, into which the writes of a step are merged by the reducers of their keys."""
    kinds = get_type_hints(DebateState, include_extras=True)
    # Keys that `TrialUpdate` does not have are left out.
    reducers = {key: kinds[key].__metadata__[-1] for key in TrialUpdate.__annotations__ if key in update}
    return {**state, **{key: reduce(state[key], update[key]) for key, reduce in reducers.items()}}


def document_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a debate's state that belongs to its result document."""
    return {key: state[key] for key in VerdictOutput.__annotations__ if key in state}


def unfinished(state: Any, within: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The result document of a debate that was interrupted or waits for a person, with its turns and costs so far."""
    # These writes of steps, also of inner graphs, are not yet in the debate's state.
    for written in within:
        state = with_writes(state, {key: value for key, value in written.items() if value is not None})
    undecided = {"status": "interrupted", "prediction_set": None, "decision": None}
    return document_of({**closed_state(state, completed_fields(state)), **undecided})


def failed(before: Mapping[str, Any], written: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The result document of a debate that an error ended, from its state before a run and the writes of the run's
    nodes, the last of which has the ``error``; None if the debate was not opened.
    """
    updates = [written_values(update) for update in written]
    opening: Any = next((update for update in updates if "opened" in update), None)
    state: Any = before or opening
    if not state:
        return None
    for update in updates:
        if update is not state:
            state = with_writes(state, update)
    state = {**state, "error": updates[-1]["error"]}
    return document_of(closed_state(state, completed_fields(state)))


def check_schema(document: Any) -> None:
    """Raises ValueError, which says what to do, for plain JSON that is no result document of the present schema."""
    found = document.get("schema_version") if isinstance(document, Mapping) else None
    if found is None:
        raise ValueError("it has no `schema_version`")
    if found != SCHEMA_VERSION:
        raise ValueError(
            f"it has `schema_version` {found!r:.20}, but this version of moot reads only {SCHEMA_VERSION!r}; run the "
            "debate again"
        )
