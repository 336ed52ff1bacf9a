"""A debate as a tool of a ReAct agent: before the agent answers, it starts a debate on each claim that it relies on.

    python examples/debate_as_a_tool.py                        # a fake model that calls the tool for any question
    python examples/debate_as_a_tool.py openai:gpt-4o-mini     # any model that can call tools (the demo model cannot)

The agent is LangChain's own. The tool runs Tool-MAD and returns its verdict with the verified quotes; if a debate
fails, it returns the reason.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.graph.state import CompiledStateGraph
from moot.graphs.tool_mad import ToolMadSettings, graph
from moot.nodes import Debater, open_chat_model, verdict_citations

PROMPT = "You answer questions about facts. Before you rely on a claim, have it debated."


def debate_tool(settings: ToolMadSettings) -> BaseTool:
    """A tool that runs a debate on a claim.

    It returns a text for the agent, and the whole result document as the tool message's artifact.
    """

    @tool(response_format="content_and_artifact")
    async def debate(claim: str) -> tuple[str, Any]:
        """Debates one claim (a sentence that is true or false) over evidence. Returns the verdict and its quotes."""
        document = await graph.ainvoke({"claim": claim}, context=settings)
        if document["error"]:
            raise ToolException(f"The debate failed: {document['error']['detail']}")
        quotes = [f'"{c["quote"]}" [{c["evidence_id"]}]' for c in verdict_citations(document) if c["verified"]]
        return "\n".join([f"{document['answer']} ({document['stop_reason']})", *quotes]), document

    debate.handle_tool_error = True  # the agent reads the error and continues
    return debate


async def build(model: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A ReAct agent with the debate as its tool."""
    debaters = (Debater(name="encyclopaedia", retriever="bm25:demo-encyclopaedia"), Debater(name="plain"))
    settings = ToolMadSettings(model=model, debaters=debaters, max_rounds=2, scoring="consensus_only")
    chat = (await open_chat_model(model)).chat  # or your own ChatOpenAI(...)
    return create_agent(chat, [debate_tool(settings)], system_prompt=PROMPT)


async def main(model: str = "fake:1") -> list[Any]:
    """Runs the agent on one question, and returns all messages."""
    agent = await build(model)
    question = {"messages": [("user", "Is saffron made from the roots of a flower?")]}
    state = await agent.ainvoke(question, {"recursion_limit": 20})
    return list(state["messages"])


if __name__ == "__main__":
    for message in asyncio.run(main(*sys.argv[1:])):
        message.pretty_print()
