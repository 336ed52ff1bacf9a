"""The first and the last node of every debate: they check the input and complete the result document."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from moot.core.errors import SOURCE_OUTAGE, MootError, UserError, WorldError
from moot.nodes._models.budget import SETTINGS
from moot.nodes._models.chat_models import ModelChoice
from moot.nodes._models.contexts import weight_of
from moot.nodes._models.objects import retries_warning
from moot.nodes._models.spend import PlannedCall
from moot.nodes._models.structured import own_response_format
from moot.nodes._records.entries import ORIGIN, Task
from moot.nodes._records.reducers import OPENING, overwrite
from moot.nodes._runtime.ceilings import Decision, open_budget, refused_calls_warning
from moot.nodes._runtime.document import blank_document, closed_state, completed_fields, document_of
from moot.nodes._runtime.node import Node, NodeContext, check_named, choose_model
from moot.nodes._runtime.settings import Settings
from moot.nodes._runtime.state import ClaimInput, DebateState
from moot.nodes._runtime.tracing import add_debate_metadata, add_outcome
from moot.nodes._steps.archiving import archived_pages
from moot.nodes._steps.compare import WORDED_KINDS
from moot.nodes._steps.person import check_resumable
from moot.nodes._steps.stand_ins import check_stand_in, same_source_warnings
from moot.nodes._texts.calibrated import bound_to, changes_since, check_bound, prompt_digests, read_calibration
from moot.nodes._texts.chat import as_plain_values, claim_of, conversation_update, read_messages
from moot.nodes._texts.given import check_given, inherited_evidence
from moot.nodes._texts.outage import every_search_failed, outage_error
from moot.nodes._texts.show import show_claim
from moot.nodes._texts.task import check_claim, check_origin, make_task, wording
from moot.nodes._texts.verdict import outcome_in_words
from moot.prompts import fill, load
from moot.prompts._files import placeholders
from moot.retrievers._evidence import merge_evidence
from moot.retrievers._search import contents
from moot.retrievers._summariser import open_summariser
from moot.retrievers._wayback import check_key


@dataclass(frozen=True)
class Needs:
    """The resources of a debate: sources, roles with their own models, the text encoder, a summarisation model."""

    sources: Sequence[str] = ()
    roles: Mapping[str, str | ModelChoice | None] = field(default_factory=dict)
    encoder: bool = False
    summariser: str | None = None


APPENDED_KEYS = ("turns", "evidence", "debates", "round_log", "calls", "corpora", "warnings", "depth")
"""Keys that grow during a debate. A new debate on the same thread overwrites them, so that no old values are left."""
INPUT = tuple(ClaimInput.__annotations__)
"""The keys of a debate's input."""
READ_ONCE = ("labels", "options", "given", *ORIGIN)
"""Input that is read only when a debate is opened; the next debate on the thread must not inherit it."""


