"""Scripted debates of n agents. Every answer contains a unique word, so prompts show whose answers were seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from moot.graphs import load_graph

from tests.conftest import StubEndpoint

CLAIM = "The kilogram is no longer defined by a metal cylinder kept in France."
ANSWERS = {"S": "SUPPORTS", "R": "REFUTES", "N": "NOT ENOUGH INFO"}
UNPARSED, DOWN = "-", "x"

Rule = dict[str, Any]


def rule(role: str, match: str = "", times: int | None = None, **reply: Any) -> Rule:
    """A rule for the endpoint (see ``tests/stub_llm.py``) that applies ``times`` times, by default always.

    ``role`` is a pattern for the model's name after ``stub-``, and ``match`` a pattern in the prompt.
    """
    return {"model": f"stub-{role}$", "match": match} | ({"times": times} if times else {}) | reply


def answer_rule(role: str, answer: str, mark: str = "", times: int | None = None, **fields: Any) -> Rule:
    """A rule for a role's answer. Its ``rationale`` contains ``mark``, which identifies the answer in later prompts."""
    fields_of_answer = {
        "answer": ANSWERS.get(answer, answer),
        "rationale": f"Because of {mark}.",
        "citations": [],
        **fields,
    }
    return rule(role, "your `answer`", times, fields=fields_of_answer)


def script(
    *rounds: str | Sequence[str],
    sure: Sequence[Sequence[float]] = (),
    first: int = 1,
    roles: Sequence[str] = (),
    claim: str = "",
) -> list[Rule]:
    """Rules for the agents' answers, round by round. The reasons of agent 2 in round 3 contain the word ``a2r3.``.

    Args:
        rounds: for each round, each agent's answer: a letter of `ANSWERS`, a text, `UNPARSED` or `DOWN`.
        sure: for each round, each agent's confidence; by default 0.5.
        first: the number of the first round.
        roles: the agents' names, by default ``agent-1``, ``agent-2``, ...
        claim: the claim of the debate, if an endpoint serves several debates.
    """
    rules = []
    asked = f"{re.escape(claim)}.*your `answer`"
    for number, given in enumerate(rounds):
        for place, answer in enumerate(given):
            agent = roles[place] if roles else f"agent-{place + 1}"
            if answer == DOWN:
                rules.append(rule(agent, asked, 1, status=500))
            elif answer == UNPARSED:
                rules.append(rule(agent, asked, 2, reply="I would rather not say."))  # twice: the request is repeated
            else:
                confidence = sure[number][place] if sure else 0.5
                rule_of_answer = answer_rule(agent, answer, f"a{place + 1}r{number + first}", 1, confidence=confidence)
                rules.append(rule_of_answer | {"match": asked})
    return rules


Case = TypeVar("Case")


def claims(cases: Iterable[Case]) -> dict[str, Case]:
    """A separate claim for each case, mapped to the case, so that one endpoint can serve the debates of all cases."""
    return {f"Case {i} is proven.": case for i, case in enumerate(cases)}


async def debate(name: str, given: Mapping[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    """Run the graph of this name. Every role has its own model."""
    system = load_graph(name)
    known = system.settings.model_validate({key: settings[key] for key in settings if key in ("agents", "min_agents")})
    models = {role: f"openai:stub-{role}" for role in known.roles()}
    chosen = {"models": models, "embedder": "openai:stub-embedding", "attempts": 1, **settings}
    document: dict[str, Any] = await system.graph.ainvoke(
        given or {"claim": CLAIM}, context=system.settings.model_validate(chosen)
    )
    return document


def prompts(stub: StubEndpoint, role: str, match: str = "your `answer`", claim: str = "") -> list[str]:
    """The prompts of a role that contain ``match`` and ``claim``, without repeated requests."""
    sent = [r["messages"] for r in stub.requests() if r["model"] == f"stub-{role}" and len(r["messages"]) == 2]
    texts = ["\n".join(m["content"] for m in messages) for messages in sent]
    return [text for text in texts if match in text and claim in text]


def final_votes(document: Mapping[str, Any]) -> dict[str, str | None]:
    return {vote["agent"]: vote["answer"] for vote in document["votes"]}


def warning_kinds(document: Mapping[str, Any], but: Iterable[str] = ("unknown_model_size",)) -> list[str]:
    """The kinds of a debate's warnings, in order, without the kinds in ``but``."""
    return [warning["kind"] for warning in document["warnings"] if warning["kind"] not in but]
