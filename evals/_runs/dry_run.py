"""What a plan takes, before money is spent: its systems run on some real items, with stand-ins for models and sources.

A stand-in for a model answers each prompt with values that fit the schema, in a reply of a stated length. So the
prompts are the real ones, and their tokens are counted (`BYTES_PER_TOKEN`); neither a key nor a network is needed. Each
item is rehearsed twice: once with replies that all agree, which ends debates early, and once with random replies. The
two are the ends of the range. Nothing is assumed about the endpoint's cache of prompts: all tokens have the full price.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

from inspect_ai.dataset import Sample
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from moot.core.endpoint import close_clients
from moot.core.errors import UserError
from moot.evals._analyses.ev2r import judge_recall
from moot.evals._analyses.graders import grade_answer
from moot.evals._benchmarks.catalogue import load_benchmark
from moot.evals._runs.controls import matched_debate
from moot.evals._runs.plan import Cell, Plan, PlannedBenchmark, make_cells
from moot.evals._runs.reference import Reference, make_reference
from moot.evals._runs.run_plan import make_task
from moot.evals._runs.shards import Shard
from moot.evals._runs.solver import make_question, run_debate
from moot.evals._runs.tasks import telling
from moot.evals._stats.official import cited_answers, question_answers
from moot.evals._stats.outcomes import has_outcome, outcome_of
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.fake import FakeChatModel
from moot.nodes._models.prices import Price, cost_of, read_prices
from moot.nodes._models.rehearsal import rehearse
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.nodes._records.entries import Call
from moot.nodes._runtime.settings import checked_settings
from moot.retrievers import Evidence, Retriever
from moot.retrievers._encoders import DEFAULT_ENCODER
from moot.retrievers._evidence import make_evidence
from moot.retrievers._search import CORPUS_SOURCES, resolve

BYTES_PER_TOKEN = 4
"""English text has about 4 bytes per token."""
REPLY_TOKENS = 150
"""Tokens of a reply: the mean and the median of the 25 replies of a strong model in the record of `moot demo`. Models
that think write many times as much."""
TOKENS_PER_SECOND = 50.0
"""Tokens that an endpoint writes in a second in one reply: a usual figure for hosted models and for 8B models on one
GPU. It differs widely, so `--tokens-per-second` states it."""
PASSAGE_BYTES = 1000
"""Bytes of each passage that a stand-in for a source finds: those of a paragraph or two."""
SENTENCE = "The survey of the region gives this as the usual case, and the later records name no other."
DRAWN_TEXT = re.compile(r"A drawn text, number \d+\.")
"""The texts that the fake model draws, which are lengthened."""
HOUR = 3600


class Pass(NamedTuple):
    """What a rehearsed debate took: calls, tokens, USD (None: a price is unknown), and seconds of writing."""

    calls: float
    prompt_tokens: float
    reply_tokens: float
    usd: float | None
    seconds: float


@dataclass(frozen=True)
class Expected:
    """What a system is expected to take on a benchmark with a model, over all its items and seeds."""

    system: str
    benchmark: str
    model: str | None
    items: int
    """The number of items."""
    debates: int
    """The number of debates: one for each item, seed and attack."""
    least: Pass
    most: Pass


class Agreeing(random.Random):
    """Draws the first choice, the lowest count and the highest number, so that equal schemas get equal values."""

    def choice(self, seq: Any) -> Any:
        return seq[0]

    def randint(self, a: int, b: int) -> int:
        return a

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:
        return b


def of_length(sentence: str, length: int) -> str:
    """A sentence, again and again, up to a number of characters, but at least once.

    >>> of_length("Saffron is red.", 40)
    'Saffron is red. Saffron is red.'
    """
    return " ".join([sentence] * max(1, length // (len(sentence) + 1)))


class StandInModel(FakeChatModel):
    """The fake model, with replies of a stated length that are random, or all agree and consist of ``repeats``.

    Replies that repeat the claim are relevant to it, so that also systems that score relevance find a consensus.
    """

    agrees: bool = False
    repeats: str = SENTENCE
    reply_tokens: int = REPLY_TOKENS

    def random_for(self, prompt: str) -> random.Random:
        return Agreeing(0) if self.agrees else super().random_for(prompt)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        """The reply; its schema counts as a part of the prompt, as endpoints count it."""
        result = super()._generate(messages, *args, **kwargs)
        message: Any = result.generations[0].message
        schema = len(json.dumps(kwargs.get("extra_body") or kwargs.get("tools") or "")) // BYTES_PER_TOKEN
        for counted in ("input_tokens", "total_tokens"):
            message.usage_metadata[counted] += schema
        return result

    def reply(self, schema: dict[str, Any], rng: random.Random) -> str:
        """A reply whose first text fills it up to its length; others stay short, as the queries of real replies are."""
        drawn = super().reply(schema, rng)
        if self.agrees:
            drawn = DRAWN_TEXT.sub(lambda found: as_json_text(self.repeats), drawn)
        room = BYTES_PER_TOKEN * self.reply_tokens - len(drawn)
        first = as_json_text(self.repeats) if self.agrees else found[0] if (found := DRAWN_TEXT.search(drawn)) else ""
        return drawn.replace(first, as_json_text(of_length(self.repeats, room)) + " " + first, 1) if first else drawn


def as_json_text(text: str) -> str:
    """A text as it stands between the quotation marks of JSON."""
    return json.dumps(text)[1:-1]


class StandInSource:
    """A source that finds passages of a stated length for each query, without an address that could be read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._numbers = count(1)

    async def search(self, query: str, k: int) -> list[Evidence]:
        text = of_length(SENTENCE, PASSAGE_BYTES)
        numbers = [next(self._numbers) for _ in range(k)] if query.strip() else []
        return [
            make_evidence(text=f"{n}. {text}", title=f"Passage {n}", source=self.name, query=query, retriever=self.name)
            for n in numbers
        ]


