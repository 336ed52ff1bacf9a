"""Edited prompts: the texts that may replace a shipped prompt, and the settings that hold these texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.core.errors import UserError
from moot.graphs import load_graph
from moot.graphs._registry import DESCRIPTIONS, OTHER_GRAPHS
from moot.graphs.society_of_minds import builder as society_of_minds
from moot.nodes._models.step_record import StepRecord
from moot.nodes._runtime.graph import with_prompts
from moot.nodes._runtime.node import NodeContext
from moot.nodes._runtime.settings import Settings, checked_settings
from moot.prompts import fill
from moot.prompts._files import check_edited, shipped

from tests.conftest import StartStub
from tests.each import each

PROMPTS = Path(__file__).parents[2] / "prompts"
NAMES = sorted(str(path.relative_to(PROMPTS).with_suffix("")) for path in PROMPTS.glob("*/*.md"))
OF_EVALUATIONS = {"attacks/poison", "scoring/coverage"}
"""The prompts that only evaluations use."""


@each("name", NAMES)
def test_every_shipped_prompt_may_replace_itself(name: str) -> None:
    """The line ends of Windows are replaced by those of the shipped prompt."""
    for line_end in ("\n", "\r\n"):
        assert check_edited(name, shipped(name).replace("\n", line_end)) == shipped(name)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda text: text.replace("\n---\n", "\n"), "a line --- between"),
        (lambda text: text + "\n{evidance}", r"\{evidance\} is unknown; known are asks, claim, evidence"),
        (lambda text: text.replace("{claim}", ""), r"\{claim\} is missing below the line"),
        (lambda text: "{claim}\n" + text, r"\{claim\} is untrusted data"),
        (lambda text: text + "\n{claim!r}", "plain name"),
        (lambda text: text + "\n{", "Single '{'|expected '}'"),
    ],
)
def test_an_invalid_edited_prompt_is_refused(edit: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_edited("tool_mad/respond", edit(shipped("tool_mad/respond")))


@pytest.mark.parametrize("beginning", ["", "You are {name}. {stance}\n"])
def test_placeholders_about_the_speaker_may_be_moved_or_left_out(beginning: str) -> None:
    edited = beginning + shipped("tit_for_tat/argue").replace('You are "{name}". {stance}\n', "")
    assert check_edited("tit_for_tat/argue", edited) == edited


async def test_a_speaker_uses_the_edited_prompt_of_the_settings() -> None:
    """The other prompts stay as shipped, and so do all prompts under settings without edited prompts."""
    kind = with_prompts(Settings, {"scoring/questions": ["node"], "scoring/statements": ["node"]})
    settings = checked_settings(kind, {"model": "fake:1", "questions_prompt": "Ask.\n---\n{answer} ({count})"})
    edited = await NodeContext(settings, StepRecord()).speaker("scorer")
    unedited = await NodeContext(kind(model="fake:1"), StepRecord()).speaker("scorer")
    values = {"answer": "So.", "count": "3", "origin_rule": "", "claim": "Bees make honey.", "of": "."}
    assert edited.filled("scoring/questions", values) == ("Ask.", "So. (3)")
    assert edited.filled("scoring/statements", values) == fill(shipped("scoring/statements"), values)
    assert unedited.filled("scoring/questions", values) == fill(shipped("scoring/questions"), values)


def test_each_prompt_is_a_setting_of_a_node_that_studio_draws() -> None:
    """Only these prompts are not settings: `OF_EVALUATIONS`, and the prompt that summarises a finished debate."""
    with_field = set()
    for name in (*DESCRIPTIONS, *OTHER_GRAPHS):
        system = load_graph(name, others=True)
        drawn = {*system.graph.get_graph().nodes, *system.graph.get_graph(xray=True).nodes}
        for field, prompt in system.settings.prompts.items():
            extra = system.settings.model_fields[field].json_schema_extra
            assert extra["langgraph_type"] == "prompt"
            assert drawn & set(extra["langgraph_nodes"]), (name, field, extra)
            assert system.settings.model_fields[field].default == shipped(prompt)
        with_field |= set(system.settings.prompts.values())
    assert with_field == set(NAMES) - {"reader/summary"} - OF_EVALUATIONS


def test_an_invalid_edited_prompt_in_settings_is_a_user_error() -> None:
    kind = with_prompts(Settings, {"tool_mad/judge": ["judge"]})
    with pytest.raises(UserError, match=r"judge_prompt: \{claim\} is missing below the line") as caught:
        checked_settings(kind, {"judge_prompt": shipped("tool_mad/judge").replace("{claim}", "")})
    assert caught.value.kind == "invalid_setting"


@pytest.mark.parametrize("empty_context", [True, False])
async def test_a_resumed_debate_keeps_its_edited_prompts(start_stub: StartStub, empty_context: bool) -> None:
    """The call that resumes the debate has an empty context or none. The checkpoint has the settings."""
    stub = start_stub([])
    graph: Any = society_of_minds.compile(checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    texts = {f"{name}_prompt": "EDITED. " + shipped(f"agents/{name}") for name in ("answer", "revise")}
    context = {"model": "openai:stub", "max_rounds": 2, "ask_person": ["remark"], **texts}
    await graph.ainvoke({"claim": "Bees make honey."}, config, context=context)
    document = await graph.ainvoke(Command(resume=True), config, **({"context": {}} if empty_context else {}))
    assert (document["status"], document["rounds"]) == ("done", 2)
    assert len(stub.prompts()) == 6  # three agents in two rounds
    assert all(text.startswith("EDITED. ") for text in stub.prompts())
    assert texts.items() <= document["settings"].items()
