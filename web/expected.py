"""What debates are expected to take before they start: calls, tokens and USD, each from the least to the most.

If debates of the same system with the same settings have run here, the range is theirs. Else it is estimated: the
calls follow from the system's ``calls`` in ``systems.jsonl``, the tokens from usual lengths of prompts and replies.
Everything here that reads the store blocks.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from moot.core.endpoint import PROVIDERS
from moot.core.fingerprints import without_ceilings
from moot.core.redaction import hide_secrets
from moot.core.store import existing_store
from moot.core.tables import documents, runs
from moot.graphs._registry import entry_of
from moot.nodes import PlanSettings, Settings
from moot.nodes._models.contexts import BYTES_PER_TOKEN, bytes_of
from moot.nodes._models.equal_cost import FullCost, full_cost
from moot.nodes._models.prices import Price, costs_of, price_of, read_prices
from moot.nodes._models.reply_limits import REPLY_TOKENS, limit_of
from moot.nodes._runtime.document import check_schema
from moot.transcript.language import in_figures, listed, t
from moot.web.debates import mine

MOST_EARLIER = 10
"""Maximum number of earlier debates on which a range rests: the last ones."""
SEARCHED = 200
"""Maximum number of debates of a system whose settings are compared."""
OWN_SERVERS = {*PROVIDERS} - {"openai"}
"""Providers that cost nothing: servers of one's own."""
SHORT_CALL, LONG_CALL = (300, 30), (2000, 300)
"""Tokens of a call's prompt and reply: as the shorter and the longer ones in debates of models that do not think."""


class Span(NamedTuple):
    """An amount from the least to the most."""

    least: float
    most: float


@dataclass(frozen=True)
class Expected:
    """What debates are expected to take.

    Args:
        calls, tokens, usd: None if it is not known.
        earlier: the number of earlier debates that took so much; 0 if it is an estimate.
        unpriced: the models without a known price.
    """

    calls: Span | None = None
    tokens: Span | None = None
    usd: Span | None = None
    earlier: int = 0
    unpriced: tuple[str, ...] = ()

    def times(self, count: float) -> Expected:
        """What a number of such debates take together."""
        return self._changed(lambda end, _: end * count)

    def within(self, budget: float | None, max_cost: float | None, max_calls: float | None) -> Expected:
        """The same under ceilings, which end debates earlier."""
        most = {"tokens": budget, "usd": max_cost, "calls": max_calls}
        return self._changed(lambda end, name: end if (ceiling := most[name]) is None else min(end, ceiling))

    def _changed(self, change: Callable[[float, str], float]) -> Expected:
        spans = {name: getattr(self, name) for name in ("calls", "tokens", "usd")}
        changed: Any = {name: span and Span(*(change(end, name) for end in span)) for name, span in spans.items()}
        return replace(self, **changed)

    def in_words(self, debates: int = 1) -> str:
        """A sentence; empty if nothing is known. ``debates``: their number."""
        if self.calls is None:
            return ""
        parts = [t("1 call") if self.calls == (1, 1) else t("{amount} calls", amount=_whole(self.calls))]
        parts += [t("{amount} tokens", amount=_whole(self.tokens))] if self.tokens else []
        parts += [_dollars(self.usd)] if self.usd else []
        why = t("estimated; models that think and repeated calls add to it")
        if self.earlier:
            why = t("as the last {count} debates with these settings", count=self.earlier)
        said = t("Expected for {count} debates: {amounts} ({why}).", count=debates, amounts=listed(parts), why=why)
        if self.usd or not self.unpriced:
            return said
        return f"{said} {t('No price is known for {models}.', models=listed(self.unpriced))}"


def expected(graph: str, settings: Settings, given: int = 0, *, reads_store: bool = True) -> Expected:
    """What a debate is expected to take, within its ceilings; nothing is said of models that cost nothing.

    Args:
        graph: the debate system.
        settings: its settings.
        given: the bytes of the given texts.
        reads_store: whether the store is searched for earlier debates.
    """
    if not settings.own_model:
        return Expected()
    prices = read_prices()
    took = earlier_costs(graph, settings, prices) if reads_store else []
    found = of_earlier(took) if took else estimated(graph, settings, prices, given)
    named = [name for name in settings.models_named() if name.partition(":")[0] not in OWN_SERVERS]
    unpriced = tuple(sorted(name for name in named if price_of(name, prices) is None))
    return replace(found, unpriced=unpriced).within(settings.budget, settings.max_cost, settings.max_calls)


def together(parts: Sequence[Expected]) -> Expected:
    """What debates with different settings take together; an amount is unknown if that of a debate is."""

    def total(spans: Iterable[Span | None]) -> Span | None:
        known = [*spans]
        if None in known or not known:
            return None
        return Span(*(math.fsum(ends) for ends in zip(*(span for span in known if span), strict=True)))

    calls, tokens, usd = (total(getattr(part, name) for part in parts) for name in ("calls", "tokens", "usd"))
    unpriced = {name for part in parts for name in part.unpriced}
    earlier = min((part.earlier for part in parts), default=0)
    return Expected(calls, tokens, usd, earlier, tuple(sorted(unpriced)))


