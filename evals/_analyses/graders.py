"""Grades of free-text answers, by models and by people (MADKE)."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.core.errors import MootError, UserError
from moot.evals._runs.log_files import UNREADABLE, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import checked_document, damaged_error, samples_in
from moot.evals._stats.metrics import item_score
from moot.evals._stats.outcomes import ABSTAINED, outcome_of
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker
from moot.nodes._runtime.node import choose_model
from moot.nodes._runtime.settings import Settings, checked_settings
from moot.nodes._speakers.turns import SHARED_ROLES
from moot.nodes._steps.compare import WORDED_KINDS, same_meaning
from moot.nodes._texts.answers import same_answer
from moot.nodes._texts.task import TASKS
from moot.retrievers._evidence import clean

IN_LOG, BY_TEXT, HUMAN = "in the log", "same text", "people"
"""Names of graders that are not called here. `IN_LOG` is added to the name of the judge in a log. `BY_TEXT` stands for
the comparison of texts, and `HUMAN` for people."""
YES, NO = ("1", "true", "yes", "right", "correct"), ("0", "false", "no", "wrong", "incorrect")
GRADER_FIELDS = ("status", "error", "claim", "task", "answer", "raw_verdict", "stop_reason", "metrics", "turns")
"""Fields of result documents that this module reads."""


def speaker_models(settings: Settings) -> set[str]:
    """The models of all speakers of a debate, without models that only compare answers or summarise sources."""
    roles: set[str] = getattr(settings, "roles", set)() - set(SHARED_ROLES)
    speakers = [speaker for name in ("agents", "debaters", "judges") for speaker in getattr(settings, name, ())]
    own_models = {speaker.name: speaker.model for speaker in speakers if hasattr(speaker, "model")}
    return {choose_model(settings, role, own_models.get(role)).model for role in {*roles, *own_models}}


def check_grader(judge: str | None, systems: Iterable[tuple[str, str, Mapping[str, Any]]]) -> None:
    """Refuse a grader that also speaks in the debates that it grades."""
    for label, graph, settings in systems if judge is not None else ():
        if judge in speaker_models(checked_settings(load_graph(graph).settings, settings)):
            raise UserError(
                f"{judge} grades the answers of {label}, in which it also speaks: a model may prefer its own answers. "
                "Name another model with --judge (judge: in a plan), or allow it with --judge-may-debate "
                "(judge_may_debate: true in a plan).",
                kind="invalid_setting",
            )


async def grade_answer(claim: str, task: Any, outcome: str, gold: Sequence[str], speaker: Speaker) -> bool | None:
    """Ask a model whether an answer means the same as a right answer; None if the model gives no usable reply."""
    if outcome == ABSTAINED or any(same_answer(task, outcome, gold_answer) for gold_answer in gold):
        return outcome != ABSTAINED
    right = " / ".join(gold)
    return (await same_meaning(claim, task, right, outcome, speaker)).same


# --- over logs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GradableAnswer:
    """A sample's free-text answer.

    ``same_text``: whether `same_answer` finds that it is a right answer, so that no model is asked. ``grades``: each
    grader's grade, by the grader's name; None if the grade is missing. Answers have the same ``group`` if they are
    answers to one item of a benchmark, or to items that are not independent.
    """

    system: str
    file: str
    id: str
    claim: str
    task: Any
    outcome: str
    gold: tuple[str, ...]
    same_text: bool
    grades: dict[str, bool | None]
    group: tuple[str, str, str] = ("", "", "")


def read_gradable_answers(paths: Sequence[Path]) -> tuple[list[GradableAnswer], list[str]]:
    """Read the free-text answers in all logs that are not superseded, with their known grades."""
    headers, notes = read_headers(find_logs(paths))
    headers, left_out = without_superseded(headers)
    found: list[GradableAnswer] = []
    for header in headers:
        place, judge = str(header.path), header.arguments.get("judge")
        try:
            for sample, found_document in samples_in(header):
                place = f"{header.path}, sample {clean(str(sample.id))[:80]}"
                document = None if found_document is None else checked_document(found_document, GRADER_FIELDS)
                gold = (sample.target,) if isinstance(sample.target, str) else tuple(sample.target)
                outcome = None if sample.error else outcome_of(document, gold)
                if document is None or outcome is None or TASKS[document["task"]["name"]].kind not in WORDED_KINDS:
                    continue
                exact = item_score("exact_match", document["task"]["name"], outcome, gold) == 1
                grades: dict[str, bool | None] = {BY_TEXT: exact}
                if judge:
                    score = (sample.scores or {}).get("judged")
                    grades[f"{judge} ({IN_LOG})"] = {1.0: True, 0.0: False}.get(score.value) if score else None
                label, name = header.label or "unknown system", clean(header.path.name)
                fields = (label, name, str(sample.id), document["claim"], document["task"], outcome, gold)
                same_text = any(same_answer(document["task"], outcome, answer) for answer in gold)
                group = clean(str((sample.metadata or {}).get("group") or ""))
                group_key = (header.metadata["benchmark"], group, "" if group else str(sample.id))
                found.append(GradableAnswer(*fields, same_text, grades, group_key))
        except (*UNREADABLE, TypeError, AttributeError) as error:
            raise damaged_error(place, error) from error
    if not found:
        reasons = " ".join([*notes, *left_out]) or "Name logs of benchmarks with such answers."
        raise UserError(
            f"Only free-text answers are graded. No log contains free-text answers. {reasons}", kind="missing_file"
        )
    return found, [*notes, *left_out]


async def ask_graders(
    answers: Sequence[GradableAnswer], models: Sequence[str], at_once: int, done: Callable[[], None]
) -> list[str]:
    """Have every model grade every answer. If a call fails or its reply is unusable, the grade is None."""
    gate, problems = asyncio.Semaphore(at_once), dict[str, None]()

    async def grade(answer: GradableAnswer, model: str, speaker: Speaker) -> None:
        async with gate:
            try:
                is_same = await grade_answer(answer.claim, answer.task, answer.outcome, answer.gold, speaker)
            except UserError:
                raise
            except MootError as error:
                problems[f"{model}: {error.detail}"] = None
                is_same = None
        answer.grades[model] = is_same
        done()

    speakers = {model: Speaker("equivalence", await open_chat_model(model)) for model in models}
    await all_at_once(grade(answer, model, speaker) for answer in answers for model, speaker in speakers.items())
    return list(problems)


def add_human_grades(answers: Sequence[GradableAnswer], file: Path) -> int:
    """Add people's judgements of answers from a CSV or JSONL file.

    Each row has ``id`` (a sample's id) and ``right`` (yes or no), and may have ``system`` (a system's label). A row
    without ``system`` is for the answers of all systems to this sample. Answers without a judgement get the grade None.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        if file.suffix == ".jsonl":
            rows = [json.loads(line) for line in text.split("\n") if line.strip()]
        else:
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{file} cannot be read: {clean(str(error))}.", kind="invalid_file") from error
    known: dict[tuple[str, str], bool] = {}
    for number, row in enumerate(rows, 1):
        judgement = str(row.get("right") if isinstance(row, dict) else "").strip().casefold()
        if not isinstance(row, dict) or row.get("id") in (None, "") or judgement not in YES + NO:
            raise UserError(f"{file}, row {number}: it needs an `id`, and yes or no in `right`.", kind="invalid_file")
        known[str(row.get("system") or ""), str(row["id"])] = judgement in YES
    matched = 0
    for answer in answers:
        verdict = known.get((answer.system, answer.id), known.get(("", answer.id)))
        answer.grades[HUMAN] = verdict
        matched += verdict is not None
    if not matched:
        raise UserError(f"{file} names no answer of these logs: its ids must be ids of samples.", kind="invalid_file")
    return matched
