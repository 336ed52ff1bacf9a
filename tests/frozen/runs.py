"""The list of the frozen debates: every system on every task, and with each setting that changes its requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.frozen.shelf import SHELF

ENCYCLOPAEDIA, NEWS = "bm25:demo-encyclopaedia", "bm25:demo-news"
CLAIM: dict[str, Any] = {"claim": "The kilogram is defined by a metal cylinder kept in France."}
DATED = {"claim_date": "2020-10-25", "speaker": "Ada"}
GIVEN = {
    "given": [
        {"text": "A cylinder in France was the kilogram until 2019.", "title": "Almanac", "url": "https://a.example/1"},
        {"text": "Since 2019 a constant defines it.", "source": "A leaflet", "published": "2019-05-20"},
    ]
}
OPTIONS = ["Oxygen", "Nihonium", "Argon"]
OWN_LABELS = {"likely": "more reasons speak for it", "unlikely": "more reasons speak against it"}

TASKS: dict[str, dict[str, Any]] = {
    "fever": {**CLAIM, **DATED},
    "averitec": {"claim": "In 2017 a candidate from Ethiopia was elected head of the WHO.", "task": "averitec"},
    "hover": {"claim": "Saffron is made from the roots of a flower.", "task": "hover"},
    "labels": {"claim": "The platypus is a mammal that lays eggs.", "labels": OWN_LABELS},
    "pubmedqa": {"claim": "Does saffron help against colds?", "task": "pubmedqa"},
    "choice": {"claim": "Which element is named after Japan?", "options": OPTIONS},
    "short_answer": {"claim": "Who launched the first rocket with liquid fuel?", "task": "hotpotqa"},
    "number": {"claim": "How many moons do three planets with 14 moons each have?", "task": "gsm8k"},
    "expression": {"claim": "What is the half of one?", "task": "math"},
}
"""An input for each form of an answer, by the task's name in the runs' names."""
OTHER_TASKS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("feverous", "faviq", "scifact", "check_covid", "check_covid_binary"), CLAIM),
    **dict.fromkeys(("healthver", "healthver_binary"), CLAIM),
    **dict.fromkeys(("medqa", "medmcqa", "mmlu", "mmlu_pro", "gpqa", "arc_challenge"), TASKS["choice"]),
    **dict.fromkeys(("triviaqa", "nq_open", "2wikimultihopqa", "squad", "longbench"), TASKS["short_answer"]),
    "gsm_ic": TASKS["number"],
}
"""Inputs of the remaining tasks, which only the controls of one call run."""


@dataclass(frozen=True)
class System:
    """A debate system: its models' roles, its sources, and the settings that make its runs small or differ.

    ``agents`` is the setting that lists its speakers, ``decides`` the role that decides, ``persons`` the moments at
    which a person may be asked. ``runs`` are further settings by the name of their run.
    """

    roles: tuple[str, ...]
    sources: Mapping[str, Any] = field(default_factory=dict)
    shelf: Mapping[str, Any] = field(default_factory=dict)
    small: Mapping[str, Any] = field(default_factory=dict)
    persons: tuple[str, ...] = ()
    retrieval: tuple[str, ...] = ()
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def readers(*sources: Any, **more: Any) -> dict[str, Any]:
    """Tool-MAD's debaters with these sources."""
    names = ("rag", "search", "third", "fourth")
    return {"debaters": [{"name": n, "retriever": s, **more} for n, s in zip(names, sources, strict=False)]}


def agents(count: int) -> tuple[str, ...]:
    return tuple(f"agent-{i}" for i in range(1, count + 1))


def gate(*sources: Any, **debate: Any) -> dict[str, Any]:
    """The gate's readers with these sources, and the debate's settings."""
    three = [{"name": f"reader-{i}", "retriever": source} for i, source in enumerate(sources, 1)]
    return {"agents": three, "debate_settings": {**readers(ENCYCLOPAEDIA, NEWS), **debate}}


