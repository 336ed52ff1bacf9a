"""The settings of each graph as a TypedDict: with it, type checkers and editors know the keys of a context.

``context={"modle": ...}`` is then an error before the program runs. The keys mean what the fields of the classes mean:
`ToolMadContext` has those of `ToolMadSettings`, and a key for each prompt. For a debate of yours, name the context as
moot's graphs do: ``graph: CompiledDebate[RoundsSettings | RoundsSettingsDict] = builder.compile()``. This file is
generated from the classes, by ``make docs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, Required

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from moot.nodes import Agent, Debater, ModelChoice
from typing_extensions import TypedDict


class ModelChoiceDict(TypedDict, total=False):
    """The keys of a `ModelChoice`."""

    model: Required[str | BaseChatModel]
    """provider:name, e.g. openai:gpt-4o-mini."""

    temperature: float | None
    """Sampling temperature."""

    max_tokens: int | None
    """Maximum number of tokens in a reply."""

    context_tokens: int | None
    """Maximum number of tokens in a prompt and its reply (the context)."""

    structured_output: Literal["json_schema", "json_object", "text"] | None
    """How structured output is requested."""

    seed: int | None
    """Sampling seed, if the endpoint accepts one; each call's own seed is derived from it."""


class SettingsDict(TypedDict, total=False):
    """The keys of `Settings`."""

    preset: Literal["paper", "practical"]
    """The defaults of those settings that depend on it. paper: as the system's source; practical: as moot
    recommends for checks, with which the commands and the page begin.
    """

    model: str | BaseChatModel | None
    """Model of all roles that have none of their own, as provider:name (openai, ollama, vllm, anthropic,
    google_genai, embedded, fake ...). Null: the model of the environment variable MOOT_MODEL; without it, each role
    needs a model of its own.
    """

    models: Mapping[str, str | BaseChatModel | ModelChoice | ModelChoiceDict]
    """Models of single roles: for each role provider:name, or an object with model, temperature, max_tokens,
    context_tokens, structured_output, seed.
    """

    temperature: float | None
    """Sampling temperature; null leaves it to the endpoint."""

    max_tokens: int | None
    """Maximum number of tokens in a reply; null: the endpoint's default."""

    context_tokens: int | None
    """Maximum number of tokens of a prompt and its reply together. From longer prompts, moot leaves out evidence,
    then the oldest rounds. Null: the maximum in moot's tables or in the endpoint's refusal.
    """

    seed: int | None
    """Sampling seed, if the endpoint accepts one; each call's own seed is derived from it."""

    structured_output: Literal["json_schema", "json_object", "text"]
    """How structured output is requested: by JSON schema, by JSON mode, or only in the prompt."""

    verified_quotes: bool
    """On: an answer needs a quote from the evidence that it names. If the quote is missing, the model is called
    once more; if it is still missing, the answer is recorded as unquoted. If the prompt contains no evidence, the
    answer needs no quote.
    """

    label_rules: bool | None
    """On: prompts for a label say how to judge a claim of which evidence covers only a part, one that reports what
    somebody said, gives a rough figure, names no place or group, or concludes something from a fact, and what
    common knowledge may add. Null: false under the preset paper, true under practical.
    """

    embedder: str | Embeddings
    """Text encoder: all-MiniLM-L6-v2, another sentence-transformers name or folder, openai:NAME, or
    langchain:MODULE:ATTRIBUTE.
    """

    corpus: str | None
    """Corpus of the sources whose names contain none. Null: these sources read Wikipedia instead, with a warning.
    The demo corpora are only for trying moot out.
    """

    budget: int | None
    """Maximum number of tokens of prompts and replies. Before each call, its prompt and its longest reply
    (`max_tokens`, else 512 or, for long lists, 1,536, and more if the model thinks) are reserved; calls that do not
    fit are not made. Tokens for the roles that decide are reserved from the start, so that these roles can end the
    debate (budget_exhausted). Null: no bound.
    """

    max_cost: float | None
    """The same as `budget`, in USD, by the models' list prices; a model without a known price is refused. The costs
    of encoders and searches are not counted.
    """

    max_calls: int | None
    """The same as `budget`, in calls to models; a call with its retries counts once."""

    max_seconds: float | None
    """The same as `budget`, in seconds: running calls and searches are cut off, and time to decide is reserved.
    After a wait for a person, the time is counted from zero again.
    """

    reader_summary: bool | None
    """On: after the verdict, the role reporter summarises the debate for readers of the report: about three
    sentences with citations, the answer that each quote supports, the evidence that was not found, and what would
    change the verdict. This takes one more call. A demonstration model writes none. Null: false under the preset
    paper, true under practical.
    """

    calibration: str | None
    """A file of `moot calibrate`, fitted on labelled debates with the same settings; a file for other settings is
    refused. A server reads only files of its folder calibrations (in MOOT_HOME): name the file without a path. The
    document then has a prediction set, and says whether to act on the verdict or to escalate it.
    """

    on_failure: Literal["document", "raise"]
    """How a debate fails: it ends with its document, which has the error; or the node raises the error, so that the
    run fails in LangGraph, for its retry policies, on a server and in LangSmith.
    """

    timeout: float
    """Seconds that one request may take."""

    attempts: int
    """Maximum number of requests per call; requests refused with HTTP 429 do not count."""

    max_concurrency: int
    """Maximum number of parallel calls to one endpoint."""

    requests_per_minute: int | None
    """Maximum number of requests to one endpoint per minute; null: no limit."""

    max_wait: float
    """Seconds that a call may wait while its endpoint refuses it (HTTP 429)."""


