"""The node that weighs the edges between agents after a round, and the settings of such debates (CortexDebate)."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from moot.core.errors import BudgetExhausted
from moot.nodes._cortex.debating_graph import (
    THRESHOLDS,
    Evaluation,
    Graph,
    Pruning,
    credibilities,
    first_history,
    next_round,
    peer_means,
)
from moot.nodes._cortex.measures import collisions, debates
from moot.nodes._cortex.similarity import (
    PROMPT,
    ROLE,
    Similarity,
    similarities,
    similarities_by_cross_encoder,
    similarities_by_model,
)
from moot.nodes._models.sizes import size_of
from moot.nodes._records.entries import Turn
from moot.nodes._runtime.ceilings import in_time
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._runtime.opening import Needs
from moot.nodes._runtime.state import DebateState
from moot.nodes._speakers.agents import RoundsSettings, active_agents, agents_needs, last_round
from moot.retrievers._cross_encoders import open_cross_encoder
from pydantic import Field, field_validator


class WeighingSettings(RoundsSettings):
    """Settings of debates in which a trust formula selects the agents that each agent hears."""

    debating_graph: Graph = Field(
        default="sparse", description="full: every agent hears all others; sparse: edges are pruned."
    )
    evaluation: Evaluation = Field(
        default="mdm",
        description="The formula of an edge's weight. mdm: credibility x reliability x intimacy / "
        "(self-orientation + 1); mdm_without_i_and_s: credibility x reliability; self: the confidence; peer: the mean "
        "of the other agents' scores; none: every weight is 1, and a sparse graph is drawn at random.",
    )
    pruning: Pruning = Field(
        default="average",
        description="The edges into an agent that a sparse graph keeps if evaluation is mdm or mdm_without_i_and_s. "
        "average: edges with at least the mean weight; median: edges with at least the median weight; top-3: the three "
        "edges with the highest weights; bottom-3-removed: all but the three edges with the lowest weights.",
    )
    similarity: Similarity = Field(
        default="embedder",
        description="How two outputs are compared, if evaluation is mdm. embedder: by the cosine of their vectors from "
        "the encoder `embedder`; cross_encoder: by the encoder `cross_encoder`; prompt: by the model of the role "
        "similarity, in one call for each pair.",
    )
    cross_encoder: str = Field(
        default="cross-encoder/stsb-roberta-base",
        min_length=1,
        max_length=300,
        description="Cross-encoder that compares outputs: a sentence-transformers CrossEncoder by name or folder, "
        "loaded when it is first needed.",
    )
    recalibration: tuple[float, float, float] | None = Field(
        default=THRESHOLDS, description="Thresholds for recalibrating confidences, ascending; null: no recalibration."
    )
    seed: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="Sampling seed, if the endpoint accepts one; each call's own seed is derived from it. It "
        "is also the seed of a sparse graph drawn at random, if evaluation is none; there, null counts as 0.",
    )

    @property
    def compared_by(self) -> Similarity | None:
        """How outputs are compared (the setting `similarity`); None if no weight depends on their similarity."""
        return self.similarity if self.evaluation == "mdm" else None

    def roles(self) -> set[str]:
        return super().roles() | {ROLE}

    @field_validator("recalibration")
    @classmethod
    def _check_ascending(cls, given: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
        if given is not None and not 0 <= given[0] <= given[1] <= given[2] <= 1:
            raise ValueError("expected three thresholds from 0 to 1, ascending, e.g. [0.3, 0.6, 0.8]")
        return given


def weighing_needs(settings: WeighingSettings) -> Needs:
    """The resources that a debate with these settings needs.

    Args:
        settings: the debate's settings.
    """
    compared_by = settings.compared_by
    roles = dict(agents_needs(settings).roles) | (dict.fromkeys([ROLE]) if compared_by == "prompt" else {})
    return Needs(roles=roles, encoder=compared_by == "embedder")


async def compare_outputs(state: DebateState, answers: Sequence[Turn], run: NodeContext) -> dict[str, float]:
    """The similarity of the outputs of every two agents, by `pair`; {} if no weight needs it, or time is used up."""
    settings: WeighingSettings = run.settings
    if settings.compared_by == "embedder":
        return await _compare_in_time(similarities(answers, await run.encoder()), "text encoder")
    if settings.compared_by == "cross_encoder":
        return await _compare_in_time(_load_and_compare(answers, settings.cross_encoder), "cross-encoder")
    return await similarities_by_model(state["claim"], state["task"], answers, run) if settings.compared_by else {}


async def _load_and_compare(answers: Sequence[Turn], cross_encoder: str) -> dict[str, float]:
    return await similarities_by_cross_encoder(answers, await open_cross_encoder(cross_encoder))


async def _compare_in_time(comparison: Awaitable[dict[str, float]], name: str) -> dict[str, float]:
    """The similarities; {} if `max_seconds` ends the comparison: then the debate warns, and calls no agent again."""
    try:
        return await in_time(comparison, name)
    except BudgetExhausted:
        return {}


def agent_credibilities(settings: WeighingSettings, names: Sequence[str], run: NodeContext) -> dict[str, float]:
    """The credibility of the agents in ``names``, with a warning if a size that the weights need is unknown."""
    sizes: dict[str, tuple[float, float] | None] = {}
    for agent in settings.agents:
        known = size_of(choose_model(settings, agent.name, agent.model).model)
        parameters = agent.parameters or (known and known.parameters)
        tokens = agent.tokens or (known and known.tokens)
        sizes[agent.name] = (parameters, tokens) if parameters and tokens else None
    found, unknown = credibilities({name: sizes[name] for name in names})
    if unknown and settings.evaluation in ("mdm", "mdm_without_i_and_s"):
        run.record.warn(
            "unknown_model_size",
            f"The parameters or training tokens of {', '.join(unknown)} are not known, so all agents count as equally "
            "credible. Set `parameters` and `tokens` of these agents.",
        )
    return found


def weigh_node() -> Node:
    """Adds the debating graph of the next round to the state: the weights, their factors, and the kept edges.

    Reads: claim, task, turns, rounds, graphs. Outputs are compared only if the weights depend on their similarity.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        settings: WeighingSettings = run.settings
        last = last_round(state, settings)
        names = [agent.name for agent in active_agents(state, settings)]
        d = len(state["graphs"]) + 1
        before: Any = state["graphs"][-1] if state["graphs"] else None
        raw = {name: last[name].get("confidence") for name in names}
        similar = await compare_outputs(state, list(last.values()), run)
        credible = before["credibility"] if before else agent_credibilities(settings, names, run)
        following = next_round(
            before or first_history(),
            d,
            raw,
            similar,
            credible,
            settings.pruning,
            graph=settings.debating_graph,
            evaluation=settings.evaluation,
            thresholds=settings.recalibration,
            peer_scores=peer_means(scores_of(state, names)) if settings.evaluation == "peer" else None,
            seed=settings.seed or 0,
            n=len(settings.agents),
        )
        entry = {
            "round": d,
            "confidence": raw,
            **following.history,
            "credibility": credible,
            "weights": following.weights,
            "kept": following.kept,
        }
        return {"graphs": [*state["graphs"], entry]}

    return Node(step, prompts=(PROMPT,))


def scores_of(state: DebateState, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """The scores of the agents' last answers, by scoring agent, then by scored agent; None if a call gave none."""
    given: dict[str, dict[str, float | None]] = {name: {} for name in names}
    for turn in state["turns"]:
        if turn["step"] == "score" and turn["round"] == state["rounds"] and turn["agent"] in given:
            given[turn["agent"]][turn["reviewed"]] = turn.get("score")
    return given


def graph_report(state: DebateState) -> dict[str, Any]:
    """Entries for ``metrics``: how often each agent was heard, and how many kept edges joined different answers.

    These are the numbers of CortexDebate's tables 3 and 4.

    Args:
        state: the debate's state.
    """
    return {"debates": debates(state), "viewpoint_collisions": len(collisions(state))}