@dataclass
class StandIns:
    """The stand-ins of a rehearsal.

    ``agree``: whether all replies agree. ``notes``: why a corpus was not searched, each once. ``claim``: the present
    debate's claim.
    """

    reply_tokens: int
    agree: bool
    notes: MutableSequence[str] = field(default_factory=list)
    claim: str = SENTENCE

    def model(self, name: str) -> StandInModel:
        repeats = self.claim if self.agree else SENTENCE
        return StandInModel(seed=name, agrees=self.agree, repeats=repeats, reply_tokens=self.reply_tokens)

    async def source(self, name: str, settings: Any, open_source: Callable[[], Awaitable[Retriever]]) -> Retriever:
        """The source itself if it searches a corpus and no endpoint encodes the queries, else passages of a length."""
        kind, _ = resolve(name, settings.corpus)
        if kind not in CORPUS_SOURCES:
            return StandInSource(name)
        try:
            return await open_source()
        except UserError as error:
            note = f"{name}: passages of {PASSAGE_BYTES:,} characters stand in for its passages. {error.detail}"
            if note not in self.notes:
                self.notes.append(note)
            return StandInSource(name)


@dataclass(frozen=True)
class DryRun:
    """The dry run of a plan: ``rehearsed`` items of each benchmark, with two passes."""

    plan: Plan
    rehearsed: int
    reply_tokens: int = REPLY_TOKENS
    tokens_per_second: float = TOKENS_PER_SECOND
    shard: Shard | None = None
    notes: list[str] = field(default_factory=list)
    conflicting: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By benchmark: the items that no system can all get right (`moot.evals._benchmarks.records.Reading`)."""

    @cached_property
    def cells(self) -> list[Cell]:
        """The cells whose debates differ: those of the first seed, without attacks, which cost as much as no attack."""
        cells = make_cells(self.plan)
        return [cell for cell in cells if cell.seed == _own_first_seed(cell, cells) and not cell.attack]

    @cached_property
    def prices(self) -> Mapping[str, Price]:
        """The prices of models."""
        return read_prices()

    async def expected(self, advance: Callable[[Cell], None] = lambda cell: None) -> list[Expected]:
        """What each system takes on each benchmark, in the plan's order."""
        with telling(self.notes.append):
            tasks = {benchmark: make_task(benchmark, self.plan, self.shard) for benchmark in self._benchmarks()}
        samples = {benchmark: list(task.dataset) for benchmark, task in tasks.items()}
        for benchmark, task in tasks.items():
            self.conflicting[benchmark.name] = (task.metadata or {})["moot"]["conflicting"]
        runs = _runs_of(make_cells(self.plan))
        passes: dict[str, list[list[Pass]]] = {}
        try:
            for agree in (True, False):
                documents: dict[tuple[str, Any], Mapping[str, Any]] = {}
                with rehearse(stand_ins := StandIns(self.reply_tokens, agree, self.notes)):
                    for cell in self.cells:
                        took = []
                        for sample in samples[cell.task][: self.rehearsed]:
                            stand_ins.claim = str(sample.input)
                            took.append(await self._rehearse(cell, sample, documents))
                        passes.setdefault(cell.key, []).append(took)
                        advance(cell)
        finally:
            await close_clients()
        return [
            Expected(cell.system, cell.task.name, cell.model, items, debates, *_range_of(passes[cell.key], debates))
            for cell in self.cells
            if (debates := (items := len(samples[cell.task])) * runs[_without_seed(cell)])
        ]

    def _benchmarks(self) -> list[PlannedBenchmark]:
        return list(dict.fromkeys(cell.task for cell in self.cells))

    async def _rehearse(self, cell: Cell, sample: Sample, documents: dict[tuple[str, Any], Mapping[str, Any]]) -> Pass:
        """Rehearse a debate or a control on a sample; ``documents`` has the documents of the debates by cell and id."""
        system = load_graph(cell.graph)
        question: Any = make_question(str(sample.input), sample.choices, sample.metadata)
        settings = checked_settings(system.settings, cell.settings, cell.graph)
        if cell.control:
            assert cell.of
            reference: Reference = make_reference(documents[cell.of.key, sample.id], self.prices)
            settings, question = matched_debate(
                cell.control, reference, cell.equal or "tokens", cell.settings, question
            )
        document = await run_debate(system, question, _without_endpoints(settings))
        if not has_outcome(document):
            error = document["error"] or {"kind": "no_document", "detail": "It ended without a result."}
            raise UserError(
                f"{cell.system} on {cell.task.name} cannot be rehearsed: {error['detail']}", kind=error["kind"]
            )
        documents[cell.key, sample.id] = document
        calls = [*document["calls"], *await self._grading(cell, sample, document)]
        sent = [call for call in calls if not call.get("shared")]
        replies = sum(call["completion_tokens"] or 0 for call in sent)
        seconds = document["depth"] * replies / max(len(sent), 1) / self.tokens_per_second
        prompts = sum(call["prompt_tokens"] or 0 for call in sent)
        return Pass(len(sent), prompts, replies, cost_of(sent, self.prices), seconds)

    async def _grading(self, cell: Cell, sample: Sample, document: Mapping[str, Any]) -> list[Call]:
        """The calls of the plan's judge on a free-text answer, or on evidence."""
        measures = load_benchmark(cell.task.name).metrics
        record = StepRecord()
        if self.plan.judge is not None and "judged" in measures:
            gold = [sample.target] if isinstance(sample.target, str) else list(sample.target)
            speaker = Speaker("equivalence", await open_chat_model(self.plan.judge), record)
            await grade_answer(document["claim"], document["task"], outcome_of(document) or "", gold, speaker)
        if self.plan.judge is not None and "ev2r_recall" in measures:
            questions = question_answers(((sample.metadata or {}).get("gold_evidence") or {}).get("questions") or [])
            # the quotes of a stand-in are in no evidence, so the claim stands for one
            pairs = cited_answers(document) or [(document["claim"], document["claim"])]
            if questions:
                await judge_recall(document["claim"], questions, pairs, self.plan.judge, record)
        return record.calls


