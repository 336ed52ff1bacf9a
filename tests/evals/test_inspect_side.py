"""In Inspect, a debate uses Inspect's models and roles, and the log contains the turns and the token usage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval
from inspect_ai.analysis import evals_df
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog
from moot.evals._runs.inspect_side import messages_of
from moot.evals._runs.plan import make_plan
from moot.evals._runs.run_plan import Limits, run_plan
from moot.evals._runs.solver import debate
from moot.evals._runs.tasks import benchmark_task

from tests.conftest import StartStub
from tests.evals.test_solver import claims, document_of, samples_of, says


def evaluate(tmp_path: Path, settings: dict[str, Any] | None = None, **options: Any) -> EvalLog:
    """Let Inspect run a debate of one claim; return the log."""
    task = benchmark_task("fever", claims(tmp_path / "fever.jsonl", "SUPPORTS"))
    solver = debate("society_of_minds", **(settings or {}))
    quiet: dict[str, Any] = {"display": "none", "score_display": False, "log_level": "error"}
    options = {"model": "moot/openai:stub", **options}
    (log,) = eval(task, solver=solver, log_dir=str(tmp_path / "logs"), **quiet, **options)
    return log


def test_inspects_models_and_options_apply_to_the_debate(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([says("SUPPORTS")])
    log = evaluate(tmp_path, model_roles={"agent-2": "moot/openai:second"}, max_tokens=77)
    (sample,) = samples_of(log)
    assert sample.error is None, sample.error
    assert {request["model"] for request in stub.requests()} == {"stub", "second"}
    assert {request["max_tokens"] for request in stub.requests()} == {77}
    assert document_of(sample)["settings"]["model"] == "openai:stub"


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        (
            {},
            {"model": "openai:other"},
            "Inspect's model (option --model) is openai:stub, but the debate's model (-S model=) is openai:other",
        ),
        ({"temperature": 0.5}, {"temperature": 0.1}, "Inspect's temperature (option --temperature) is 0.5"),
        ({"model": "mockllm/model"}, {}, "mockllm/model cannot debate: moot calls openai/NAME"),
        ({"model_base_url": "http://127.0.0.1:9/v1"}, {}, "set OPENAI_BASE_URL instead of --model-base-url"),
        ({"model_roles": {"nobody": "moot/openai:x"}}, {}, "there is no role 'nobody'"),
    ],
)
def test_conflicting_or_unusable_options_of_inspect_are_errors(
    start_stub: StartStub, tmp_path: Path, options: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    stub = start_stub()
    log = evaluate(tmp_path, settings=settings, **options)
    assert log.status == "error"
    assert log.error is not None
    assert message in log.error.message
    assert not stub.calls()


def test_inspects_model_for_the_role_grader_judges_answers(start_stub: StartStub, tmp_path: Path) -> None:
    stub = start_stub([{"model": "grader", "fields": {"same": True}}])
    (tmp_path / "hotpot.json").write_text(
        '[{"_id": "1", "question": "Who?", "answer": "Ada", "type": "bridge", "level": "easy", '
        '"supporting_facts": [["Ada", 0]], "context": [["Ada", ["She wrote it."]]]}]'
    )
    task = "moot/hotpotqa_distractor"
    options: dict[str, Any] = {"model": "moot/openai:stub", "log_dir": str(tmp_path / "logs"), "display": "none"}
    (log,) = eval(
        task,
        task_args={"data": str(tmp_path / "hotpot.json")},
        solver=debate("standard_prompting"),
        model_roles={"grader": "moot/openai:grader"},
        **options,
    )
    assert "judged" in [score.name for score in (log.results.scores if log.results else ())]
    assert any(request["model"] == "grader" for request in stub.requests())


def test_the_log_has_messages_for_turns_and_events_for_calls(start_stub: StartStub, tmp_path: Path) -> None:
    """The log also has the token usage of the sample, of its roles and of the run."""
    start_stub([says("SUPPORTS")])
    log = evaluate(tmp_path)
    (sample,) = samples_of(log)
    document = document_of(sample)
    events = [event for event in sample.events if isinstance(event, ModelEvent)]
    assert [event.role for event in events] == [call["role"] for call in document["calls"]]
    spent = document["usage"]["prompt_tokens"] + document["usage"]["completion_tokens"]
    assert sample.model_usage["openai/stub"].total_tokens == spent > 0
    assert sum(usage.total_tokens for usage in sample.role_usage.values()) == spent
    assert log.stats.model_usage["openai/stub"].total_tokens == spent
    question, *turns = sample.messages
    assert question.role == "user"
    assert [(message.metadata or {})["agent"] for message in turns[:3]] == ["agent-1", "agent-2", "agent-3"]
    assert (sample.metadata or {})["found"] == {"pieces": 0, "searches": 0, "failed": 0, "stood_in": 0}
    assert turns[0].text == "agent-1 answers: SUPPORTS - reasons: see the verdict"
    assert "Because." in turns[-1].text
    assert len(turns) == len(messages_of(document))


def test_inspects_data_frames_distinguish_the_logs_of_a_plan(start_stub: StartStub, tmp_path: Path) -> None:
    """If a system's label in the plan changes, the tags of its existing logs change, too."""
    start_stub()
    data = claims(tmp_path / "fever.jsonl", "SUPPORTS")
    graphs = ["standard_prompting", {"graph": "society_of_minds", "label": "mad", "settings": {"agents": 2}}]
    plan = {"graphs": graphs, "tasks": {"fever": data}, "models": ["openai:stub"], "seeds": [1, 2]}
    for label in ("mad", "debate"):
        graphs[1]["label"] = label  # type: ignore[index]
        run_plan(make_plan(plan), tmp_path / "logs", Limits(4), lambda total, held: lambda sample: None)
        frame = evals_df(str(tmp_path / "logs"), quiet=True)
        assert {tags.replace(" ", "") for tags in frame["tags"]} == {
            f"graph:{graph},model:openai:stub,seed:{seed},system:{system}"
            for graph, system in (("standard_prompting", "standard_prompting"), ("society_of_minds", label))
            for seed in (1, 2)
        }
        assert all('"model": "openai:stub"' in facts for facts in frame["metadata"])
        assert set(frame["model"]) == {"moot/openai:stub"}