def of_earlier(took: Sequence[FullCost]) -> Expected:
    """The range of what some debates took: of two with 10 and 30 calls, from 10 to 30."""

    def span(name: str) -> Span | None:
        amounts = [getattr(one, name) for one in took]
        return None if None in amounts else Span(min(amounts), max(amounts))

    return Expected(span("calls"), span("tokens"), span("usd"), len(took))


def estimated(graph: str, settings: Settings, prices: Mapping[str, Price], given: int = 0) -> Expected:
    """The estimate for a system of moot; nothing is known of a package's system."""
    if (calls := estimated_calls(graph, settings.model_dump())) is None:
        return Expected()
    planned = int(isinstance(settings, PlanSettings) and settings.plans)
    calls = Span(calls.least + planned, calls.most + planned)
    thoughts = max(map(limit_of, settings.models_named())) - REPLY_TOKENS  # of a model that is known to think
    long_call = LONG_CALL[0] + math.ceil(given / BYTES_PER_TOKEN), LONG_CALL[1] + thoughts
    tokens = Span(calls.least * sum(SHORT_CALL), calls.most * sum(long_call))
    known = [price_of(name, prices) for name in settings.models_named()]
    costs = [(sum(costs_of(*SHORT_CALL, one)), sum(costs_of(*long_call, one))) for one in known if one]
    has_prices = costs and len(costs) == len(known)
    usd = Span(calls.least * min(costs)[0], calls.most * max(most for _, most in costs)) if has_prices else None
    return Expected(calls, tokens, usd)


def estimated_calls(graph: str, settings: Mapping[str, Any]) -> Span | None:
    """The calls of a debate without repeated ones: with 2 debaters and 3 rounds, tool_mad makes 2 * 3 * 5 + 2 at most.

    None if the system is a package's.
    """
    terms = entry_of(graph, settings).get("calls")
    if not terms:
        return None
    agents, rounds = size_of(settings)
    sizes = {"once": 1, "agent": agents, "round": rounds, "agent_round": agents * rounds}
    sizes["pair_round"] = agents * (agents - 1) * rounds
    least, most = (sum(count * sizes[name] for name, count in terms[end].items()) for end in ("least", "most"))
    opinion = bool(settings.get("second_opinion"))
    # Answers that leave the claim open are not assessed, and without a checked quote there is no summary.
    most += (agents if settings.get("assess") else 0) + bool(settings.get("reader_summary"))
    most += settings["robustness_calls"] if settings.get("robustness") else 0
    return Span(least + opinion, most + opinion)


def given_bytes(texts: Iterable[Mapping[str, Any] | str]) -> int:
    """The bytes of given texts."""
    return sum(bytes_of(text if isinstance(text, str) else str(text.get("text", ""))) for text in texts)


def size_of(settings: Mapping[str, Any]) -> tuple[int, int]:
    """The number of agents, or of what a system has in their place, and of rounds."""
    names = ("debaters", "agents", "samples", "max_tool_calls", "max_origins", "max_documents")
    agents = next((settings[name] for name in names if settings.get(name) is not None), 1)
    rounds = settings.get("max_rounds") or settings.get("rounds") or 1
    return (agents if isinstance(agents, int) else len(agents)), rounds


def earlier_costs(graph: str, settings: Settings, prices: Mapping[str, Price]) -> list[FullCost]:
    """What the last debates of a system with these settings took, whatever their ceilings were."""
    store, wanted = existing_store(), without_ceilings(hide_secrets(settings.recorded()))
    if store is None:
        return []
    done = (runs.c.graph == graph) & (runs.c.status == "done") & mine()
    query = sa.select(runs.c.settings, documents.c.id).join(documents, documents.c.id == runs.c.document)

    def find(connection: sa.Connection) -> list[bytes]:
        some = connection.execute(query.where(done).order_by(runs.c.started.desc()).limit(SEARCHED))
        same = [row.id for row in some if without_ceilings(json.loads(row.settings)) == wanted][:MOST_EARLIER]
        return [*connection.scalars(sa.select(documents.c.content).where(documents.c.id.in_(same)))]

    took = []
    for content in store.do(find, is_lookup=True):
        try:
            document = json.loads(zlib.decompress(content))
            check_schema(document)
        except (zlib.error, ValueError):  # whoever opens that debate is told; it must not stop this one
            continue
        took.append(full_cost(document["calls"], document["seconds"], prices))
    return took


def _whole(span: Span) -> str:
    """A span of calls or tokens in words; large numbers are rounded to two digits."""
    return _range(*(in_figures(_rounded(end)) for end in span))


def _rounded(number: float) -> int:
    return int(round(number, 1 - math.floor(math.log10(number)))) if number >= 1000 else round(number)


def _dollars(span: Span) -> str:
    return _range(*map(in_dollars, span))


def _range(least: str, most: str) -> str:
    return most if least == most else t("{least} to {most}", least=least, most=most)


def in_dollars(usd: float) -> str:
    """An amount with two digits that tell, if it is less than a dollar."""
    if 0 < usd < 0.001:
        return t("under $0.001")
    return t("${usd}", usd=in_figures(usd, 2 if usd >= 1 or not usd else 1 - math.floor(math.log10(usd))))
