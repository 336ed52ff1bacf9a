"""Gives a request its sampling seeds."""

from __future__ import annotations

from dataclasses import replace

from langchain_core.messages import AIMessage
from langchain_core.runnables.config import var_child_runnable_config
from moot.nodes._models.call.request import Asker, Request, Way
from moot.nodes._models.parallel import branch
from moot.nodes._models.seeds import CallSeeds


def seeding(below: Way, speaker: Asker) -> Way:
    """A layer: seeds that depend on the question, its place in the debate, and how often it was asked before."""

    async def seed(request: Request) -> AIMessage:
        assert speaker.seed is not None
        record, (agent, sample) = speaker.record, speaker.sample
        question = (speaker.role, record.round, sample, agent, record.node, record.phase, record.number)
        seeds = CallSeeds(speaker.seed, question, request.messages)
        asker = (seeds.first_seed, branch.get()[1::2])
        repeated, record.times_made[asker] = record.times_made[asker], record.times_made[asker] + 1
        run = (var_child_runnable_config.get() or {}).get("metadata") or {}
        # With a store, equal calls of one superstep share a reply, and so they share the seed.
        shared = speaker.session.replies is not None
        where = (run.get("langgraph_step"),) if shared else (run.get("langgraph_checkpoint_ns"), record.agent, asker)
        earlier = speaker.session.count_earlier_places(seeds.first_seed, (*question, *where, repeated))
        return await below(replace(request, seeds=replace(seeds, earlier=earlier) if earlier else seeds))

    return seed