POOL = {"sources": [ENCYCLOPAEDIA, NEWS]}
TOOL_MAD = readers(ENCYCLOPAEDIA, NEWS)
ON_SHELF = readers(SHELF, [SHELF, NEWS])
PERSONA = {"persona": "a sceptical physician"}
THREE: dict[str, dict[str, Any]] = {
    "agents_4": {"agents": 4, "models": {}},
    "agents_persona": {"agents": [{**PERSONA, "seed": 3}, {"model": "openai:split-other"}, {}], "models": {}},
    "agents_dead": {"agents": [{"model": "openai:dead-one"}, {}, {}], "models": {}, "attempts": 1},
}
INDEPENDENT: dict[str, dict[str, Any]] = {"independent": {"conformity": "independent"}}
ROUNDS: dict[str, dict[str, Any]] = {"rounds_1": {"max_rounds": 1}, "rounds_4": {"max_rounds": 4}}
MORE_OF_TOOL_MAD: dict[str, dict[str, Any]] = {
    **ROUNDS,
    "debaters_3": readers(ENCYCLOPAEDIA, NEWS, None),
    "debaters_of_one_source": readers(NEWS, [NEWS, ENCYCLOPAEDIA]),
    "keep_evidence": {"keep_evidence": True},
    "own_answer": {"own_answer": True, "query_reason": True},
    "no_query": {"query_formulation": False},
    "debater_dead": {"models": {"rag": "openai:dead-rag"}, "attempts": 1},
    "fallback": {**readers("wikipedia", ENCYCLOPAEDIA, fallback=[NEWS]), "attempts": 1},
    "wikipedia": readers("wikipedia", NEWS),
}
VOTES = System(agents(3), small={}, persons=("remark",), runs={**THREE, **ROUNDS, **INDEPENDENT})

