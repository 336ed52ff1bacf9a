"""Multi-agent debate with knowledge enhancement (MADKE; Wang et al., algorithm 1).

fill a pool of evidence from every source, once
repeat, for every debater at the same time (with `sequential_talk`, one after the other from the second round on):
    select the helpful evidence from the pool; the selection may be empty
    answer from the selection and, from the second round on, from all debaters' last answers
until the debaters agree, or the rounds are used up
    debaters agree if their answers are the same and the judge does not find them wrong (see `agreement`); if all are
    free texts that may mean the same, the judge decides
the summariser states which of the last answers is the result of the debate

In the paper, the judge is asked after every round whether the answers are correct and consistent. Here, it is not asked
if its reply could not change the result: after the last round, about answers that certainly differ and, with
`agreement` "consistent", about labels, numbers and identical texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from langgraph.graph import END, START
from moot.nodes import (
    SOURCES,
    CompiledDebate,
    Debate,
    DebateGraph,
    DebaterState,
    DebateState,
    DemonstrationSettings,
    Next,
    PoolDebateSettings,
    Source,
    StepUpdate,
    agreement_node,
    all_agreed,
    by_preset,
    check_demonstrations,
    compare_texts_node,
    demonstrations_placeholder,
    human_review_node,
    no_round_left,
    pool_needs,
    respond_node,
    retrieve_node,
    round_is_over,
    select_node,
    summarise_node,
    to_next_speakers,
    to_pool,
    undecided,
    without_web_titles,
)
from pydantic import Field

if TYPE_CHECKING:
    from moot.graphs.contexts import MadkeContext

# --- settings -------------------------------------------------------------------------------------------------------


class MadkeSettings(PoolDebateSettings, DemonstrationSettings):
    """Settings of MADKE. The defaults below are the paper's, except that of `fallback`."""

    other_roles: ClassVar[frozenset[str]] = frozenset({"judge", "summariser"})
    sources: tuple[Source, ...] = Field(
        default=("wikipedia", "web"),
        max_length=10,
        description=f"Sources of the pool: {SOURCES}; an empty list for a debate without a pool.",
    )
    fallback: tuple[Source, ...] = Field(
        default=("chroma", "bm25"), max_length=10, description="Sources that replace failed ones, in this order."
    )
    k: int = Field(default=5, ge=1, le=50, description="Documents from each source.")
    temperature: float | None = Field(
        default=0.5, ge=0, le=2, description="Sampling temperature; null leaves it to the endpoint."
    )
    selection: bool = Field(default=True, description="Off: every debater is given the whole pool.")
    web_titles: bool = by_preset(
        paper=False,
        practical=True,
        description="Off: only the snippets of a web search's results are shown, as in the paper.",
    )
    agreement: Literal["correct_and_consistent", "consistent"] = by_preset(
        paper="correct_and_consistent",
        practical="consistent",
        description="When the debate ends before its last round. consistent: the answers are the same; "
        "correct_and_consistent: the judge, who is asked, also does not find the answer wrong, as in the paper.",
    )
    sequential_talk: bool = Field(
        default=False,
        description="On: from the second round on the debaters speak one after the other, and hear the answers of "
        "the same round.",
    )


# --- edges ----------------------------------------------------------------------------------------------------------


def fill_pool(state: DebateState, settings: MadkeSettings) -> Next:
    """Routes to the search for the claim or, if the settings exclude a search, to the debaters."""
    return to_pool(state, settings) if settings.searches else debate(state, settings)


def debate(state: DebateState, settings: MadkeSettings) -> Next:
    """Starts the turns of the debaters who answer next, each with the whole pool."""
    pool = state["evidence"] if settings.web_titles else without_web_titles(state["evidence"], state["corpora"])
    shown = {"pool": pool} if settings.selection else {"evidence": pool}
    in_turn = settings.sequential_talk
    return to_next_speakers(
        "debater", state, settings.debaters, lambda round: in_turn and round > 1, two_rounds=in_turn, **shown
    )


def first_step(state: DebaterState, settings: MadkeSettings) -> Literal["select", "respond"]:
    """Routes to the selection; with the setting ``selection`` off, to the answer."""
    return "select" if settings.selection else "respond"


def consensus(state: DebateState, settings: MadkeSettings) -> Next:
    """Routes to the next debater until the round is over.

    After the round, it routes to the judge if the votes do not show whether the debaters agree, or if the judge may
    find their answer wrong; else as `go_on` does.
    """
    if not round_is_over(state, settings):
        return debate(state, settings)
    may_be_wrong = must_be_correct(settings) and all_agreed(state) and not no_round_left(state, settings)
    return "agreement" if undecided(state) or may_be_wrong else go_on(state, settings)


def must_be_correct(settings: MadkeSettings) -> bool:
    """Whether the judge may find an answer wrong that all debaters share."""
    return settings.agreement == "correct_and_consistent"


def go_on(state: DebateState, settings: MadkeSettings) -> Next:
    """Routes to the summariser if all agree, or if the rounds or the budget are used up; else to the next round."""
    over = no_round_left(state, settings) or all_agreed(state)
    return "summarise" if over else debate(state, settings)


# --- the graph ------------------------------------------------------------------------------------------------------

debater = DebateGraph(MadkeSettings, DebaterState, output_schema=StepUpdate)
debater.add_node("select", select_node())
debater.add_node(
    "respond", respond_node("madke/answer", then="madke/revise", more=demonstrations_placeholder(steps=True))
)
debater.add_conditional_edges(START, first_step)
debater.add_edge("select", "respond")
debater.add_edge("respond", END)

builder = Debate("madke", MadkeSettings, pool_needs, check_demonstrations)
builder.add_plan()
builder.add_node("retrieve", retrieve_node(required=True))
builder.add_node("review_evidence", human_review_node("evidence"))
builder.add_node("debater", debater.compile(name="debater"))
builder.add_node("compare_answers", compare_texts_node(finds=None))
builder.add_node("agreement", agreement_node(correct=must_be_correct))
builder.add_node("summarise", summarise_node())
builder.add_conditional_edges(START, fill_pool, ["retrieve", "debater"])
builder.add_edge("retrieve", "review_evidence")
builder.add_round(debate, ["debater"], after="review_evidence")
builder.add_edge("debater", "compare_answers")
builder.add_conditional_edges("compare_answers", consensus, ["debater", "agreement", "summarise"])
builder.add_conditional_edges("agreement", go_on, ["debater", "summarise"])
builder.add_verdict("summarise", on_question="summarise")
graph: CompiledDebate[MadkeSettings | MadkeContext] = builder.compile(name="MADKE")