def open_node(
    graph: str,
    needs: Callable[[Any], Needs] = lambda settings: Needs(),
    check: Callable[[Any, Task], None] = lambda settings, task: None,  # UserError if the graph cannot handle the task
    # The smallest call of each role that decides. Ceilings reserve the cost of these calls.
    decides: Callable[[Any, Needs], Mapping[str, Decision]] = lambda settings, needs: {},
) -> Node:
    """Checks the input and starts the result document; a `MootError` becomes the document's ``error``."""

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        document = (
            blank_document(graph, run.settings, uuid4().hex) | {"messages": overwrite([])} | dict.fromkeys(READ_ONCE)
        )
        document |= {key: overwrite(document[key]) for key in APPENDED_KEYS}
        named, asked, texts = state.get("task"), state.get("claim"), state.get("given")
        try:
            document["id"] = await run.session.begin(graph, {key: state.get(key) for key in INPUT}, run.settings)
            messages = read_messages(state.get("messages"))
            document["messages"] = overwrite(as_plain_values(messages))
            asked = claim_of(state, messages)
            claim = check_claim(asked)
            earlier = isinstance(named, dict)  # the checked task of an earlier debate on the thread
            task = make_task(None if earlier else named, state.get("labels"), state.get("options"), claim)
            origin: Any = check_origin(*(state.get(key) for key in ORIGIN))
            task |= origin
            if run.settings.label_rules and task["kind"] == "labels" and task["subject"] == "claim":
                task["label_rules"] = True
            given = inherited_evidence() if texts is None else await asyncio.to_thread(check_given, texts)
        except MootError as error:
            begun = str(asked or "")[:200]
            return document | {"error": error.record(OPENING), "claim": begun, "opened": begun}
        document |= {"claim": claim, "opened": claim, "task": task, "evidence": overwrite(given)}
        try:
            check_resumable(run.settings)
            check(run.settings, task)
            check_opinion(run.settings, task)
            needed = needs(run.settings)
            document["calibration"] = await open_calibration(graph, task, needed, run)
            for warning in filter(None, map(retries_warning, run.settings.objects().values())):
                run.record.warn("own_retries", warning)
            for warning in same_source_warnings(run.settings):
                run.record.warn("same_source", warning, "sources")
            document["warnings"] = overwrite(run.record.warnings)
            check_named(run.settings, roles_of(needed, task))
            models, deciders = models_of(needed, task, run.settings), decides(run.settings, needed)
            lost = run.session.lost_spend(run.budget)
            calls = [smallest_call(role, how, needed, document, run.settings) for role, how in deciders.items()]
            document["budget"] = await open_budget(run.settings, models, calls, run.budget, lost)
            await open_all(needed, task, run)  # here, so that a missing resource is reported before any call
            run.budget.start_clock()  # only now, so that the time to open the resources does not count
            if not given:
                await check_stand_in(needed.sources, claim, run)
            await add_debate_metadata(document)
        except MootError as error:
            return document | {"error": error.record(OPENING)}
        return document

    return Node(step, always=True, opens=graph)  # the node also runs if an earlier debate on the thread failed


def check_opinion(settings: Any, task: Task) -> None:
    """Raises a `UserError` if a second opinion is asked for on a task without labels."""
    if getattr(settings, "second_opinion", False) and task["kind"] != "labels":
        raise UserError(
            f"second_opinion gives each label a probability, but the answers of the task {task['name']} are no "
            "labels. Leave it out, or choose a task with labels.",
            kind="invalid_setting",
        )


async def open_calibration(graph: str, task: Task, needs: Needs, run: NodeContext) -> dict[str, Any] | None:
    """The calibration as plain JSON, None if the settings name none; UserError if it does not fit the debate."""
    settings: Settings = run.settings
    if settings.calibration is None:
        return None
    found = await asyncio.to_thread(read_calibration, settings.calibration)
    corpora, sources = await asyncio.to_thread(contents, needs.sources, settings.corpus)
    check_bound(found, bound_to(graph, task, settings.recorded(), prompt_digests(settings), sources))
    for change in changes_since(found, corpora):
        run.record.warn("calibration_aged", change)
    return found.model_dump(mode="json")


def roles_of(needs: Needs, task: Task) -> dict[str, str | ModelChoice | None]:
    """The roles that a debate may call, each with its own model, or with None if it has no model of its own."""
    return dict(needs.roles) | ({"equivalence": None} if task["kind"] in WORDED_KINDS else {})


def models_of(needs: Needs, task: Task, settings: Settings) -> set[str]:
    """The names of the models that a debate may call."""
    return {choose_model(settings, role, own).model for role, own in roles_of(needs, task).items()}