SYSTEMS: dict[str, System] = {
    "tool_mad": System(
        ("rag", "search", "scorer", "judge"),
        TOOL_MAD,
        ON_SHELF,
        persons=("queries", "evidence", "remark", "verdict"),
        retrieval=("once", "later", "none"),
        runs={
            **MORE_OF_TOOL_MAD,
            "preset_fast": {"max_rounds": 2, "k": 2, "scoring": "consensus_only"},
            "preset_thorough": {"max_rounds": 5, "k": 5, "questions": 5, "verified_quotes": True},
            "all_rounds": {"scoring": "all_rounds"},
            "as_given": {"claim_form": "as_given"},
            "as_question": {"claim_form": "question"},
            "thresholds": {"faithfulness_threshold": 0.5, "answer_relevance_threshold": 0.3},
            "thresholds_1": {
                "faithfulness_threshold": 1,
                "answer_relevance_threshold": 0,
                "models": {role: f"openai:agree-{role}" for role in ("rag", "search", "scorer")},
            },
            "thresholds_0": {"faithfulness_threshold": 0, "answer_relevance_threshold": 0},
            "scorer_dead": {"models": {"scorer": "openai:dead-scorer"}, "attempts": 1},
            "judge_dead": {"models": {"judge": "openai:dead-judge"}, "attempts": 1, "max_rounds": 1},
        },
    ),
    "tool_mad_consistency": System(
        ("rag", "search", "scorer", "judge"),
        {**TOOL_MAD, "scoring": "off"},
        {**ON_SHELF, "scoring": "off"},
        persons=("queries", "evidence", "remark", "verdict"),
        retrieval=("once", "later", "none"),
        runs=MORE_OF_TOOL_MAD,
    ),
    "madke": System(
        ("debater-1", "debater-2", "summariser"),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence", "remark", "verdict"),
        retrieval=("none",),
        runs={
            **ROUNDS,
            "debaters_4": {"debaters": 4, "models": {}},
            "persona": {"debaters": [PERSONA, {"seed": 5}]},
            "no_selection": {"selection": False},
            "consistent": {"agreement": "consistent"},
            "titles": {"web_titles": True, "sources": ["wikipedia", SHELF]},
            "sequential": {"sequential_talk": True},
            "paper": {"structured_output": "text", "k": 5, "web_titles": False, "temperature": 0.5},
            "no_titles": {"web_titles": False, "sources": ["wikipedia", SHELF]},
            "fallback": {"sources": ["wikipedia"], "fallback": [NEWS], "attempts": 1},
        },
    ),
    "proclaim": System(
        (
            *("plaintiff", "defense", "court", "critic", "arbiter", "expert", "miner", "negotiator", "retrieval"),
            *("analyser", "judge-1", "judge-2", "judge-3"),
        ),
        POOL,
        {"sources": [SHELF]},
        small={"max_rounds": 2, "switched_rounds": 1, "seed_k": 2, "max_premises": 2},
        persons=("queries", "premises", "evidence", "remark", "verdict"),
        runs={
            "rounds_4": {"max_rounds": 4, "min_rounds": 1},
            "no_switch": {"role_switch": False},
            "no_retrieval": {"progressive_retrieval": False},
            "no_reflection": {"self_reflection": False},
            "one_judge": {"judges": 1, "models": {}},
            "five_judges": {"judges": 5, "models": {}},
            "near_request": {"min_request_similarity": 0.2, "role_switch": False},
            "whole": {"exhibits": "whole", "role_switch": False},
            "admission": {"admitted_above": 0.7, "disputed_above": 0.4, "role_switch": False},
            "novelty": {"novelty_threshold": 0.6, "redundant_share": 0.3, "max_retrievals": 1},
            "plateau": {"plateau": 0.5, "exhaustion": 0.6, "max_rounds": 4, "role_switch": False},
            "relevance_gain": {"relevance_gain": 0.1, "role_switch": False},
            "temperatures": {"temperatures": {"plaintiff": 1.0, "court": None}, "role_switch": False},
            "abstain": {"inconclusive": "abstain"},
            "refutation": {"inconclusive": "burden_of_refutation"},
            "weights": {"consensus_weight": 0.2, "quality_weight": 0.9, "role_switch": False},
            "verdict_labels": {"verdict_labels": {"INCONCLUSIVE": "REFUTES"}},
            "panel_tokens": {"panel_tokens": 1500, "role_switch": False},
            "judge_dead": {"models": {"judge-2": "openai:dead-judge"}, "attempts": 1, "role_switch": False},
        },
    ),
    "standard_mad": System(
        ("debater-1", "debater-2", "judge"),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence", "remark", "verdict"),
        retrieval=("none",),
        runs={**ROUNDS, "debaters_3": {"debaters": 3, "models": {}}, "persona": {"debaters": [PERSONA, {"seed": 5}]}},
    ),
    "standard_prompting": System(("agent-1",), runs={"demonstrations": {"demonstrations": 3}}),
    "chain_of_thought": System(("agent-1",), runs={"demonstrations": {"demonstrations": 3}}),
    "self_consistency": System(("agent-1",), runs={"demonstrations": {"demonstrations": 2}, "samples": {"samples": 9}}),
    "rag": System(
        ("agent-1",),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence",),
        retrieval=("none",),
        runs={"label_rules": {"label_rules": True}},
    ),
    "react": System(
        ("agent-1",),
        POOL,
        {"sources": [SHELF]},
        runs={"calls_1": {"max_tool_calls": 1}, "one_tool": {"sources": [NEWS]}},
    ),
    "cortex_debate": System(
        agents(5),
        persons=("remark",),
        runs={
            **THREE,
            **ROUNDS,
            "sizes": {
                "agents": [{"parameters": 7e9, "tokens": 1e12}, {"parameters": 7e10, "tokens": 1e13}, {}],
                "models": {},
            },
            "full": {"debating_graph": "full", "evaluation": "none"},
            "without_i_and_s": {"evaluation": "mdm_without_i_and_s"},
            "self": {"evaluation": "self"},
            "peer": {"evaluation": "peer"},
            **{f"pruning_{name}": {"pruning": name} for name in ("top-3", "bottom-3-removed", "median")},
            "prompted": {"similarity": "prompt", "max_rounds": 2},
            "no_recalibration": {"recalibration": None},
            **INDEPENDENT,
            "min_agents": {
                "agents": [{"model": "openai:dead-1"}, {}, {}],
                "models": {},
                "min_agents": 3,
                "attempts": 1,
            },
        },
    ),
    "multi_agent_voting": System(agents(3), runs=THREE),
    "society_of_minds": VOTES,
    "tit_for_tat": System(
        ("affirmative", "negative", "moderator", "judge"),
        persons=("remark", "verdict"),
        runs={**ROUNDS, "persona": {"debaters": [PERSONA, {"seed": 5}]}},
    ),
    "reconcile": System(
        agents(3), persons=("remark",), runs={**THREE, **ROUNDS, **INDEPENDENT, "majority": {"voting": "majority"}}
    ),
    "chat_eval": System((*agents(3), "summariser"), persons=("remark",), runs={**THREE, **ROUNDS}),
    "peer_review": System(agents(3), persons=("remark",), runs={**THREE, "rounds_2": {"rounds": 2}}),
    "group_debate": System(
        (*agents(5), "summariser"), persons=("remark",), runs={**THREE, **ROUNDS, "group_3": {"group_size": 3}}
    ),
    "neighbor_debate": System(agents(5), persons=("remark",), runs={**THREE, **ROUNDS}),
    "free_mad": System(
        agents(3),
        persons=("remark",),
        runs={**THREE, **ROUNDS, "weights": {"left_weight": 50, "taken_weight": 0, "kept_weight": 5}},
    ),
    "madam_rag": System(
        (*agents(8), "aggregator"),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence", "remark"),
        retrieval=("none",),
        runs={**ROUNDS, "documents_1": {"max_documents": 1, "models": {}}},
    ),
    "debate_cv": System(
        ("affirmative", "negative", "moderator"),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence", "remark", "verdict"),
        retrieval=("none",),
        runs={**ROUNDS, "no_sources": {"sources": []}, "persona": {"debaters": [PERSONA, {"seed": 5}]}},
    ),
    "gated": System(
        ("reader-1", "reader-2", "reader-3", "rag", "search", "scorer", "judge"),
        gate(ENCYCLOPAEDIA, NEWS, [ENCYCLOPAEDIA, NEWS]),
        gate(SHELF, NEWS, [SHELF, NEWS]),
        small={},
        persons=("queries", "evidence"),
        retrieval=("none",),
        runs={
            "never": {"trigger": "never"},
            "always": {"trigger": "always"},
            "self_critique": {"trigger": "self_critique", "min_verified": 0},
            "min_verified_0": {"min_verified": 0},
            "min_verified_8": {"min_verified": 8},
            "no_query": {"query_formulation": False},
            **{
                f"debate_{name}": {"debate": name, "debate_settings": settings, "trigger": "always", "models": {}}
                for name, settings in {
                    "madke": POOL,
                    "standard_mad": POOL,
                    "proclaim": {**POOL, "max_rounds": 1, "min_rounds": 1, "role_switch": False, "seed_k": 1},
                    "cortex_debate": {"agents": 3},
                    "reconcile": {},
                    "tit_for_tat": {},
                    "society_of_minds": {},
                    "madam_rag": {**POOL, "max_rounds": 1},
                    "debate_cv": {**POOL, "max_rounds": 1},
                    "free_mad": {},
                }.items()
            },
        },
    ),
    "isolate": System(
        ("agent-1",),
        POOL,
        {"sources": [SHELF]},
        persons=("evidence",),
        retrieval=("none",),
        runs={"max_origins": {"max_origins": 2}},
    ),
}
SHARED_BY_ALL = {
    *(f"task/{task}" for task in ("averitec", "hover", "pubmedqa", "number", "expression", *OTHER_TASKS)),
    *(f"mood/{mood}" for mood in ("second", "cut", "filtered", "refuses", "wrapped", "busy", "down", "small")),
    *("mood/agree_choice", "mood/split_short_answer", "text", "json_object", "text_second", "sampling"),
    *("endpoints_sampling", "model_choice", "one_model", "calls_7", "given_short_answer", "context", "message"),
    *("k_1", "datamarking", "shelf_no_limits", "shelf_short", "shelf_dates", "shelf_small", "robustness_calls"),
}
"""The runs whose course is decided by code that all systems share; the tests make them for `OF_EACH_KIND` alone."""
OF_EACH_KIND = ("standard_prompting", "rag", "tool_mad", "society_of_minds")
"""A system of each kind: one call, one call with sources, debaters with sources, agents without."""
MOODS = ("agree", "split", "second", "unusable", "cut", "filtered", "refuses", "wrapped", "busy", "down", "small")
WAITING_LONG = ("tool_mad", "proclaim", "cortex_debate", "gated")
"""Systems without the mood ``busy``, because they would wait for more than ten seconds."""
STREAMED = ("tool_mad", "proclaim", "react", "reconcile")
"""Systems whose events are frozen, too."""


