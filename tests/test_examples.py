"""Every example runs as a script, imports only public names of moot, and behaves as its docstring says."""

from __future__ import annotations

import ast
import json
import runpy
import shutil
import sqlite3
import sys
from contextlib import closing
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from moot.retrievers import WorldError

from tests.conftest import StartStub, free_port
from tests.serving import DEV, QUIET, running

FOLDER = Path(__file__).parents[1] / "examples"
FILES = sorted(FOLDER.glob("*.py"))
STUB = "openai:stub"


def example(name: str) -> Any:
    """Import an example as a module."""
    spec: Any = spec_from_file_location(f"examples.{name}", FOLDER / f"{name}.py")
    module = sys.modules[spec.name] = module_from_spec(spec)  # LangGraph looks in sys.modules to resolve annotations
    spec.loader.exec_module(module)
    return module


def reply(match: str, times: int | None = None, **fields: Any) -> dict[str, Any]:
    """A rule that sets these fields in replies to matching prompts, at most ``times`` times (None: always)."""
    return {"match": match, "fields": fields} | ({"times": times} if times else {})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_example_runs_as_a_script(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(file), "fake:1"])
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_example_imports_only_public_names_of_moot(file: Path) -> None:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    modules = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert not [name for name in modules if name.startswith("moot")]
    taken = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("moot")]
    assert taken
    for statement in taken:
        names, module = {alias.name for alias in statement.names}, str(statement.module)
        if module.startswith("moot.graphs."):
            assert all(name == "graph" or name.endswith(("Context", "Dict", "Settings")) for name in names), file
        else:
            assert module in ("moot.nodes", "moot.retrievers", "moot.graphs")
            assert names <= set(import_module(module).__all__)


@pytest.mark.parametrize("supported", [[True, True], [True, False]])
async def test_an_answer_with_an_unsupported_statement_is_held_back(
    start_stub: StartStub, supported: list[bool]
) -> None:
    verdicts = [{"index": i, "reason": "", "supported": s} for i, s in enumerate(supported)]
    first_answer = {"match": "Answer in a sentence", "reply": "A constant does. A cylinder did."}
    stub = start_stub([first_answer, reply("", statements=["A constant does.", "A cylinder did."], verdicts=verdicts)])
    state = await example("score_a_rag").main(STUB)
    assert (state["faithfulness"], state["doubts"]) == (sum(supported) / 2, [])
    assert state["answer"] == ("A constant does. A cylinder did." if all(supported) else None)
    assert "The kilogram has been defined by the Planck constant" in stub.prompts()[-1]


async def test_an_answer_that_cannot_be_scored_is_held_back(start_stub: StartStub) -> None:
    start_stub([{"match": "Answer in a sentence", "reply": "A constant does."}, {"reply": "I cannot say."}])
    state = await example("score_a_rag").main(STUB)
    assert (state["answer"], state["faithfulness"]) == (None, None)
    assert "gave no usable reply as scorer" in state["doubts"][-1]


async def test_a_panel_decides_on_the_evidence_of_an_agent(start_stub: StartStub) -> None:
    scores = {"evidence_strength": 6, "argument_validity": 6, "scientific_reliability": 6}
    judges = [reply("judge of a trial", n, verdict=v, **scores) for v, n in (("SUPPORTED", 2), ("NOT SUPPORTED", 1))]
    stub = start_stub([{"match": "Say in two sentences", "reply": "It holds, since 2019."}, *judges])
    state = await example("panel_after_an_agent").main(STUB)
    assert state["verdict"] == "SUPPORTS"
    assert state["confidence"] == pytest.approx(0.8 * 2 / 3 + 0.3 * 0.6, abs=1e-6)
    assert len(state["reasons"]) == 3
    for prompt in stub.prompts()[1:]:
        assert "It holds, since 2019." in prompt
        assert "kept for history's sake" in prompt
        assert "(no exhibit is shown)" not in prompt


async def test_an_error_is_raised_if_no_judge_of_the_panel_can_be_reached(start_stub: StartStub) -> None:
    start_stub([{"match": "Say in two sentences", "reply": "It holds."}, {"status": 400}])
    with pytest.raises(WorldError, match="No judge could be reached"):
        await example("panel_after_an_agent").main(STUB)


CALLS_THE_TOOL = reply("have it debated", 1, claim="Saffron is made from roots.")
"""A rule by which the agent calls its tool once."""


async def test_an_agent_calls_a_debate_as_a_tool(start_stub: StartStub) -> None:
    debater_answer = reply("your `answer`", answer="REFUTES", rationale="It is not.", citations=[])
    last = {"match": "have it debated", "reply": "No, it is not."}
    stub = start_stub([CALLS_THE_TOOL, debater_answer, last])
    *_, tool_reply, answer = await example("debate_as_a_tool").main(STUB)
    assert isinstance(tool_reply, ToolMessage)
    assert tool_reply.text == "REFUTES (consensus)"
    assert tool_reply.artifact["claim"] == "Saffron is made from roots."
    assert answer.text == "No, it is not."
    assert "REFUTES (consensus)" in stub.prompts()[-1]


async def test_an_agent_gets_an_error_message_if_the_debate_failed(start_stub: StartStub) -> None:
    start_stub([CALLS_THE_TOOL, {"match": "your `(answer|query)`", "status": 401}])
    *_, tool_reply, _ = await example("debate_as_a_tool").main(STUB)
    assert (tool_reply.status, tool_reply.text[:17]) == ("error", "The debate failed")


