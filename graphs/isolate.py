"""Isolated reading: a defence against poisoned evidence (after ReliabilityRAG, arXiv:2509.23519, in our own procedure).

look for the claim in every source
group what was found by origin: a registered domain, a document; near-duplicates of several are one origin
for every origin at the same time:
    one agent answers from that origin alone, or says that it does not tell
origins that give one answer are consistent; each weighs the reciprocal of its best rank
the answer of the heaviest consistent set is the verdict
a tie, or an answer of one origin that another contradicts, is no verdict
"""

from __future__ import annotations

from typing import Literal

from moot.nodes.runtime.settings import PoolSettings, ask_person
from moot.nodes.runtime.state import DebateState
from moot.nodes.runtime.system import Debate, Next
from moot.nodes.speakers.pool import to_pool
from moot.nodes.speakers.single import AGENT, SingleReaderSettings, single_needs
from moot.nodes.steps.isolate import decide_by_origins_node, from_one_origin, group_origins_node, to_origins
from moot.nodes.steps.person import person_node
from moot.nodes.steps.respond import respond_node
from moot.nodes.steps.retrieve import retrieve_node
from pydantic import Field


class IsolateSettings(PoolSettings, SingleReaderSettings):
    """Settings of isolated reading."""

    max_origins: int = Field(
        8, ge=1, le=50, description="Most origins of evidence that are read, those that were found first."
    )
    ask_person: tuple[Literal["evidence"], ...] = ask_person()


def search(state: DebateState, settings: IsolateSettings) -> Next:
    """The sources are searched once; without that, what was given is all."""
    return to_pool(state, settings, AGENT) if settings.searches else "group_origins"


def group(state: DebateState) -> Next:
    """What was found is grouped."""
    return "group_origins"


builder = Debate("isolate", IsolateSettings, single_needs)
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", person_node("evidence"))
builder.add_node("group_origins", group_origins_node())
builder.add_node("answer", respond_node("isolate/answer", more=from_one_origin))
builder.add_node("decide", decide_by_origins_node())
builder.begin(search, ["retrieve", "group_origins"])
builder.begin(group, ["group_origins"], after="retrieve", reviewed="review_evidence")
builder.add_conditional_edges("group_origins", to_origins, ["answer"])
builder.add_edge("answer", "decide")
builder.verdict_from("decide")
graph = builder.compile(name="Isolated reading")
