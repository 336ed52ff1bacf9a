"""The steps of a debate: each as a plain async function on plain values, and as a node for a graph of yours.

Functions take a LangChain chat model (or a `Speaker`); node factories read and write the state keys that their
docstrings name, and take their settings from the run's context or from ``.having(Settings(...))``.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from moot.nodes.cortex.debating_graph import History, Round, first_history, next_round
from moot.nodes.cortex.weigh import WeighingSettings, weigh_node
from moot.nodes.models.chat_models import ChatModel, ModelChoice, open_chat_model
from moot.nodes.models.fake import FakeChatModel
from moot.nodes.models.keeping import LedgerUse, ledger_use
from moot.nodes.models.ledger import Ledger
from moot.nodes.models.prices import Price, cost_of, read_prices
from moot.nodes.models.sizes import Size, size_of
from moot.nodes.models.speaker import Speaker
from moot.nodes.records.entries import Call, CourtDebate, Reading, StopReason, Task, Turn, Vote, Warned
from moot.nodes.records.reducers import merge_turns
from moot.nodes.runtime.budget import no_round_left, rounds_or_budget
from moot.nodes.runtime.graph import DebateGraph, graph_node
from moot.nodes.runtime.node import Node, Run, settings_of
from moot.nodes.runtime.opening import Needs, close_node, open_node
from moot.nodes.runtime.settings import EvidenceSettings, PoolSettings, Settings, SourcesSettings
from moot.nodes.runtime.state import (
    ClaimInput,
    DebaterState,
    DebateState,
    ScoreState,
    StepUpdate,
    TrialInput,
    TrialState,
    TrialUpdate,
    VerdictOutput,
)
from moot.nodes.runtime.system import Debate
from moot.nodes.runtime.tracing import guard_traces
from moot.nodes.runtime.turns import Citation
from moot.nodes.speakers.agents import (
    Agents,
    AgentsSettings,
    RoundsSettings,
    agent_node,
    agents_needs,
    everyone,
    gather_node,
    groups_of,
    last_round,
    neighbours,
    nobody,
    rounds,
    same_group,
    so_many,
    to_agents,
)
from moot.nodes.speakers.debaters import (
    Debater,
    DebaterSettings,
    debater_graph,
    needs_of,
    rests_on_evidence,
    to_debaters,
    unscored_answers,
)
from moot.nodes.speakers.hand_over import Agent, hand_over, needs_for, new_turn
from moot.nodes.speakers.pool import PoolDebateSettings, pool_needs, round_is_over, talk, to_pool
from moot.nodes.speakers.single import SingleAgentSettings, SingleReaderSettings, single_needs, to_agent
from moot.nodes.steps.compare import (
    Comparison,
    agree_node,
    agreed_answer,
    answers_of,
    average_scores,
    average_scores_node,
    compare_node,
    group_answers,
    same_meaning,
)
from moot.nodes.steps.judge import judge, judge_node
from moot.nodes.steps.moderate import moderate, moderate_node
from moot.nodes.steps.person import person_node, question_or, remark_first
from moot.nodes.steps.query import formulate_query, query_node
from moot.nodes.steps.reader import checked_quotes, keep_what_rests_node, read_debate_node, summarise_debate
from moot.nodes.steps.respond import respond, respond_node
from moot.nodes.steps.retrieve import find_keywords, retrieve, retrieve_node, summarise_evidence
from moot.nodes.steps.review import review, review_node, reviews_of, score_answer, to_reviewers
from moot.nodes.steps.score import (
    AnswerRelevance,
    Faithfulness,
    answer_relevance,
    answer_relevance_node,
    answer_relevance_score,
    consistency_node,
    faithfulness,
    faithfulness_node,
    faithfulness_score,
    passes,
    similarity_node,
)
from moot.nodes.steps.select import Selection, select_evidence, select_node, valid_numbers
from moot.nodes.steps.summarise import (
    agreed_in,
    agreement_node,
    all_agree,
    sum_up,
    sum_up_round,
    summaries_of,
    summarise_node,
    summary_node,
    to_summariser,
)
from moot.nodes.steps.vote import conclude_node, confidence_weight, consensus_or_rounds, majority, vote_node
from moot.nodes.texts.answers import read_answer, same_answer
from moot.nodes.texts.demonstrations import demonstrations
from moot.nodes.texts.given import GivenText, check_given
from moot.nodes.texts.quotes import check_citations, find_quote
from moot.nodes.texts.replies import (
    AgreeReply,
    AnswerReply,
    FinalReply,
    ModeratorReply,
    QueryReply,
    ReviewReply,
    ScoreReply,
)
from moot.nodes.texts.task import make_task
from moot.nodes.texts.verdict import verdict_citations
from moot.nodes.trial.admissibility import admissibility, ruling
from moot.nodes.trial.confidence import PanelVerdict, Verdict, base_confidence, final_confidence, panel_verdict
from moot.nodes.trial.courtroom import (
    TrialSettings,
    close_round_node,
    to_argument,
    to_debates,
    to_experts,
    to_reflection,
    trial_needs,
)
from moot.nodes.trial.critique import close_or_go_on, court_node, critique, critique_node, reflect, reflect_node
from moot.nodes.trial.discovery import (
    admit_node,
    discovery_query_node,
    gap_node,
    query_for,
    refine_node,
    refine_query,
    state_gap,
    still_searching,
    to_discovery,
)
from moot.nodes.trial.hearing import (
    argue,
    argue_node,
    give_testimony,
    request_expert,
    request_expert_node,
    rule_on_expert,
    rule_on_expert_node,
    testify_node,
)
from moot.nodes.trial.negotiation import (
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
from moot.nodes.trial.novelty import RetrievalEnd, novelty, redundant_share, retrieval_end
from moot.nodes.trial.panel import (
    analyse_consistency,
    analyse_node,
    compile_record_node,
    decide_node,
    fits,
    judge_record,
    judge_record_node,
    to_judges,
    verdict_labels,
)
from moot.nodes.trial.replies import (
    AdmissibilityReply,
    ArgumentReply,
    ChallengesReply,
    ClosingReply,
    ConsistencyReply,
    CritiqueReply,
    ExpertRequestReply,
    ExpertRulingReply,
    GapReply,
    JudgementReply,
    PremisesReply,
    ReflectionReply,
    StanceQueriesReply,
    TestimonyReply,
)
from moot.nodes.trial.stopping import reflection_score, why_stop

__all__ = [
    "AdmissibilityReply",
    "Agent",
    "Agents",
    "AgentsSettings",
    "AgreeReply",
    "AnswerRelevance",
    "AnswerReply",
    "ArgumentReply",
    "Call",
    "ChallengesReply",
    "ChatModel",
    "Citation",
    "ClaimInput",
    "ClosingReply",
    "Comparison",
    "ConsistencyReply",
    "CourtDebate",
    "CritiqueReply",
    "Debate",
    "DebateGraph",
    "DebateState",
    "Debater",
    "DebaterSettings",
    "DebaterState",
    "EvidenceSettings",
    "ExpertRequestReply",
    "ExpertRulingReply",
    "Faithfulness",
    "FakeChatModel",
    "FinalReply",
    "GapReply",
    "GivenText",
    "History",
    "JudgementReply",
    "Ledger",
    "LedgerUse",
    "ModelChoice",
    "ModeratorReply",
    "Needs",
    "Node",
    "PanelVerdict",
    "PoolDebateSettings",
    "PoolSettings",
    "PremisesReply",
    "Price",
    "QueryReply",
    "Reading",
    "ReflectionReply",
    "RetrievalEnd",
    "ReviewReply",
    "Round",
    "RoundsSettings",
    "Run",
    "ScoreReply",
    "ScoreState",
    "Selection",
    "Settings",
    "SingleAgentSettings",
    "SingleReaderSettings",
    "Size",
    "SourcesSettings",
    "Speaker",
    "StanceQueriesReply",
    "StepUpdate",
    "StopReason",
    "Task",
    "TestimonyReply",
    "TrialInput",
    "TrialSettings",
    "TrialState",
    "TrialUpdate",
    "Turn",
    "Verdict",
    "VerdictOutput",
    "Vote",
    "Warned",
    "WeighingSettings",
    "admissibility",
    "admit_node",
    "agent_node",
    "agents_needs",
    "agree_node",
    "agreed_answer",
    "agreed_in",
    "agreement_node",
    "all_agree",
    "analyse_consistency",
    "analyse_node",
    "answer_relevance",
    "answer_relevance_node",
    "answer_relevance_score",
    "answers_of",
    "argue",
    "argue_node",
    "average_scores",
    "average_scores_node",
    "base_confidence",
    "challenge",
    "challenge_node",
    "check_citations",
    "check_given",
    "checked_quotes",
    "close_node",
    "close_or_go_on",
    "close_round_node",
    "compare_node",
    "compile_record_node",
    "conclude_node",
    "confidence_weight",
    "consensus_or_rounds",
    "consistency_node",
    "cost_of",
    "court_node",
    "critique",
    "critique_node",
    "debater_graph",
    "decide_node",
    "demonstrations",
    "disclose_node",
    "discovery_query_node",
    "everyone",
    "faithfulness",
    "faithfulness_node",
    "faithfulness_score",
    "final_confidence",
    "find_keywords",
    "find_quote",
    "first_history",
    "fits",
    "formulate_query",
    "gap_node",
    "gather_node",
    "give_testimony",
    "graph_node",
    "group_answers",
    "groups_of",
    "guard_traces",
    "hand_over",
    "judge",
    "judge_node",
    "judge_record",
    "judge_record_node",
    "keep_what_rests_node",
    "last_round",
    "ledger_use",
    "majority",
    "make_task",
    "merge_turns",
    "mine_premises",
    "moderate",
    "moderate_node",
    "needs_for",
    "needs_of",
    "neighbours",
    "new_turn",
    "next_round",
    "no_round_left",
    "nobody",
    "novelty",
    "open_chat_model",
    "open_node",
    "panel_verdict",
    "passes",
    "person_node",
    "pool_needs",
    "premises_node",
    "query_for",
    "query_node",
    "question_or",
    "read_answer",
    "read_debate_node",
    "read_prices",
    "redundant_share",
    "refine_node",
    "refine_query",
    "reflect",
    "reflect_node",
    "reflection_score",
    "remark_first",
    "request_expert",
    "request_expert_node",
    "respond",
    "respond_node",
    "rests_on_evidence",
    "retrieval_end",
    "retrieve",
    "retrieve_node",
    "review",
    "review_node",
    "reviews_of",
    "round_is_over",
    "rounds",
    "rounds_or_budget",
    "rule_node",
    "rule_on_expert",
    "rule_on_expert_node",
    "ruling",
    "same_answer",
    "same_group",
    "same_meaning",
    "score_answer",
    "select_evidence",
    "select_node",
    "settings_of",
    "similarity_node",
    "single_needs",
    "size_of",
    "so_many",
    "stance_queries",
    "stance_queries_node",
    "state_gap",
    "still_searching",
    "sum_up",
    "sum_up_round",
    "summaries_of",
    "summarise_debate",
    "summarise_evidence",
    "summarise_node",
    "summary_node",
    "talk",
    "testify_node",
    "to_agent",
    "to_agents",
    "to_argument",
    "to_debaters",
    "to_debates",
    "to_discovery",
    "to_experts",
    "to_judges",
    "to_pool",
    "to_reflection",
    "to_reviewers",
    "to_summariser",
    "trial_needs",
    "unscored_answers",
    "valid_numbers",
    "verdict_citations",
    "verdict_labels",
    "vote_node",
    "weigh_evidence",
    "weigh_exhibit_node",
    "weigh_node",
    "why_stop",
]

MOVED = {"discovery_graph", "expert_graph", "negotiation_graph", "panel_graph"}
"""Names that moot.graphs holds now; they can still be imported from here, with a warning."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in MOVED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        warnings.warn(f"import {name} from moot.graphs, not from moot.nodes", DeprecationWarning, stacklevel=2)
        return getattr(import_module("moot.graphs"), name)