@dataclass(frozen=True)
class Run:
    """One debate: its system, its name, its input and its settings.

    ``replies`` are a person's replies, by moment; None for a debate without a person. ``streamed`` says whether the
    debate's events are recorded.
    """

    system: str
    name: str
    given: Mapping[str, Any]
    settings: Mapping[str, Any]
    replies: Mapping[str, Any] | None = None
    failing_sources: bool = False
    streamed: bool = False


CHANGES: dict[str, Any] = {
    "queries": lambda asked: {"queries": dict.fromkeys(asked["queries"], "saffron flower")},
    "premises": lambda asked: {"premises": ["A cylinder is of metal.", "It is in France."]},
    "evidence": lambda asked: {"strike": [asked["evidence"][0]["id"]], "add": [{"text": "The cylinder was retired."}]},
    "remark": lambda asked: {"remark": "What of the vote of 2018?"},
    "verdict": lambda asked: {"question": "Is it hearsay?"},
}
"""What a person replies at the first review of each moment in the runs ``person_changes``."""


def runs_in_tests_of(name: str) -> list[Run]:
    """The runs of a system that its test makes: all but those that show the same in the systems `OF_EACH_KIND`."""
    return [run for run in runs_of(name) if name in OF_EACH_KIND or run.name not in SHARED_BY_ALL]


