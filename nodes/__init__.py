"""The steps of a debate: each as a plain async function on plain values, and as a node for a graph of yours.

Functions take a LangChain chat model (or a `Speaker`); node factories read and write the state keys that their
docstrings name, and take their settings from the run's context or from ``.having(Settings(...))``.
"""

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
from moot.nodes.debate import close_node, open_node, verdict_citations
from moot.nodes.debaters import Debater, DebaterSettings, debater_graph
from moot.nodes.debating_graph import next_round
from moot.nodes.demonstrations import demonstrations
from moot.nodes.judge import judge, judge_node
from moot.nodes.model_sizes import size_of
from moot.nodes.models import ModelChoice, open_chat_model
from moot.nodes.moderate import moderate, moderate_node
from moot.nodes.query import formulate_query, query_node
from moot.nodes.quotes import check_citations, find_quote
from moot.nodes.respond import respond, respond_node
from moot.nodes.retrieve import find_keywords, retrieve, retrieve_node, summarise
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
from moot.nodes.settings import EvidenceSettings, Settings, SourcesSettings
from moot.nodes.single import SingleAgentSettings, SingleReaderSettings
from moot.nodes.speaker import Ledger, Speaker
from moot.nodes.speakers import Agent, hand_over, new_turn
from moot.nodes.state import ClaimInput, DebateState, Task, VerdictOutput
from moot.nodes.summarise import agreement_node, all_agree, sum_up, sum_up_round, summarise_node, summary_node
from moot.nodes.talk import PoolDebateSettings, talk, to_pool
from moot.nodes.task import make_task
from moot.nodes.vote import conclude_node, confidence_weight, majority, vote_node
from moot.nodes.weigh import WeighingSettings, weigh_node

__all__ = [
    "Agent",
    "Agents",
    "AgentsSettings",
    "ClaimInput",
    "DebateGraph",
    "DebateState",
    "Debater",
    "DebaterSettings",
    "EvidenceSettings",
    "Ledger",
    "ModelChoice",
    "Node",
    "PoolDebateSettings",
    "RoundsSettings",
    "Run",
    "Selection",
    "Settings",
    "SingleAgentSettings",
    "SingleReaderSettings",
    "SourcesSettings",
    "Speaker",
    "Task",
    "VerdictOutput",
    "WeighingSettings",
    "agent_node",
    "agree_node",
    "agreed_answer",
    "agreement_node",
    "all_agree",
    "answer_relevance",
    "answer_relevance_node",
    "answer_relevance_score",
    "average_scores",
    "average_scores_node",
    "check_citations",
    "close_node",
    "compare_node",
    "conclude_node",
    "confidence_weight",
    "consistency_node",
    "debater_graph",
    "demonstrations",
    "everyone",
    "faithfulness",
    "faithfulness_node",
    "faithfulness_score",
    "find_keywords",
    "find_quote",
    "formulate_query",
    "group_answers",
    "groups_of",
    "hand_over",
    "judge",
    "judge_node",
    "majority",
    "make_task",
    "moderate",
    "moderate_node",
    "neighbours",
    "new_turn",
    "next_round",
    "open_chat_model",
    "open_node",
    "query_node",
    "read_answer",
    "respond",
    "respond_node",
    "retrieve",
    "retrieve_node",
    "review",
    "review_node",
    "rounds",
    "same_answer",
    "same_meaning",
    "score_answer",
    "select_evidence",
    "select_node",
    "similarity_node",
    "size_of",
    "sum_up",
    "sum_up_round",
    "summarise",
    "summarise_node",
    "summary_node",
    "talk",
    "to_agents",
    "to_pool",
    "valid_numbers",
    "verdict_citations",
    "vote_node",
    "weigh_node",
]
