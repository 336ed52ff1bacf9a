"""How a debate was made, for a report: method, models, cost, and the command that repeats it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs._registry import entry_of, graph_title
from moot.nodes._models.equal_cost import BUDGET_NAMES
from moot.nodes._models.prices import cost_of, paid_calls, read_prices
from moot.nodes._texts.task import TASKS, full_answer
from moot.retrievers._evidence import given_evidence
from moot.transcript.document import settings_to_read
from moot.transcript.end import compared_words, control_lines
from moot.transcript.language import in_clauses, in_figures, listed, t
from moot.transcript.line import format_duration, has_rounds
from moot.transcript.report.codes import answer_kind, answer_word, in_words, model_words
from moot.transcript.report.sources import plain


def run_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How a debate was made, as pairs of a fact's name and its text. The command is not among the facts.

    Raises:
        UserError: this version does not know the graph.
    """
    about = entry_of(document["graph"], document["settings"]).get("description")
    about = about or load_graph(document["graph"]).description
    about = about.partition(": ")[2] or about
    name = t(graph_title(document["graph"]))
    ids = dict.fromkeys((document["id"],) if document["id"] else ())
    facts = [
        (t("Method"), f"{name}. {t(about[:1].upper() + about[1:])}"),
        (t("Model"), models_in_words(document)),
        (t("Time and usage"), usage_in_words(document)),
        (t("Cost"), cost(document)),
        (t("Version"), f"moot {document['moot_version']}"),
    ]
    if old := document.get("replaces"):
        about = {"id": old["document"][-32:], "answer": plain(old["answer"] or t("none"))}
        facts.append((t("Replaces"), t("an earlier version of this check ({id}); its answer was {answer}", **about)))
    if control := control_in_words(document):
        facts.append((t("Control"), control))
    return [*facts, *((t("Stored as"), one) for one in ids)]


def control_in_words(document: Mapping[str, Any]) -> str:
    """The control that was run after a debate, in words; empty if no control was run."""
    if (beside := document.get("beside")) is None:
        return ""
    run, error, name = beside["document"], beside["error"], graph_title(beside["control"])
    if run is None or run["status"] != "done":
        why = f": {plain(in_words(error['detail']))}" if error else ", as it was interrupted."
        return f"{name} came to no verdict{why}"
    task, control_answer, debate_answer = document["task"], run["answer"], document["answer"]
    if control_answer is None or debate_answer is None:
        compared = "like the debate" if control_answer is debate_answer else "unlike the debate"
    else:
        compared = compared_words(task, control_answer, debate_answer)
    kind = answer_kind(task, control_answer)
    answer = plain(full_answer(task, control_answer)) if kind == "text" else answer_word(kind, control_answer)
    *_, taken = control_lines(document)
    return f"{name}, at equal {BUDGET_NAMES[beside['equal']]}: {answer}, {compared}. {cost(run)}. {taken.text}"


def models_in_words(document: Mapping[str, Any]) -> str:
    """The models, each with the roles that used it; a single model without its roles."""
    parts: dict[str, list[str]] = {}
    for role, used in document["models"].items():
        parts.setdefault(used["model"], []).append(role)
    if len(parts) == 1:
        [name] = parts
        return t("{model} in every part", model=model_words(name))
    named = [t("{model} as {roles}", model=model_words(name), roles=listed(roles)) for name, roles in parts.items()]
    return in_clauses(named) or t("none")


def usage_in_words(document: Mapping[str, Any]) -> str:
    """The time, rounds, model calls and tokens of a debate; the rounds only if its system has rounds."""
    usage = document["usage"]
    parts = [format_duration(document["seconds"])]
    if has_rounds(document["settings"]):
        parts.append(t("{count} rounds", count=document["rounds"]))
    parts.append(t("{count} model calls", count=usage["calls"]))
    read, written = usage["prompt_tokens"], usage["completion_tokens"]
    parts.append(t("{read} tokens read and {written} written", read=read, written=written))
    if usage.get("uncounted"):
        parts.append(t("the tokens of {count} calls are not known", count=usage["uncounted"]))
    if replayed := sum(bool(call.get("from_store")) for call in document["calls"]):
        parts.append(t("{count} calls had stored replies and cost nothing", count=replayed))
    return in_clauses(parts)


def cost(document: Mapping[str, Any]) -> str:
    """The cost of a document's paid calls by the current prices, or why the cost is not known."""
    calls = paid_calls(document["calls"])
    try:
        prices = read_prices()
    except UserError as error:  # of the file of prices: the debate has been paid for, so it gets its report
        return t("Not known: {why}", why=error.detail)
    spent = cost_of(calls, prices)
    if spent is None:
        return t("Not known: no price is set for a model, or the tokens of a call were not counted")
    return t("${usd} by list prices", usd=in_figures(spent, 4)) if spent else t("Nothing")


def command(document: Mapping[str, Any]) -> str:
    """The command that repeats the debate, without the inputs that `not_in_command` names.

    Raises:
        UserError: this version does not know the graph or its settings.
    """
    settings, task = settings_to_read(document), document["task"]
    words = ["moot", "verify", document["claim"], "--graph", document["graph"]]
    if task:
        words += ["--task", task["name"]]
        if task["name"] == "labels":
            words += ["--labels", json.dumps(task["meanings"] or task["labels"], ensure_ascii=False)]
        if task["name"] == "choice" or (task["name"] in TASKS and TASKS[task["name"]].kind == "choice"):
            words += [word for label in task["labels"] for word in ("--option", task["meanings"].get(label, label))]
        for option, key in (("--claim-date", "claim_date"), ("--speaker", "speaker"), ("--appeared-at", "appeared_at")):
            words += [option, task[key]] if task.get(key) else []
    default = {**type(settings)(preset=settings.preset).model_dump(mode="json"), "preset": "practical"}
    for name, value in settings.recorded().items():
        if value == default.get(name):
            continue
        if name in ("model", "corpus") and isinstance(value, str):
            words += [f"--{name}", value]
        else:
            words += ["--set", f"{name}={value if _is_plain_text(value) else json.dumps(value, ensure_ascii=False)}"]
    return shlex.join(words)


def _is_plain_text(value: Any) -> bool:
    """Whether a value is a text that ``--set`` reads unchanged."""
    if not isinstance(value, str):
        return False
    try:
        json.loads(value)
    except ValueError:
        return True
    return False


def not_in_command(document: Mapping[str, Any]) -> str:
    """A sentence on the inputs that the command does not repeat; empty if it repeats all inputs."""
    given = len(given_evidence(document["evidence"]))
    asked = any(turn["agent"] == "person" for turn in document["turns"])
    found = [t("the {count} texts given with the claim", count=given)] if given else []
    found += [t("what a person said")] if asked else []
    objects = ", ".join(settings_to_read(document).objects())
    found += [t("the program's own objects ({objects})", objects=plain(objects))] if objects else []
    return t("It does not include {inputs}.", inputs=listed(found)) if found else ""
