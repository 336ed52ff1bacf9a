"""The steps of a debate: each as a plain async function on plain values, and as a node for a graph of yours.

Functions take a LangChain chat model (or a `Speaker`); node factories read and write the state keys that their
docstrings name, and take their settings from the run's context or from ``.having(Settings(...))``.
"""

from moot.nodes.admissibility import admissibility, ruling
from moot.nodes.agents import (
    Agents,
    AgentsSettings,
    RoundsSettings,
    agent_node,
    everyone,
    groups_of,
    neighbours,
    rounds,
    to_agents,
)
from moot.nodes.agree import (
    agree_node,
    agreed_answer,
    average_scores,
    average_scores_node,
    compare_node,
    group_answers,
    same_meaning,
)
from moot.nodes.answers import read_answer, same_answer
from moot.nodes.budget import BudgetSettings
from moot.nodes.confidence import base_confidence, final_confidence, panel_verdict
from moot.nodes.courtroom import TrialSettings, close_round_node
from moot.nodes.critique import close_or_go_on, court_node, critique, critique_node, reflect, reflect_node
from moot.nodes.debate import close_node, open_node
from moot.nodes.debaters import Debater, DebaterSettings, debater_graph
from moot.nodes.debating_graph import next_round
from moot.nodes.demonstrations import demonstrations
from moot.nodes.discovery import (
    admit_node,
    discovery_query_node,
    gap_node,
    query_for,
    refine_node,
    refine_query,
    state_gap,
)
from moot.nodes.given import GivenText, check_given
from moot.nodes.hearing import (
    argue,
    argue_node,
    give_testimony,
    request_expert,
    request_expert_node,
    rule_on_expert,
    rule_on_expert_node,
    testify_node,
)
from moot.nodes.judge import judge, judge_node
from moot.nodes.model_sizes import size_of
from moot.nodes.models import ModelChoice, open_chat_model
from moot.nodes.moderate import moderate, moderate_node
from moot.nodes.negotiation import (
    challenge,
    challenge_node,
    disclose_node,
    mine_premises,
    premises_node,
    rule_node,
    stance_queries,
    stance_queries_node,
    weigh_evidence,
    weigh_exhibit_node,
)
from moot.nodes.novelty import novelty, redundant_share, retrieval_end
from moot.nodes.panel import (
    analyse_consistency,
    analyse_node,
    compile_record_node,
    decide_node,
    judge_record,
    judge_record_node,
    verdict_labels,
)
from moot.nodes.prices import cost_of, read_prices
from moot.nodes.query import formulate_query, query_node
from moot.nodes.quotes import check_citations, find_quote
from moot.nodes.respond import respond, respond_node
from moot.nodes.retrieve import find_keywords, retrieve, retrieve_node, summarise_evidence
from moot.nodes.review import review, review_node, score_answer
from moot.nodes.run import DebateGraph, Node, Run
from moot.nodes.score import (
    answer_relevance,
    answer_relevance_node,
    answer_relevance_score,
    consistency_node,
    faithfulness,
    faithfulness_node,
    faithfulness_score,
    similarity_node,
)
from moot.nodes.select import Selection, select_evidence, select_node, valid_numbers
from moot.nodes.settings import EvidenceSettings, PoolSettings, Settings, SourcesSettings
from moot.nodes.single import SingleAgentSettings, SingleReaderSettings
from moot.nodes.speaker import Ledger, Speaker
from moot.nodes.speakers import Agent, hand_over, new_turn
from moot.nodes.state import ClaimInput, DebateState, Task, VerdictOutput
from moot.nodes.stopping import reflection_score, why_stop
from moot.nodes.summarise import agreement_node, all_agree, sum_up, sum_up_round, summarise_node, summary_node
from moot.nodes.talk import PoolDebateSettings, talk, to_pool
from moot.nodes.task import make_task
from moot.nodes.trial_phases import discovery_graph, expert_graph, negotiation_graph, panel_graph
from moot.nodes.verdict import verdict_citations
from moot.nodes.vote import conclude_node, confidence_weight, majority, vote_node
from moot.nodes.weigh import WeighingSettings, weigh_node

__all__ = [
    "Agent",
    "Agents",
    "AgentsSettings",
    "BudgetSettings",
    "ClaimInput",
    "DebateGraph",
    "DebateState",
    "Debater",
    "DebaterSettings",
    "EvidenceSettings",
    "GivenText",
    "Ledger",
    "ModelChoice",
    "Node",
    "PoolDebateSettings",
    "PoolSettings",
    "RoundsSettings",
    "Run",
    "Selection",
    "Settings",
    "SingleAgentSettings",
    "SingleReaderSettings",
    "SourcesSettings",
    "Speaker",
    "Task",
    "TrialSettings",
    "VerdictOutput",
    "WeighingSettings",
    "admissibility",
    "admit_node",
    "agent_node",
    "agree_node",
    "agreed_answer",
    "agreement_node",
    "all_agree",
    "analyse_consistency",
    "analyse_node",
    "answer_relevance",
    "answer_relevance_node",
    "answer_relevance_score",
    "argue",
    "argue_node",
    "average_scores",
    "average_scores_node",
    "base_confidence",
    "challenge",
    "challenge_node",
    "check_citations",
    "check_given",
    "close_node",
    "close_or_go_on",
    "close_round_node",
    "compare_node",
    "compile_record_node",
    "conclude_node",
    "confidence_weight",
    "consistency_node",
    "cost_of",
    "court_node",
    "critique",
    "critique_node",
    "debater_graph",
    "decide_node",
    "demonstrations",
    "disclose_node",
    "discovery_graph",
    "discovery_query_node",
    "everyone",
    "expert_graph",
    "faithfulness",
    "faithfulness_node",
    "faithfulness_score",
    "final_confidence",
    "find_keywords",
    "find_quote",
    "formulate_query",
    "gap_node",
    "give_testimony",
    "group_answers",
    "groups_of",
    "hand_over",
    "judge",
    "judge_node",
    "judge_record",
    "judge_record_node",
    "majority",
    "make_task",
    "mine_premises",
    "moderate",
    "moderate_node",
    "negotiation_graph",
    "neighbours",
    "new_turn",
    "next_round",
    "novelty",
    "open_chat_model",
    "open_node",
    "panel_graph",
    "panel_verdict",
    "premises_node",
    "query_for",
    "query_node",
    "read_answer",
    "read_prices",
    "redundant_share",
    "refine_node",
    "refine_query",
    "reflect",
    "reflect_node",
    "reflection_score",
    "request_expert",
    "request_expert_node",
    "respond",
    "respond_node",
    "retrieval_end",
    "retrieve",
    "retrieve_node",
    "review",
    "review_node",
    "rounds",
    "rule_node",
    "rule_on_expert",
    "rule_on_expert_node",
    "ruling",
    "same_answer",
    "same_meaning",
    "score_answer",
    "select_evidence",
    "select_node",
    "similarity_node",
    "size_of",
    "stance_queries",
    "stance_queries_node",
    "state_gap",
    "sum_up",
    "sum_up_round",
    "summarise_evidence",
    "summarise_node",
    "summary_node",
    "talk",
    "testify_node",
    "to_agents",
    "to_pool",
    "valid_numbers",
    "verdict_citations",
    "verdict_labels",
    "vote_node",
    "weigh_evidence",
    "weigh_exhibit_node",
    "weigh_node",
    "why_stop",
]
