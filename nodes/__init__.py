"""The steps of a debate: each as a plain async function on plain values, and as a node for a graph of yours.

Functions take a LangChain chat model (or a `Speaker`); node factories read and write the state keys that their
docstrings name, and take their settings from the run's context or from ``.having(Settings(...))``.
"""

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
from moot.nodes.judge import judge, judge_node
from moot.nodes.models import ModelChoice, open_chat_model
from moot.nodes.query import formulate_query, query_node
from moot.nodes.quotes import check_citations, find_quote
from moot.nodes.respond import respond, respond_node
from moot.nodes.retrieve import find_keywords, retrieve, retrieve_node, summarise
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
from moot.nodes.settings import EvidenceSettings, Settings
from moot.nodes.speaker import Ledger, Speaker
from moot.nodes.state import ClaimInput, DebateState, Task, VerdictOutput
from moot.nodes.task import make_task

__all__ = [
    "ClaimInput",
    "DebateGraph",
    "DebateState",
    "Debater",
    "DebaterSettings",
    "EvidenceSettings",
    "Ledger",
    "ModelChoice",
    "Node",
    "Run",
    "Settings",
    "Speaker",
    "Task",
    "VerdictOutput",
    "agree_node",
    "agreed_answer",
    "answer_relevance",
    "answer_relevance_node",
    "answer_relevance_score",
    "average_scores",
    "average_scores_node",
    "check_citations",
    "close_node",
    "compare_node",
    "consistency_node",
    "debater_graph",
    "faithfulness",
    "faithfulness_node",
    "faithfulness_score",
    "find_keywords",
    "find_quote",
    "formulate_query",
    "group_answers",
    "judge",
    "judge_node",
    "make_task",
    "open_chat_model",
    "open_node",
    "query_node",
    "read_answer",
    "respond",
    "respond_node",
    "retrieve",
    "retrieve_node",
    "same_answer",
    "same_meaning",
    "similarity_node",
    "summarise",
    "verdict_citations",
]
