"""Measure how well a model tells which quotes bear an answer out (`assess`), for `moot eval warrants`.

Two measures. Pairs: claims with a passage of which people said whether it supports or refutes the claim; the model's
`bears` is compared with that. Planted swaps: answers of debates, each as it is and with its label exchanged for the
opposite, and the same reasons and quotes; an answer without a quote that bears it out is flagged.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moot.core.errors import MootError, UserError
from moot.core.files import read_bounded, why_unread
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.parallel import all_at_once
from moot.nodes._models.speaker import Speaker
from moot.nodes._records.entries import Task, Turn
from moot.nodes._runtime.document import check_schema
from moot.nodes._runtime.turns import Bearing, Citation
from moot.nodes._steps.assess import assess
from moot.nodes._texts.labels import COMPROMISED, FALSE, NOT_TRUE, REFUTED, SUPPORTED, TRUE, UNSETTLED, fold_label
from moot.nodes._texts.quotes import check_citations
from moot.nodes._texts.replies import Quote
from moot.nodes._texts.task import make_task
from moot.nodes._texts.verdict import deciding_answers
from moot.retrievers import Evidence, make_evidence

LARGEST = 256 * 2**20
"""Maximum size of a file, in bytes."""
GOLD: Mapping[str, Bearing] = {
    **dict.fromkeys((fold_label(word) for word in (*SUPPORTED, "entails")), "entails"),
    **dict.fromkeys((fold_label(word) for word in REFUTED), "contradicts"),
    **dict.fromkeys((fold_label(word) for word in (*UNSETTLED, "neither")), "neither"),
}
"""What a passage does for the answer that its claim is true, by the spellings of labels."""
OPPOSITE: Mapping[Bearing, Bearing] = {"entails": "contradicts", "contradicts": "entails", "neither": "neither"}


@dataclass(frozen=True)
class Case:
    """An answer to assess. ``gold`` is what its only quote does for it, if people said so; else ``swapped`` says
    whether its label was exchanged.
    """

    claim: str
    task: Task
    answer: str
    rationale: str
    quotes: Sequence[Citation]
    evidence: Sequence[Evidence]
    gold: Bearing | None = None
    swapped: bool = False


def read_cases(paths: Sequence[Path], corpus: Path | None, limit: int, seed: int) -> list[Case]:
    """Read cases: pairs from JSON Lines, swaps from result documents (.json); at most ``limit`` of each, drawn by the
    seed and shuffled. Blocking.
    """
    draw = random.Random(seed)
    pairs: list[Case] = []
    turns: list[tuple[Any, Turn]] = []
    abstracts = {str(row["doc_id"]): row["abstract"] for row in _rows(corpus)} if corpus else {}
    for path in paths:
        if path.suffix == ".json":
            turns += answers_in(_document(path))
        else:
            pairs += [case for row in _rows(path) for case in pairs_of(row, abstracts, draw, path.name)]
    chosen = draw.sample(pairs, min(limit, len(pairs)))
    picked = draw.sample(turns, min(limit, len(turns)))
    swaps = [case for document, turn in picked for case in swap_cases(document, turn)]
    if not chosen and not swaps:
        raise UserError(
            "These files have no case. Give JSON Lines with claim, passage and label, or result documents whose "
            "verdict says that a claim is true or false, with a checked quote.",
            kind="missing_file",
        )
    cases = [*chosen, *swaps]
    draw.shuffle(cases)
    return cases


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    content = _read(path)
    try:
        rows = [json.loads(line) for line in content.decode().splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON Lines ({error}).", kind="invalid_file") from error
    if not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path}: each line must be a JSON object.", kind="invalid_file")
    yield from rows


def _document(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        document: dict[str, Any] = json.loads(content)
        check_schema(document)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not a result document: {error}.", kind="invalid_file") from error
    return document


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST)
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error


def pairs_of(
    row: Mapping[str, Any], abstracts: Mapping[str, Sequence[str]], draw: random.Random, where: str
) -> list[Case]:
    """The cases of a row: {claim, passage, label, quote if not all of it}, FEVER symmetric's {claim, evidence, label},
    or SciFact's {claim, evidence: {document: [{sentences, label}]}}, with the ``abstracts`` by document.

    The assessed answer is that the claim is true, or that it is false; the seed decides.
    """
    found = row.get("evidence")
    if isinstance(found, Mapping):
        if found and not abstracts:
            raise UserError(
                f"{where}: SciFact's claims name documents; give their texts with --corpus.", kind="missing_file"
            )
        known = [(abstracts[id], part) for id, parts in found.items() if id in abstracts for part in parts]
        passages = [
            (" ".join(text), " ".join(text[i] for i in part["sentences"]), part["label"]) for text, part in known
        ]
    else:
        passage = row.get("passage", found)
        passages = [(passage, row.get("quote") or passage, row.get("label"))]
    cases = []
    for passage, quote, label in passages:
        gold = GOLD.get(fold_label(str(label)))
        if not (isinstance(row.get("claim"), str) and isinstance(passage, str) and isinstance(quote, str) and gold):
            raise UserError(
                f"{where}: a row needs texts for claim and passage, and a label such as SUPPORTS, REFUTES or NOT "
                f"ENOUGH INFO; given is {json.dumps(dict(row))[:200]}",
                kind="invalid_file",
            )
        cases.append(_pair(row["claim"], passage, quote, gold, holds=draw.random() < 0.5))
    return cases


def _pair(claim: str, passage: str, quote: str, gold: Bearing, *, holds: bool) -> Case:
    piece = make_evidence(text=passage, source="passage")
    quotes = check_citations([Quote(evidence_id=piece["id"], quote=quote)], [piece], [piece["id"]])
    task = make_task("fever")
    answer = task["labels"][0 if holds else 1]
    return Case(claim, task, answer, quote, quotes, [piece], gold if holds else OPPOSITE[gold])


def opposite_label(task: Task, label: str) -> str | None:
    """The label that says the opposite: REFUTES of SUPPORTS; None if the label does not say true or false."""
    meanings = task["meanings"]
    sides = [(TRUE,), (FALSE, NOT_TRUE, COMPROMISED)]
    for one, other in (sides, sides[::-1]):
        if meanings.get(label) in one:
            return next((name for name in task["labels"] if meanings.get(name) in other), None)
    return None


def answers_in(document: Mapping[str, Any]) -> list[tuple[Any, Turn]]:
    """The deciding answers of a document that say true or false and have a checked quote, one for each agent."""
    return [
        (document, turn)
        for turn in deciding_answers(dict(document))
        if turn.get("answer")
        and opposite_label(document["task"], turn["answer"])
        and any(one["verified"] for one in turn["citations"])
    ]


def swap_cases(document: Mapping[str, Any], turn: Turn) -> list[Case]:
    """An answer as it is, and with the opposite label."""
    pieces = {piece["id"]: piece for piece in document["evidence"]}
    quotes = [one for one in turn["citations"] if one["verified"]]
    read = dict.fromkeys([*turn["evidence_ids"], *(one["evidence_id"] for one in quotes)])
    evidence = [pieces[id] for id in read]
    other = str(opposite_label(document["task"], turn["answer"]))
    return [
        Case(document["claim"], document["task"], label, turn["rationale"], quotes, evidence, swapped=swapped)
        for label, swapped in ((turn["answer"], False), (other, True))
    ]


async def assess_cases(cases: Sequence[Case], model: str, at_once: int) -> tuple[list[list[Bearing] | None], list[str]]:
    """What the model says of the quotes of each case, and the reasons of missing replies; None for a missing reply."""
    gate, problems = asyncio.Semaphore(at_once), dict[str, None]()
    speaker = Speaker("scorer", await open_chat_model(model))

    async def one(case: Case) -> list[Bearing] | None:
        async with gate:
            try:
                found = await assess(
                    case.claim, case.task, case.answer, case.rationale, case.quotes, case.evidence, speaker
                )
            except UserError:
                raise
            except MootError as error:
                problems[error.detail] = None
                return None
        return found.bears

    return await all_at_once(one(case) for case in cases), list(problems)


def figures(cases: Sequence[Case], found: Sequence[Sequence[Bearing] | None]) -> dict[str, Any]:
    """The measures: for pairs, precision and recall of each bearing; for swaps, how many of each kind were flagged."""
    given = [(case, bears) for case, bears in zip(cases, found, strict=True) if bears is not None]
    pairs = [(case.gold, bears[0]) for case, bears in given if case.gold]
    flagged = Counter(case.swapped for case, bears in given if not case.gold and "entails" not in bears)
    swaps = Counter(case.swapped for case, _ in given if not case.gold)
    return {
        "without_reply": len(cases) - len(given),
        "pairs": {"n": len(pairs), **{bears: precision_recall(pairs, bears) for bears in OPPOSITE}},
        "swaps": {
            "swapped": {"n": swaps[True], "flagged": flagged[True]},
            "as_given": {"n": swaps[False], "flagged": flagged[False]},
        },
    }


def precision_recall(pairs: Iterable[tuple[Any, Any]], value: Any) -> dict[str, float | int | None]:
    """Precision and recall of a value in pairs of gold and found: of 4 found 3 are right, and there are 6, so .75, .5.

    A share of nothing is None.
    """
    pairs = [*pairs]
    right = sum(gold == found == value for gold, found in pairs)
    said, there = sum(found == value for _, found in pairs), sum(gold == value for gold, _ in pairs)
    return {"gold": there, "precision": right / said if said else None, "recall": right / there if there else None}