def _without_endpoints(settings: Any) -> Any:
    """The settings with the default encoder, if an endpoint is to encode texts, and with a schema in each request."""
    encoder = DEFAULT_ENCODER if ":" in settings.embedder else settings.embedder
    # a request without a schema would get no usable reply from a stand-in
    return settings.model_copy(update={"embedder": encoder, "structured_output": "json_schema"})


def _without_seed(cell: Cell) -> str:
    """A key that the runs of a cell with different seeds share."""
    settings = {name: value for name, value in cell.settings.items() if name != "seed"}
    return json.dumps([cell.system, cell.task.name, cell.model, settings, bool(cell.attack)], default=str)


def _own_first_seed(cell: Cell, cells: Sequence[Cell]) -> int | None:
    return next(one.seed for one in cells if _without_seed(one) == _without_seed(cell))


def _runs_of(cells: Sequence[Cell]) -> dict[str, int]:
    """The number of runs of each cell (`_without_seed`): its seeds, and those of each attack on it."""
    runs: dict[str, int] = {}
    for cell in cells:
        of = cell.of if cell.attack and cell.of else cell
        runs[_without_seed(of)] = runs.get(_without_seed(of), 0) + 1
    return runs


def _range_of(passes: Sequence[Sequence[Pass]], debates: int) -> tuple[Pass, Pass]:
    """The least and the most that a number of debates take, by the means of the passes."""
    means = [_combined(took, lambda amounts: sum(amounts) / len(amounts)) for took in passes]
    return _combined(means, lambda both: min(both) * debates), _combined(means, lambda both: max(both) * debates)


def _combined(passes: Sequence[Pass], combine: Callable[[Sequence[float]], float]) -> Pass:
    """Each amount of some passes combined to one; USD are unknown if those of a pass are."""
    costs = [one.usd for one in passes if one.usd is not None]
    usd = combine(costs) if len(costs) == len(passes) else None
    calls, prompts, replies, seconds = (
        combine(amounts) for amounts in zip(*((*one[:3], one.seconds) for one in passes), strict=True)
    )
    return Pass(calls, prompts, replies, usd, seconds)