class EvidenceSettingsDict(SettingsDict, total=False):
    """The keys of `EvidenceSettings`."""

    k: int
    """Documents per query, from each source."""

    max_per_host: int | None
    """Maximum number of documents per website in a web search; 50, the most that `k` can be: no limit. Null: 50
    under the preset paper, 2 under practical.
    """

    max_origin_share: float | None
    """Largest share of the `k` documents of a search that may be near-duplicates of one another (two are always
    allowed): other results take the places of the rest, if the search found any. A larger share of a debate's
    evidence gives a warning. Only documents with a web address are compared. 1: no limit. Null: 1.0 under the
    preset paper, 0.5 under practical.
    """

    datamarking: bool
    """On: in prompts the words of evidence are joined by a mark, so that models can tell instructions in evidence
    from the instructions of the prompt. The mark makes evidence longer and harder to read.
    """

    robustness: bool
    """On: after the verdict, the decision is repeated without each origin in turn, without two origins that quote
    the same fact, with the evidence in reversed order, and without evidence.
    """

    robustness_calls: int
    """Maximum number of calls that `robustness` makes."""

    assess: bool | None
    """On: the role scorer reads each answer that decides, once, and says which of its statements follow from the
    evidence, and whether each checked quote bears the answer out, speaks against it, or neither. A verdict that no
    quote bears out gets a warning. One call for each of these answers. Null: false under the preset paper, true
    under practical.
    """

    require_warrant: bool
    """On: a verdict that no checked quote bears out, according to `assess`, is withheld: it becomes the label for
    not enough evidence, or none. Not for tasks of reasoning, such as multiple choice.
    """

    second_opinion: bool
    """On: after the verdict, the role reviewer reads the claim and all evidence, but not the debate, and says how
    likely each label is. It never replaces the verdict. One call; only for tasks with labels. Give the role a model
    of another maker.
    """

    doubt_below: float | None
    """A verdict to which `second_opinion` gives a probability below this is flagged as doubted; null: none is.
    `moot calibrate` finds the value, from at least 100 labelled claims.
    """

    published_before: date | str | None
    """A date, e.g. 2020-10-25: evidence published on this day or later is left out; evidence without a date stays,
    with a warning.
    """

    sites_only: Sequence[str]
    """Sites, such as who.int: web results of other sites are left out. A site includes all hosts below it. Evidence
    without a web address stays.
    """

    sites_never: Sequence[str]
    """Sites whose web results are left out."""

    site_labels: Mapping[str, str]
    """Your own label or weight for sites, which agents and readers see beside the evidence."""

    claim_page: Literal["left_out", "marked", "evidence"]
    """Results from the page and the site on which the claim appeared (`appeared_at`), and near-copies. left_out:
    they are no evidence; marked: agents are told that they show only what was said; evidence: they are as all
    others.
    """

    fact_checks_decide: bool
    """Off: a verdict whose checked quotes are all from fact checks by others (source fact_checks) is withheld: it
    becomes the label for not enough evidence, or none. On: they count as other evidence does.
    """

    check_retractions: bool | None
    """On: Crossref is asked whether works with a DOI were retracted. OpenAlex and PubMed always say so. Null: false
    under the preset paper, true under practical.
    """

    read_pages: bool | None
    """On: the pages that a web search finds are fetched, and agents read their passages nearest to the claim and
    the query instead of the search engine's snippets. Websites then learn of the debate's address. Pages that
    cannot be read keep their snippets, with a warning. Null: false under the preset paper, true under practical.
    """

    respect_robots: bool
    """Whether `read_pages` reads only pages that the website's robots.txt allows."""

    archive: Literal["off", "find", "save"]
    """Copies in the Wayback Machine of those pages that `read_pages` read and answers cite. find names the nearest
    copy; save asks for a new one, which everybody can then read, and needs WAYBACK_KEY.
    """

    max_evidence_tokens: int
    """Approximate maximum number of tokens of a document's text in a prompt. Of longer texts, the beginning and the
    sentences nearest to the query are shown; quotes are checked against the whole text.
    """

    reranker: str | None
    """CrossEncoder (sentence-transformers, by name or folder) that ranks the results of hybrid searches; null for
    none.
    """

    source_summaries: str
    """How abstracts from OpenAlex are summarised. model: by the role source_summariser; none: not at all; any other
    value: by this summarisation model (transformers, by name or folder).
    """


class PlanSettingsDict(EvidenceSettingsDict, total=False):
    """The keys of `PlanSettings`."""

    plan: bool | None
    """On: before the first search, one call of the role planner writes whom and what the claim is about, its
    premises, and two queries: for what would support it, and for what would refute or qualify it. Every source is
    searched for the claim and for both, and the best `k` results of each are fused; a web search that charges for
    each search is asked once, for the claim and the first query. In later rounds, a debater may write two queries.
    Off: the first search is for the claim or for each debater's own query. Null: false under the preset paper, true
    under practical.
    """


class DebaterDict(TypedDict, total=False):
    """The keys of a `Debater`."""

    name: Required[str]
    """The debater's name, which is also its role in `models`."""

    retriever: str | BaseRetriever | VectorStore | Sequence[str | BaseRetriever | VectorStore] | None
    """Its source, or a list of several: chroma, bm25 or hybrid (each also with :CORPUS; without a corpus
    Wikipedia), web (the first of the next five that is set up; without one bm25 if a corpus is set, else
    Wikipedia), searxng, ddgs, tavily, serper, brave, wikipedia, openalex, pubmed, arxiv, fact_checks,
    langchain:MODULE:ATTRIBUTE, mcp:SERVER/TOOL, or the name of a source of an installed package; null for a debater
    without one.
    """

    fallback: Sequence[str | BaseRetriever | VectorStore]
    """Sources that replace its failed ones, in this order."""

    model: str | BaseChatModel | ModelChoice | ModelChoiceDict | None
    """Its model, if it differs from `model`."""