def runs_of(name: str) -> Iterator[Run]:
    """All runs of a system."""
    system = SYSTEMS[name]

    def run(kind: str, given: Mapping[str, Any], mood: str = "mixed", **settings: Any) -> Run:
        models = {role: f"openai:{mood}-{role}" for role in system.roles}
        models = {**models, **settings.pop("models")} if settings.get("models") else settings.pop("models", models)
        chosen = {"model": f"openai:{mood}-other", "models": models, "embedder": "openai:vectors"}
        rest = {**system.sources, **system.small, **settings}
        return Run(name, kind, given, {**chosen, **rest}, failing_sources=kind == "fallback")

    for task, given in TASKS.items():
        yield run(f"task/{task}", given)
    if name in ("standard_prompting", "chain_of_thought"):
        for task, given in OTHER_TASKS.items():
            yield run(f"task/{task}", {**given, "task": task})
    for mood in MOODS:
        if mood == "busy" and name in WAITING_LONG:
            continue
        # Both debates of a trial may send the same request at the same time. Then either could get the error.
        same = {"models": {"retrieval": "openai:mixed-retrieval"}} if (name, mood) == ("proclaim", "down") else {}
        yield run(f"mood/{mood}", CLAIM, mood, **same)
    yield run("mood/dead", CLAIM, "dead", attempts=1)
    yield run("mood/agree_choice", TASKS["choice"], "agree")
    yield run("mood/split_short_answer", TASKS["short_answer"], "split")
    for kind, settings in system.runs.items():
        yield run(kind, CLAIM, **settings)
    yield run("text", CLAIM, structured_output="text")
    yield run("json_object", CLAIM, structured_output="json_object")
    yield run("text_second", CLAIM, "second", structured_output="text")
    yield run("sampling", CLAIM, seed=7, temperature=0.7, max_tokens=300)
    yield run("endpoints_sampling", CLAIM, temperature=None)
    model = {"model": "vllm:mixed-vllm", "temperature": 0.1, "max_tokens": 99, "seed": 1}
    yield run("model_choice", CLAIM, models={system.roles[0]: model})
    yield run("one_model", CLAIM, models={})
    yield run("calls_1", CLAIM, "split", max_calls=1)
    yield run("calls_7", CLAIM, "split", max_calls=7)
    yield run("budget", CLAIM, "split", budget=9000, max_tokens=200)
    yield run("given", {**CLAIM, **GIVEN})
    yield run("given_short_answer", {**TASKS["short_answer"], **GIVEN})
    yield run("context", {**CLAIM, **GIVEN}, "uncounted", context_tokens=1400)
    yield run("reader_summary", {**CLAIM, **DATED, **GIVEN}, reader_summary=True)
    yield run("message", {"messages": [{"role": "user", "content": CLAIM["claim"]}]})
    for kind in system.retrieval:
        yield run(f"retrieval_{kind}", {**CLAIM, **GIVEN}, retrieval=kind)
    if system.sources:
        yield from _evidence_runs(run, system)
    if system.persons:
        for kind, replies in (("person_accepts", {}), ("person_changes", CHANGES)):
            plain = run(kind, CLAIM, "split", ask_person=system.persons)
            yield Run(name, kind, CLAIM, plain.settings, replies)
    if name in STREAMED:
        for mood in ("mixed", "second"):
            plain = run(f"streamed_{mood}", CLAIM, mood)
            yield Run(name, plain.name, CLAIM, plain.settings, streamed=True)


def _evidence_runs(run: Any, system: System) -> Iterator[Run]:
    """The runs of a system that searches for evidence."""
    yield run("quotes", CLAIM, verified_quotes=True)
    yield run("k_1", CLAIM, k=1)
    yield run("datamarking", {**CLAIM, **GIVEN}, datamarking=True)
    yield run("shelf", {**CLAIM, **GIVEN}, **system.shelf, k=5)
    yield run("shelf_no_limits", CLAIM, **system.shelf, k=5, max_origin_share=1.0, max_per_host=None)
    yield run("shelf_short", CLAIM, **system.shelf, k=5, max_evidence_tokens=20)
    yield run("shelf_dates", CLAIM, **system.shelf, k=5, published_before="2020-01-01")
    yield run("robustness", CLAIM, **system.shelf, k=5, robustness=True)
    yield run("robustness_calls", CLAIM, **system.shelf, k=5, robustness=True, robustness_calls=2)
    yield run("shelf_small", CLAIM, "small", **system.shelf, k=7)
