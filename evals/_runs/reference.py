"""The cost, answers and evidence of a debate on each sample, which controls read from the debate's log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log, read_eval_log_sample_async
from moot.core.errors import UserError
from moot.evals._runs.log_files import UNREADABLE
from moot.evals._runs.solver import document_in
from moot.evals._stats.outcomes import has_outcome
from moot.nodes._models.equal_cost import FullCost, full_cost
from moot.nodes._models.prices import Price, read_prices
from moot.retrievers._excerpts import shown_text

ANSWERING = ("respond", "argue")
"""The steps in which debaters answer."""
EVIDENCE_FIELDS = ("id", "title", "text", "source", "url", "published")
"""Fields of evidence that controls get; the text is only the part that the debate showed to its speakers."""


@dataclass(frozen=True)
class Reference:
    """What controls need to know of a debate on one sample.

    ``answers``: how often the debater who answered most often did; ``agents``: how many answered. Both are at least 1.
    """

    cost: FullCost
    answers: int
    agents: int
    evidence: list[dict[str, Any]]


class References:
    """Reads the references of a debate from its log, sample by sample."""

    def __init__(self, logs: str, of: str) -> None:
        """Find the debate's log, and read the prices. Blocking."""
        log = newest_log(logs, of)
        if log is None:
            raise UserError(f"{logs} has no log of the debate that this control belongs to.", kind="missing_file")
        self.location = log.location
        self.prices = read_prices()

    async def for_sample(self, sample: int | str) -> Reference | None:
        """The debate's reference on a sample; None if the debate has no outcome on this sample."""
        document = await document_with_outcome(self.location, sample)
        return make_reference(document, self.prices) if document else None


async def document_with_outcome(location: str, sample: int | str) -> dict[str, Any] | None:
    """The result document of a debate on a sample, from the debate's log; None without an outcome on the sample."""
    try:
        logged = await read_eval_log_sample_async(location, sample, exclude_fields={"events", "attachments"})
    except IndexError:  # raised by Inspect for a sample that is not in the log
        return None
    document = document_in(logged)
    if document is None:  # a sample that was recovered after a kill has its document in its events
        document = document_in(await read_eval_log_sample_async(location, sample))
    return document if document and not logged.error and has_outcome(document) else None


def make_reference(document: Mapping[str, Any], prices: Mapping[str, Price]) -> Reference:
    """Make a reference from a result document."""
    evidence = [
        {key: piece[key] for key in EVIDENCE_FIELDS if key in piece} | {"text": shown_text(piece)}
        for piece in document["evidence"]
    ]
    cost = full_cost(document["calls"], document["seconds"], prices)
    answers = Counter(turn["agent"] for turn in document["turns"] if turn["step"] in ANSWERING)
    return Reference(cost, max(answers.values(), default=1), max(len(answers), 1), evidence)


def newest_log(logs: str, key: str) -> EvalLog | None:
    """The newest log with this key, without its samples; None if there is no such log."""
    return next((log for log in read_log_headers(logs) if moot_metadata(log).get("key") == key), None)


def read_log_headers(logs: str) -> Iterator[EvalLog]:
    """Yield the logs at any depth in a folder, without samples, the newest first; nothing if the folder is missing."""
    if Path(logs).is_dir():
        for info in list_eval_logs(logs):
            try:
                yield read_eval_log(info, header_only=True)
            except UNREADABLE as error:
                raise UserError(
                    f"{info.name.removeprefix('file://')} cannot be read as a log ({error}). Move it out of "
                    f"{logs}; then its samples are run again.",
                    kind="invalid_file",
                ) from error


def moot_metadata(log: EvalLog) -> dict[str, Any]:
    """Moot's metadata in a log; {} if there are none."""
    metadata: dict[str, Any] = log.metadata.get("moot") or {}
    return metadata