class DebaterSettingsDict(PlanSettingsDict, total=False):
    """The keys of `DebaterSettings`."""

    debaters: Sequence[Debater | DebaterDict]
    """The debaters: two or more, each with its own retriever or none."""

    max_rounds: int
    """Maximum number of rounds."""

    query_formulation: bool
    """Off: the claim itself is the query in every round."""

    retrieval: Literal["every_round", "once", "later", "none"]
    """When debaters search for evidence. once: in the first round, and they keep the evidence; later: from the
    second round on; none: never.
    """

    keep_evidence: bool
    """On: in each round, a debater reads the evidence that its last answer cites, together with the new results.
    Off, as in Tool-MAD's papers: only the new results. Texts given with the claim are always read.
    """

    own_answer: bool | None
    """On: from the second round on, a debater also reads its own last answer. Off, as in Tool-MAD's papers: only
    the others'. Null: false under the preset paper, true under practical.
    """

    query_reason: bool | None
    """On: a query for another round is written with the reason for the round: the last answers that differ, or the
    scores that are too low. Off, as in Tool-MAD's papers: with the others' answers and the debater's last query
    alone. Null: false under the preset paper, true under practical.
    """

    passages_travel: bool | None
    """On: from the second round on, a debater is also shown the passages from which any debater quoted word for
    word in the last round, at most `k` of them, the most quoted first, each marked with who quoted it. It may quote
    from them, and they count as its evidence. Null: false under the preset paper, true under practical.
    """

    open_continues: bool | None
    """On: if all debaters answer that the evidence does not settle the claim, another round searches on, until a
    round finds nothing new or the rounds are used up. Null: false under the preset paper, true under practical.
    """

    ask_person: Sequence[Literal["queries", "evidence", "remark", "verdict"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """


class ToolMadContext(DebaterSettingsDict, total=False):
    """Settings of the graph `tool_mad`."""

    questions: int
    """Number of questions over which answer relevance is averaged."""

    claim_form: Literal["question", "as_given"] | None
    """The text to compare with. question: the claim as a question, if necessary in the form "Is it true that ...?";
    as_given: the claim unchanged, exactly as in the paper. Null: "as_given" under the preset paper, "question"
    under practical.
    """

    faithfulness_threshold: float
    """Minimum faithfulness of a stable answer, if it must follow from evidence."""

    answer_relevance_threshold: float
    """Minimum answer relevance of a stable answer. Another `embedder` needs another threshold."""

    scoring: Literal["on", "all_rounds", "consensus_only"] | None
    """on: a consensus needs scores that reach their thresholds, and the judge reads the scores. Without scores:
    all_rounds holds all rounds, then the judge decides; consensus_only ends at the first consensus. Null: "on"
    under the preset paper, "consensus_only" under practical.
    """

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    query_prompt: str
    """The prompt tool_mad/query: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {name} {opponents} {options} {previous_query} {quoted} {subject} {to_decide} {tool} {why}
    {work}.
    """

    queries_prompt: str
    """The prompt tool_mad/queries: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {again} {asked} {claim} {name} {opponents} {options} {own_words} {plan} {subject} {to_decide}
    {tool} {why} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    respond_prompt: str
    """The prompt tool_mad/respond: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {heed} {labels} {name} {opponents} {others} {own} {plan}
    {reasons} {shorter} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """

    statements_prompt: str
    """The prompt scoring/statements: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {of}.
    """

    verdicts_prompt: str
    """The prompt scoring/verdicts: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {count} {evidence} {statements}.
    """

    questions_prompt: str
    """The prompt scoring/questions: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {count} {origin_rule}.
    """

    judge_prompt: str
    """The prompt tool_mad/judge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {history} {labels} {scores} {shorter} {subject} {to_decide}.
    """


class ToolMadConsistencyContext(DebaterSettingsDict, total=False):
    """Settings of the graph `tool_mad_consistency`."""

    cross_encoder: str
    """Cross-encoder that compares answers with evidence: a sentence-transformers CrossEncoder by name or folder,
    loaded when answers are scored. If it cannot be loaded, the cosine of `embedder` is used.
    """

    scoring: Literal["on", "off"]
    """off: the judge decides without scores."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    query_prompt: str
    """The prompt tool_mad/query: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {name} {opponents} {options} {previous_query} {quoted} {subject} {to_decide} {tool} {why}
    {work}.
    """

    queries_prompt: str
    """The prompt tool_mad/queries: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {again} {asked} {claim} {name} {opponents} {options} {own_words} {plan} {subject} {to_decide}
    {tool} {why} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    respond_prompt: str
    """The prompt tool_mad/respond: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {heed} {labels} {name} {opponents} {others} {own} {plan}
    {reasons} {shorter} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """

    judge_prompt: str
    """The prompt tool_mad/judge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {history} {labels} {scores} {shorter} {subject} {to_decide}.
    """


class SourcesSettingsDict(EvidenceSettingsDict, total=False):
    """The keys of `SourcesSettings`."""

    sources: Sequence[str | BaseRetriever | VectorStore]
    """Sources of evidence: chroma, bm25 or hybrid (each also with :CORPUS; without a corpus Wikipedia), web (the
    first of the next five that is set up; without one bm25 if a corpus is set, else Wikipedia), searxng, ddgs,
    tavily, serper, brave, wikipedia, openalex, pubmed, arxiv, fact_checks, langchain:MODULE:ATTRIBUTE,
    mcp:SERVER/TOOL, or the name of a source of an installed package.
    """

    fallback: Sequence[str | BaseRetriever | VectorStore]
    """Sources that replace failed ones, in this order."""


class PoolSettingsDict(SourcesSettingsDict, total=False):
    """The keys of `PoolSettings`."""

    plan: bool | None
    """On: before the first search, one call of the role planner writes whom and what the claim is about, its
    premises, and two queries: for what would support it, and for what would refute or qualify it. Every source is
    searched for the claim and for both, and the best `k` results of each are fused; a web search that charges for
    each search is asked once, for the claim and the first query. In later rounds, a debater may write two queries.
    Off: the first search is for the claim or for each debater's own query. Null: false under the preset paper, true
    under practical.
    """

    retrieval: Literal["once", "none"]
    """once: the sources are searched before the first answer; none: there is no search, and the only evidence is
    the texts given with the claim.
    """


class AgentDict(TypedDict, total=False):
    """The keys of a `Agent`."""

    name: str
    """Its name, which is also its role in `models`; by default numbered, as agent-1."""

    model: str | BaseChatModel | ModelChoice | ModelChoiceDict | None
    """Its model, if it differs from `model`."""

    seed: int | None
    """Its sampling seed, if the endpoint accepts one; each call's own seed is derived from it."""

    parameters: float | None
    """Number of parameters of its model (N), e.g. 7e9, for CortexDebate; by default from a table."""

    tokens: float | None
    """Tokens that its model was pre-trained on (M), e.g. 1.5e13; by default from a table."""

    persona: str | None
    """The persona that the agent adopts, e.g. a sceptical physician."""


class PoolDebateSettingsDict(PoolSettingsDict, total=False):
    """The keys of `PoolDebateSettings`."""

    debaters: Sequence[Agent | AgentDict]
    """The debaters: a list, or their number."""

    max_rounds: int
    """Maximum number of rounds."""

    ask_person: Sequence[Literal["evidence", "remark", "verdict"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """


class MadkeContext(PoolDebateSettingsDict, total=False):
    """Settings of the graph `madke`."""

    demonstrations: int
    """Number of worked examples before the question; each kind of task has 2 or 3."""

    selection: bool
    """Off: every debater is given the whole pool."""

    web_titles: bool | None
    """Off: only the snippets of a web search's results are shown, as in the paper. Null: false under the preset
    paper, true under practical.
    """

    agreement: Literal["correct_and_consistent", "consistent"] | None
    """When the debate ends before its last round. consistent: the answers are the same; correct_and_consistent: the
    judge, who is asked, also does not find the answer wrong, as in the paper. Null: "correct_and_consistent" under
    the preset paper, "consistent" under practical.
    """

    sequential_talk: bool
    """On: from the second round on the debaters speak one after the other, and hear the answers of the same round."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    select_prompt: str
    """The prompt madke/select: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {given} {most} {name} {options} {own} {pool} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt madke/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {demonstrations} {evidence} {holds} {labels_pool} {name} {persona} {plan} {shorter}
    {subject} {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt madke/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {evidence} {holds} {labels_pool} {name} {opponents} {own} {persona} {plan} {shorter}
    {subject} {to_decide} {work}.
    """

    agree_prompt: str
    """The prompt madke/agree: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answers} {claim} {correct} {options} {subject} {to_decide} {weigh} {work}.
    """

    summary_prompt: str
    """The prompt madke/summary: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answers} {claim} {labels_only} {subject} {to_decide} {work}.
    """


class TrialSettingsDict(SourcesSettingsDict, total=False):
    """The keys of `TrialSettings`."""

    judges: Sequence[Agent | AgentDict]
    """The panel, with an odd number of judges: a list of judges or of their models, or a number. The first is the
    chief judge. Each judge should have its own model, different from the counsel's.
    """

    temperatures: Mapping[str, float | None]
    """Sampling temperatures of roles (judges: of all judges). A model's own temperature overrides them. Null leaves
    the temperature to the endpoint. If only `temperature` is set, it applies to all roles.
    """

    seed_k: int
    """Number of documents from each source in the search for the claim itself."""

    max_premises: int
    """Maximum number of premises with a search for evidence; further premises are only shown."""

    admitted_above: float
    """Evidence with a weight above this is admitted."""

    disputed_above: float
    """Evidence that is not admitted but has a weight above this is disputed: only the panel reads it."""

    ask_person: Sequence[Literal["queries", "premises", "evidence", "remark", "verdict"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    max_rounds: int
    """Maximum number of rounds of the primary debate."""

    min_rounds: int
    """The first round after which a debate may stop early."""

    switched_rounds: int
    """Maximum number of rounds with switched sides."""

    role_switch: bool
    """Off: no debate with switched sides."""

    switch_same_model: bool | None
    """Off: if both counsel have the same model, there is no debate with switched sides, which one model would only
    repeat. Null: true under the preset paper, false under practical.
    """

    procedure: Literal["full", "lean"] | None
    """full: as in the paper. lean: a side may say that it lacks nothing, and may concede; the first round may then
    end the debate. The arbiter weighs what a search finds before it joins the record. Experts are offered only
    while a premise is open. The court is asked only if no side concedes and a round is left. Null: "full" under the
    preset paper, "lean" under practical.
    """

    progressive_retrieval: bool
    """Off: no retrieval during the debates, and each debate has exactly 3 rounds."""

    self_reflection: bool
    """Off: no side reflects on its case."""

    novelty_threshold: float
    """Minimum novelty of evidence that joins the record."""

    redundant_similarity: float
    """Evidence more similar to the record than this is redundant."""

    redundant_share: float
    """If more than this share of a side's retrieval is redundant, the side's search ends."""

    min_request_similarity: float | None
    """Minimum similarity (cosine) to the side's request that evidence needs to join the record; -1: none, as in the
    paper. Null: -1.0 under the preset paper, 0.2 under practical.
    """

    max_retrievals: int
    """Maximum number of retrievals per side in a debate."""

    relevance_gain: float | None
    """Minimum gain in relevance of a side's retrieval over the side's previous retrieval, e.g. 0.05; a smaller gain
    ends the side's search. Null: gains do not count.
    """

    plateau: float
    """The debate stops if the sum of both sides' reflection scores changes by less than this in two rounds in a
    row.
    """

    exhaustion: float
    """The debate stops if the mean novelty of retrieved evidence is below this in two rounds in a row."""

    exhibits: Literal["cited", "best", "whole"] | None
    """Form of exhibits for gaps, testimony, reflections and the critic. cited: the titles and quoted passages of
    cited exhibits, and for gaps also the other titles; best: the same, but for the critic and the first gaps the
    whole texts of the five exhibits with the greatest weight; whole: the whole texts of all exhibits. Arguments and
    judges always have the whole texts. Null: "cited" under the preset paper, "best" under practical.
    """

    panel_tokens: int
    """Maximum length of the record that a judge reads, in tokens (estimated). To keep this limit, exhibits are left
    out, uncited exhibits before cited ones. Statements are always shown.
    """

    inconclusive: Literal["abstain", "burden_of_refutation"] | None
    """The answer for an inconclusive verdict: abstain gives the task's label for it, or no answer; with
    burden_of_refutation a claim that was not refuted counts as supported. Null: abstain if the task has such a
    label, else burden_of_refutation.
    """

    consensus_weight: float
    """In `confidence`, the weight of the share of judges who voted for the verdict."""

    quality_weight: float
    """In `confidence`, the weight of the judges' mean scores, which are one number from 0 to 1."""

    verdict_labels: Mapping[Literal["SUPPORTED", "NOT SUPPORTED", "INCONCLUSIVE"], str]
    """The task's labels for SUPPORTED, NOT SUPPORTED and INCONCLUSIVE. For a verdict that is left out, the label is
    found by its meaning or spelling.
    """


class ProclaimContext(TrialSettingsDict, total=False):
    """Settings of the graph `proclaim`."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    premises_prompt: str
    """The prompt proclaim/premises: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {plaintiff_holds} {subject} {to_decide} {work}.
    """

    stance_queries_prompt: str
    """The prompt proclaim/stance_queries: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {defense_holds} {plaintiff_holds} {to_decide} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    challenge_prompt: str
    """The prompt proclaim/challenge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {exhibits} {plaintiff_holds} {position} {premises} {side} {subject}
    {to_decide} {work}.
    """

    weigh_prompt: str
    """The prompt proclaim/weigh: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {challenges} {claim} {evidence} {premises} {subject} {to_decide} {work}.
    """

    gap_prompt: str
    """The prompt proclaim/gap: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {exhibits} {plaintiff_holds} {position} {premises} {round} {side}
    {statements} {subject} {to_decide} {wish} {work}.
    """

    query_prompt: str
    """The prompt proclaim/query: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {request} {statements} {subject} {to_decide} {work}.
    """

    refine_prompt: str
    """The prompt proclaim/refine: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {plaintiff_holds} {premises} {query} {round} {subject} {to_decide} {work}.
    """

    argue_prompt: str
    """The prompt proclaim/argue: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {advice} {claim} {concession} {defense_holds} {exhibits} {plaintiff_holds} {position} {premises}
    {reflection} {round} {shorter} {side} {statements} {subject} {to_decide} {work}.
    """

    request_expert_prompt: str
    """The prompt proclaim/request_expert: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {defense_holds} {plaintiff_holds} {position} {round} {side} {statements} {subject}
    {to_decide} {work}.
    """

    rule_on_expert_prompt: str
    """The prompt proclaim/rule_on_expert: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {defense_holds} {plaintiff_holds} {request} {round} {statements} {subject}
    {to_decide} {work}.
    """

    testify_prompt: str
    """The prompt proclaim/testify: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {exhibits} {expertise} {request} {statements} {subject} {to_decide} {work}.
    """

    reflect_prompt: str
    """The prompt proclaim/reflect: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {exhibits} {need} {plaintiff_holds} {position} {premises} {round} {side}
    {statements} {subject} {to_decide} {work}.
    """

    critique_prompt: str
    """The prompt proclaim/critique: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {exhibits} {next} {plaintiff_holds} {premises} {round} {statements}
    {subject} {to_decide} {weaker} {work}.
    """

    close_prompt: str
    """The prompt proclaim/close: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {defense_holds} {plaintiff_holds} {premises} {round} {statements} {subject} {to_decide}
    {work}.
    """

    analyse_prompt: str
    """The prompt proclaim/analyse: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first_debate} {premises} {second_debate} {subject} {to_decide} {work}.
    """

    judge_prompt: str
    """The prompt proclaim/judge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {about_exhibits} {claim} {consistency} {critic} {defense_holds} {exhibits} {first_debate}
    {persona} {plaintiff_holds} {premises} {reflections} {retrieval} {second_debate} {subject} {to_decide} {work}.
    """


class StandardMadContext(PoolDebateSettingsDict, total=False):
    """Settings of the graph `standard_mad`."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    argue_prompt: str
    """The prompt standard_mad/argue: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {heed} {labels} {name} {opponents} {own} {persona} {plan}
    {reasons} {shared} {shorter} {subject} {to_decide} {work}.
    """

    judge_prompt: str
    """The prompt tool_mad/judge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {history} {labels} {scores} {shorter} {subject} {to_decide}.
    """


class DemonstrationSettingsDict(SettingsDict, total=False):
    """The keys of `DemonstrationSettings`."""

    demonstrations: int
    """Number of worked examples before the question; each kind of task has 2 or 3."""


class SingleAgentSettingsDict(DemonstrationSettingsDict, total=False):
    """The keys of `SingleAgentSettings`."""


class StandardPromptingContext(SingleAgentSettingsDict, total=False):
    """Settings of the graph `standard_prompting`."""

    answer_prompt: str
    """The prompt standard_prompting/answer: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {basis} {cite} {claim} {demonstrations} {given} {holds} {labels_known} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class ChainOfThoughtContext(SingleAgentSettingsDict, total=False):
    """Settings of the graph `chain_of_thought`."""

    answer_prompt: str
    """The prompt chain_of_thought/answer: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {basis} {cite} {claim} {demonstrations} {given} {holds} {labels_known} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class SelfConsistencyContext(SingleAgentSettingsDict, total=False):
    """Settings of the graph `self_consistency`."""

    samples: int
    """Number of answers of the agent, if neither `budget` nor `max_cost` is set. If one of them is set, the agent
    answers as often as it allows, for comparisons with a debate at equal cost; free-text answers are then compared
    by their texts alone.
    """

    answer_prompt: str
    """The prompt chain_of_thought/answer: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {basis} {cite} {claim} {demonstrations} {given} {holds} {labels_known} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class RagContext(PoolSettingsDict, total=False):
    """Settings of the graph `rag`."""

    demonstrations: int
    """Number of worked examples before the question; each kind of task has 2 or 3."""

    ask_person: Sequence[Literal["evidence"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt rag/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {demonstrations} {evidence} {grounds} {labels} {plan} {reasons} {shorter} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class SingleReaderSettingsDict(SourcesSettingsDict, total=False):
    """The keys of `SingleReaderSettings`."""


class ReactContext(SingleReaderSettingsDict, total=False):
    """Settings of the graph `react`."""

    plan: bool | None
    """On: before the first search, one call of the role planner writes whom and what the claim is about, its
    premises, and two queries: for what would support it, and for what would refute or qualify it. Every source is
    searched for the claim and for both, and the best `k` results of each are fused; a web search that charges for
    each search is asked once, for the claim and the first query. In later rounds, a debater may write two queries.
    Off: the first search is for the claim or for each debater's own query. Null: false under the preset paper, true
    under practical.
    """

    max_tool_calls: int
    """Maximum number of tool calls; with 0, the agent answers without a search."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    agent_prompt: str
    """The prompt react/agent: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {given} {labels} {most} {plan} {reasons} {schema} {shorter} {subject} {to_decide} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt react/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {labels} {reasons} {shorter} {steps} {subject} {to_decide}
    {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class AgentsSettingsDict(SettingsDict, total=False):
    """The keys of `AgentsSettings`."""

    agents: Sequence[Agent | AgentDict]
    """The agents: a list, or their number."""

    min_agents: int
    """Minimum number of agents for the debate to continue, if models of other agents cannot be reached."""


class RoundsSettingsDict(AgentsSettingsDict, total=False):
    """The keys of `RoundsSettings`."""

    max_rounds: int
    """Maximum number of rounds; the first answers are the first round."""

    conformity: Literal["neutral", "independent"] | None
    """What agents are told about others' answers. neutral: to use them as additional information; independent: to
    check each step, and not to give way to a majority or to how sure somebody sounds. Null: "neutral" under the
    preset paper, "independent" under practical.
    """

    ask_person: Sequence[Literal["remark"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """


class WeighingSettingsDict(RoundsSettingsDict, total=False):
    """The keys of `WeighingSettings`."""

    debating_graph: Literal["full", "sparse"]
    """full: every agent hears all others; sparse: edges are pruned."""

    evaluation: Literal["none", "mdm", "mdm_without_i_and_s", "self", "peer"]
    """The formula of an edge's weight. mdm: credibility x reliability x intimacy / (self-orientation + 1);
    mdm_without_i_and_s: credibility x reliability; self: the confidence; peer: the mean of the other agents'
    scores; none: every weight is 1, and a sparse graph is drawn at random.
    """

    pruning: Literal["average", "top-3", "bottom-3-removed", "median"]
    """The edges into an agent that a sparse graph keeps if evaluation is mdm or mdm_without_i_and_s. average: edges
    with at least the mean weight; median: edges with at least the median weight; top-3: the three edges with the
    highest weights; bottom-3-removed: all but the three edges with the lowest weights.
    """

    similarity: Literal["embedder", "cross_encoder", "prompt"]
    """How two outputs are compared, if evaluation is mdm. embedder: by the cosine of their vectors from the encoder
    `embedder`; cross_encoder: by the encoder `cross_encoder`; prompt: by the model of the role similarity, in one
    call for each pair.
    """

    cross_encoder: str
    """Cross-encoder that compares outputs: a sentence-transformers CrossEncoder by name or folder, loaded when it
    is first needed.
    """

    recalibration: Sequence[float] | None
    """Thresholds for recalibrating confidences, ascending; null: no recalibration."""


class CortexDebateContext(WeighingSettingsDict, total=False):
    """Settings of the graph `cortex_debate`."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt cortex_debate/revise: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name}
    {persona} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """

    score_prompt: str
    """The prompt cortex_debate/score: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {given} {name} {options} {persona} {to_decide} {work}.
    """

    similarity_prompt: str
    """The prompt cortex_debate/similarity: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {first} {second} {subject}.
    """


class MultiAgentVotingContext(AgentsSettingsDict, total=False):
    """Settings of the graph `multi_agent_voting`."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class SocietyOfMindsContext(RoundsSettingsDict, total=False):
    """Settings of the graph `society_of_minds`."""

    hear: Literal["others", "nobody"]
    """others: every agent reads all last answers; nobody: every agent reads only its own."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt agents/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name} {own}
    {persona} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class TitForTatContext(SettingsDict, total=False):
    """Settings of the graph `tit_for_tat`."""

    debaters: Sequence[Agent | AgentDict]
    """The two debaters, the affirmative one first."""

    max_rounds: int
    """Maximum number of rounds."""

    ask_person: Sequence[Literal["remark", "verdict"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    argue_prompt: str
    """The prompt tit_for_tat/argue: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {given} {holds} {labels_known} {name} {opponents} {own} {persona} {stance}
    {subject} {to_decide} {work}.
    """

    moderate_prompt: str
    """The prompt tit_for_tat/moderate: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {given} {labels_known} {subject} {to_decide} {work}.
    """

    judge_prompt: str
    """The prompt tit_for_tat/judge: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {given} {history} {holds} {labels_known} {subject} {to_decide} {work}.
    """


class DebateCvContext(PoolDebateSettingsDict, total=False):
    """Settings of the graph `debate_cv`."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    argue_prompt: str
    """The prompt debate_cv/argue: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {affirmative_holds} {arguments} {cite} {claim} {evidence} {grounds} {negative_holds} {persona}
    {position} {reported} {round} {side} {subject} {to_decide} {work}.
    """

    moderate_prompt: str
    """The prompt debate_cv/moderate: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {affirmative_holds} {arguments} {claim} {evidence} {grounds} {negative_holds} {reported} {subject}
    {to_decide} {work}.
    """

    verdict_prompt: str
    """The prompt debate_cv/verdict: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {affirmative_holds} {arguments} {asks} {cite} {claim} {evidence} {grounds} {labels}
    {negative_holds} {subject} {to_decide} {work}.
    """


class ReconcileContext(RoundsSettingsDict, total=False):
    """Settings of the graph `reconcile`."""

    voting: Literal["confidence", "majority"]
    """confidence: votes are weighted by confidence; majority: all have weight 1, as in CortexDebate."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt reconcile/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name} {persona}
    {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class ChatEvalContext(RoundsSettingsDict, total=False):
    """Settings of the graph `chat_eval`."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt agents/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name} {own}
    {persona} {subject} {to_decide} {work}.
    """

    summary_prompt: str
    """The prompt chat_eval/summary: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answers} {claim} {options} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class PeerReviewContext(AgentsSettingsDict, total=False):
    """Settings of the graph `peer_review`."""

    rounds: int
    """Rounds of review and revision after the first answers."""

    ask_person: Sequence[Literal["remark"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt peer_review/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {given} {heard} {holds} {labels_known} {name} {own} {persona} {subject} {to_decide}
    {work}.
    """

    review_prompt: str
    """The prompt peer_review/review: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {given} {name} {options} {persona} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class GroupDebateContext(RoundsSettingsDict, total=False):
    """Settings of the graph `group_debate`."""

    group_size: int
    """Agents in a group. With 2, one group may have 3; with 3, some may have 2."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt agents/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name} {own}
    {persona} {subject} {to_decide} {work}.
    """

    summary_prompt: str
    """The prompt group_debate/summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {options} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class NeighborDebateContext(RoundsSettingsDict, total=False):
    """Settings of the graph `neighbor_debate`."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt agents/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {cite} {claim} {confidence} {conformity} {given} {heard} {holds} {labels_known} {name} {own}
    {persona} {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class FreeMadContext(RoundsSettingsDict, total=False):
    """Settings of the graph `free_mad`."""

    first_weight: float
    """Points that an agent's first answer gains. In round r, all points are divided by r."""

    left_weight: float
    """Points that the old answer loses if an agent changes its answer."""

    taken_weight: float
    """Points that the new answer gains if an agent changes its answer."""

    kept_weight: float
    """Points that an answer gains if an agent keeps it for another round."""

    answer_prompt: str
    """The prompt agents/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {holds} {labels_known} {name} {persona} {subject}
    {to_decide} {work}.
    """

    revise_prompt: str
    """The prompt free_mad/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {basis} {cite} {claim} {confidence} {given} {heard} {holds} {labels_known} {name} {own} {persona}
    {subject} {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class GateSettingsDict(PlanSettingsDict, total=False):
    """The keys of `GateSettings`."""

    agents: Sequence[Debater | DebaterDict]
    """The agents that answer independently: two or more, each with its own retriever or none."""

    query_formulation: bool
    """Off: the claim itself is the agents' query."""

    retrieval: Literal["once", "none"]
    """none: the agents do not search."""

    min_verified: int
    """Minimum number of origins with a verified quote in answers that agree. If there are fewer, the gate does not
    settle the claim.
    """

    trigger: Literal["differ", "unwarranted", "self_critique", "always", "never"]
    """When the debate follows. differ: if the answers differ, or have too few verified quotes; unwarranted: also if
    no quote of theirs bears the common answer out, as the role scorer finds; self_critique: also if an agent, asked
    once to attack its own answer, changes it; always: after every gate; never: not at all, and the answer of most
    agents is the verdict.
    """

    open_continues: bool | None
    """On: the debate also follows if all agents answer that the evidence does not settle the claim, unless
    `trigger` is never. Debaters that search in every round then search on. Null: false under the preset paper, true
    under practical.
    """

    debate: Literal[
        "tool_mad",
        "tool_mad_consistency",
        "madke",
        "proclaim",
        "standard_mad",
        "madam_rag",
        "debate_cv",
        "free_mad",
        "cortex_debate",
        "society_of_minds",
        "tit_for_tat",
        "reconcile",
        "chat_eval",
        "peer_review",
        "group_debate",
        "neighbor_debate",
    ]
    """The system of the debate that follows."""

    debate_settings: Mapping[str, Any]
    """Settings of the debate that follows. Most settings that you change for the gate also apply to that debate,
    unless they are set here.
    """

    ask_person: Sequence[Literal["queries", "evidence"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """


class GatedContext(GateSettingsDict, total=False):
    """Settings of the graph `gated`."""

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    query_prompt: str
    """The prompt tool_mad/query: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {name} {opponents} {options} {previous_query} {quoted} {subject} {to_decide} {tool} {why}
    {work}.
    """

    queries_prompt: str
    """The prompt tool_mad/queries: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {again} {asked} {claim} {name} {opponents} {options} {own_words} {plan} {subject} {to_decide}
    {tool} {why} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt rag/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {demonstrations} {evidence} {grounds} {labels} {plan} {reasons} {shorter} {subject}
    {to_decide} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """

    attack_prompt: str
    """The prompt gated/attack: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {labels} {own} {plan} {reasons} {shorter} {subject}
    {to_decide} {work}.
    """


class MadamRagContext(PoolSettingsDict, total=False):
    """Settings of the graph `madam_rag`."""

    max_documents: int
    """Maximum number of documents that are read, those with the best ranks."""

    max_rounds: int
    """Maximum number of rounds (T)."""

    one_answer_ends: bool | None
    """On: the debate also ends if all documents that tell give one answer, the aggregator gives the same, and it
    finds no document misleading. Off, as in the paper: only if no agent changed its answer. Null: false under the
    preset paper, true under practical.
    """

    ask_person: Sequence[Literal["evidence", "remark"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt isolate/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {labels} {plan} {reasons} {shorter} {subject} {to_decide}
    {untold} {work}.
    """

    revise_prompt: str
    """The prompt madam_rag/revise: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {labels} {own} {plan} {reasons} {shorter} {subject} {to_decide}
    {together} {untold} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """

    aggregate_prompt: str
    """The prompt madam_rag/aggregate: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answers} {claim} {conflict} {labels} {subject} {to_decide} {untold} {work}.
    """


class IsolateContext(PoolSettingsDict, total=False):
    """Settings of the graph `isolate`."""

    max_origins: int
    """Maximum number of origins that are read; these are the origins with the best ranks."""

    ask_person: Sequence[Literal["evidence"]]
    """When the debate waits for a person: to review queries, premises or evidence before they are used, to make a
    remark before another round, or to question the draft of the verdict.
    """

    assess_prompt: str
    """The prompt scoring/assess: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {answer} {claim} {count} {evidence} {of} {part} {quotes} {reasons} {subject}.
    """

    second_opinion_prompt: str
    """The prompt scoring/second_opinion: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {answers} {claim} {evidence} {subject}.
    """

    plan_prompt: str
    """The prompt plan/plan: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {own_words} {premises_of} {subject} {to_decide} {two_queries} {work}.
    """

    keywords_prompt: str
    """The prompt tool_mad/keywords: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {options} {query} {to_decide} {work}.
    """

    source_summary_prompt: str
    """The prompt tool_mad/source_summary: instructions, a line ---, then data. All placeholders of the data are
    needed. Placeholders: {claim} {evidence} {options} {subject} {to_decide} {work}.
    """

    answer_prompt: str
    """The prompt isolate/answer: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {asks} {claim} {evidence} {grounds} {labels} {plan} {reasons} {shorter} {subject} {to_decide}
    {untold} {work}.
    """

    equivalence_prompt: str
    """The prompt tasks/equivalence: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {first} {second} {subject}.
    """


class ClaimSettingsDict(SettingsDict, total=False):
    """The keys of `ClaimSettings`."""

    split: bool
    """On: a quote with several statements becomes a claim for each statement that can be checked alone."""

    min_score: float
    """Claims with a lower score are only listed (`left_out`)."""

    max_claims: int | None
    """Maximum number of claims; those with the highest scores are kept. null keeps all."""

    part_words: int
    """Maximum number of words of a part of the text; a longer sentence is a part of its own."""


class FindClaimsContext(ClaimSettingsDict, total=False):
    """Settings of the graph `find_claims`."""

    extract_prompt: str
    """The prompt claims/extract: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {about} {part}.
    """

    rate_prompt: str
    """The prompt claims/rate: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {about} {part} {quotes}.
    """

    rewrite_prompt: str
    """The prompt claims/rewrite: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {about} {before} {how_many} {opening} {part} {quotes}.
    """

    same_prompt: str
    """The prompt claims/same: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claims}.
    """


class SummariseForReadersContext(SettingsDict, total=False):
    """Settings of the graph `summarise_for_readers`."""

    summary_prompt: str
    """The prompt reader/summary: instructions, a line ---, then data. All placeholders of the data are needed.
    Placeholders: {claim} {evidence} {in_favour} {others} {queries} {quotes} {reasons} {subject} {verdict}
    {work_of}.
    """