def smallest_call(
    role: str, decision: Decision, needs: Needs, state: Mapping[str, Any], settings: Settings
) -> PlannedCall:
    """The smallest call of a role that decides: its prompt has the claim, but no evidence and no answers."""
    task, choice = state["task"], choose_model(settings, role, needs.roles.get(role))
    turn = {"round": 0, "phase": "primary", "agent": role, "step": "respond"}
    known = {"claim": state["claim"], "task": task, "debater": {"name": role}, "turns": [turn]}
    known |= {"opponents": [], "evidence": [], "steps": []}
    text = settings.edited().get(decision.prompt) or load(decision.prompt)
    values = {**dict.fromkeys(placeholders(text), ""), **wording(task), "claim": show_claim(state["claim"], task)}
    values |= decision.values(known, settings) if decision.values else {}
    reply = decision.reply(task)
    schema = json.dumps(own_response_format(reply))
    size = decision.around + sum(map(weight_of, (*fill(text, values), schema)))
    # As a plain text: the name of an object holds the object, which could not be copied into the state.
    most = choice.max_tokens or settings.max_tokens
    return PlannedCall(role, decision.prompt, str(choice.model), size, most, reply.most_tokens)


async def open_all(needs: Needs, task: Task, run: NodeContext) -> None:
    """Opens a debate's resources in parallel; UserError or WorldError if one cannot be used."""
    if getattr(run.settings, "archive", "off") == "save":
        check_key()
    opening: list[Awaitable[Any]] = [open_source(name, run) for name in dict.fromkeys(needs.sources)]
    opening += [run.speaker(role, own) for role, own in roles_of(needs, task).items()]
    if needs.encoder:
        opening.append(run.encoder())
    if needs.summariser:
        opening.append(open_summariser(needs.summariser))
    await asyncio.gather(*opening)


async def open_source(name: str, run: NodeContext) -> None:
    """Opens a source; UserError if it is unknown or misconfigured, WorldError if it is out of reach."""
    try:
        await run.retriever(name, recent=False)
    except WorldError as error:
        remedy = "Run the debate again when it answers, or name another source."
        raise WorldError(
            f"`{name}` could not be opened: {error.detail} {remedy}", kind=SOURCE_OUTAGE, retryable=True
        ) from error


def close_node() -> Node:
    """Completes the result document: status, totals, citation counts, models, duration, the next message."""

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        skipped, cut = run.budget.skipped, run.budget.cut
        if skipped or cut:  # a ceiling prevented or ended calls; a failed debate has no stop reason
            state = {**state, "stop_reason": "budget_exhausted"}
        if state["error"] is None and every_search_failed(state["corpora"], state["evidence"]):
            fault = outage_error(
                state["corpora"], state["warnings"], run.settings.corpus, ceiling_reached="search" in cut
            )
            state = {**state, "error": fault.record("close")}
        archived, not_archived = await archived_pages(state, run)
        if archived:
            state = {**state, "evidence": merge_evidence(state["evidence"], archived)}
        update = {"stop_reason": state["stop_reason"], "error": state["error"]} | completed_fields(state)
        update |= {"evidence": archived} if archived else {}
        bounded = update["usage"].get("ceilings", {})
        for name, lost in run.session.lost_spend(run.budget)._asdict().items():
            if SETTINGS[name] in bounded:
                bounded[SETTINGS[name]]["spent"] += lost
        if timed := bounded.get("max_seconds"):
            timed["spent"] = round(run.budget.elapsed(), 3)  # since the debate began or was last resumed
        warned: list[Any] = [*not_archived]
        if run.session.id and state["id"] != run.session.id:  # another attempt, from an earlier state of the debate
            update["id"] = run.session.id
        used, begun = run.settings.recorded(), state["settings"]
        if changed := sorted(name for name in used | begun if begun.get(name) != used.get(name)):
            update["settings"] = used
            detail = (
                f"The debate began with other settings, and went on with those in this document: {', '.join(changed)}."
            )
            warned.append({"kind": "settings_changed", "where": "close", "detail": detail})
        if skipped or cut:
            detail = refused_calls_warning(skipped, cut)
            warned.append({"kind": "budget_exhausted", "where": "close", "detail": detail})
        if (replies := run.session.replies) and replies.fault:
            warned.append({"kind": "not_kept", "where": "close", "detail": replies.fault})
        if warned:
            update["warnings"] = [*update.get("warnings", []), *warned]
        document = closed_state(state, update)
        run.session.document = document_of(document)
        add_outcome(document)
        return update | {"messages": conversation_update(state.get("messages"), outcome_in_words(document))}

    return Node(step, always=True)