async def test_a_judge_decides_in_a_graph_without_moots_state_keys(start_stub: StartStub) -> None:
    stub = start_stub([reply("your `answer`", answer="refund", rationale="The rules say so.", citations=[])])
    state = await example("own_keys").main(STUB)
    assert (state["ruling"], state["grounds"]) == ("refund", "The rules say so.")
    [call] = stub.calls()
    assert state["cost"] == call["prompt_chars"] // 4 + call["reply_chars"] // 4 + 2
    [prompt] = stub.prompts()
    for shown in (
        "leaks. I want my money back",
        "Within 30 days",
        "A leak can be mended",
        "refund - the money is paid",
    ):
        assert shown in prompt


async def test_agents_in_a_ring_read_their_neighbours_answers_until_all_agree(start_stub: StartStub) -> None:
    first = [
        reply(
            f'Answer on your own.*You are "agent-{n}"',
            answer=answer,
            rationale=f"Reason {n}.",
            confidence=0.9,
            citations=[],
        )
        for n, answer in enumerate(("SUPPORTS", "REFUTES", "REFUTES", "SUPPORTS"), 1)
    ]
    then = reply("You have answered before", answer="SUPPORTS", rationale="So.", confidence=0.9, citations=[])
    stub = start_stub([*first, then])
    document = await example("own_debate").main(STUB)
    outcome = (document["status"], document["answer"], document["stop_reason"], document["rounds"])
    assert outcome == ("done", "SUPPORTS", "consensus", 2)
    [prompt] = [p for p in stub.prompts() if 'You are "agent-1"' in p and "You have answered before" in p]
    assert [n for n in (1, 2, 3, 4) if f"Reason {n}." in prompt] == [1, 2, 4]


async def test_a_ring_waits_for_a_remark_before_its_second_round(start_stub: StartStub) -> None:
    first = reply("Answer on your own", 1, answer="SUPPORTS", rationale="So.", confidence=0.9, citations=[])
    then = reply("your `answer`", answer="REFUTES", rationale="So.", confidence=0.9, citations=[])
    stub = start_stub([first, then])
    ring = example("own_debate")
    graph = ring.builder.compile(name="Ring", checkpointer=InMemorySaver())
    settings = ring.RoundsSettings(model=STUB, agents=2, ask_person=["remark"], max_rounds=2)
    config: Any = {"configurable": {"thread_id": "1"}}
    waiting = await graph.ainvoke({"claim": "The kilogram rests on a constant."}, config, context=settings)
    [wait] = waiting["__interrupt__"]
    assert wait.value["kind"] == "remark"
    document = await graph.ainvoke(Command(resume={"remark": "Think of 2019."}), config, context=settings)
    assert (document["status"], document["answer"], document["rounds"]) == ("done", "REFUTES", 2)
    assert sum("Think of 2019." in prompt for prompt in stub.prompts()) == 2  # one prompt per agent


SAVER = """
from contextlib import asynccontextmanager
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

@asynccontextmanager
async def make():
    async with AsyncSqliteSaver.from_conn_string("saved.sqlite") as saver:
        await saver.setup()
        yield saver
"""
"""A checkpointer of a user, which LangGraph's server opens by its path."""


def test_the_assistant_runs_under_langgraph_dev_and_replies_with_checked_quotes(
    start_stub: StartStub, tmp_path: Path
) -> None:
    draft, quote = "The kilogram rests on a constant of nature.", "voted unanimously today to define the kilogram"
    cited = {"ev-34930b52ce": quote, "ev-9e152cf91f": "the unit of mass in the International System of Units"}
    stub = start_stub(
        [
            {"match": "Answer the last question", "reply": draft},
            *(
                reply(id, answer="SUPPORTS", citations=[{"evidence_id": id, "quote": quote}])
                for id, quote in cited.items()
            ),
            reply("", query=draft, answer="SUPPORTS"),
        ]
    )
    folder, port = tmp_path / "assistant", free_port()
    shutil.copytree(FOLDER / "assistant", folder, ignore=shutil.ignore_patterns("__pycache__", ".langgraph_api"))
    config = json.loads((folder / "langgraph.json").read_text())
    config["checkpointer"] = {"path": "./saver.py:make"}  # see docs/howto/parts.md
    (folder / "langgraph.json").write_text(json.dumps(config))
    (folder / "saver.py").write_text(SAVER)
    for server in running([*DEV, "--port", str(port)], folder, port, stub, **QUIET, MOOT_MODEL=STUB):
        given = {"messages": [{"role": "user", "content": "On what does the kilogram rest?"}]}
        thread = server.json("/threads", {})["thread_id"]
        found = server.json(f"/threads/{thread}/runs/wait", {"assistant_id": "assistant", "input": given})
        said = found["messages"][-1]["content"]
        assert said.startswith(f"{draft}\n\nThe evidence supports this.\n\n")
        assert f"> {quote} (Nations vote to redefine the kilogram)" in said
        with closing(sqlite3.connect(folder / "saved.sqlite")) as saved:
            assert saved.execute("SELECT count(*) FROM checkpoints WHERE thread_id = ?", [thread]).fetchone()[0] > 3
