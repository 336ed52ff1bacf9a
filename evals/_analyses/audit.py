"""Labels that systems agree against, for a person to decide on: ``moot eval audit`` lists them in a CSV file.

The file has a row for each item on which the answers of different runs agree, but differ from the right answer. A
person writes into it whether the label stays. `read_decisions` reads the decisions, and ``moot eval compare`` counts
right answers by the original and by the audited labels.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from moot.core.errors import UserError
from moot.core.files import escape_formula, read_bounded, why_unread, without_escape
from moot.evals._runs.log_files import UNREADABLE, Header, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import checked_document, damaged_error, samples_in
from moot.evals._stats.observations import question_digest
from moot.evals._stats.outcomes import ABSTAINED, INPUTS, outcome_of
from moot.nodes._texts.labels import fold_label
from moot.nodes._texts.verdict import WARRANT_WORDS, verdict_citations
from moot.retrievers._documents.tables import csv_delimiter, csv_rows
from moot.retrievers._evidence import clean

Agreement = Literal["all", "majority"]
GENERATED = (
    *("benchmark", "id", "claim", "texts", "labels", "gold", "answer", "agree", "answers", "quotes", "note"),
    "digest",
)
OWN = ("decision", "label", "who", "why")
"""Columns that a person fills in."""
DECISIONS = ("keep", "change", "unclear")
AUDIT_FIELDS = (
    *("status", "error", "claim", "task", "answer", "raw_verdict", "rounds", "metrics"),
    *("turns", "votes", "evidence"),
)
"""Fields of result documents that this module reads."""
LARGEST = 256 * 2**20
"""Maximum size of a file of decisions, in bytes."""
CONFLICTING = "the same question also occurs in this benchmark with another label"
LONGEST_TEXTS = 10_000
"""Maximum number of characters that a row shows of the texts that came with a claim; a cell of Excel holds 32,767."""
MOST_QUOTES = 5
"""Maximum number of quotes that a row shows."""


@dataclass
class AuditedItem:
    """An item, and what the runs answered; ``quotes`` are those behind each answer."""

    benchmark: str
    id: str
    claim: str
    labels: tuple[str, ...]
    gold: tuple[str, ...]
    digest: str
    note: str = ""
    texts: str = ""
    """The texts that came with the claim, on which its label rests."""
    runs: list[tuple[str, str]] = field(default_factory=list)
    """The name of each run with an outcome, and its answer; `ABSTAINED` for an abstention."""
    quotes: dict[str, dict[str, None]] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """A person's decision on the label of an item. ``label`` is the audited label, None if it is unclear."""

    gold: tuple[str, ...]
    digest: str
    kind: str
    label: str | None


def agreed_answer(answers: Sequence[str], at_least: int, agreement: Agreement) -> str | None:
    """The answer on which runs agree; None if they do not.

    At least ``at_least`` runs gave it and, for ``all``, no run gave another one or abstained; for ``majority``, more
    than half of the runs gave it.

    >>> agreed_answer(["REFUTES", "REFUTES", "SUPPORTS"], 2, "majority")
    'REFUTES'
    """
    if not answers:
        return None
    answer, count = Counter(answers).most_common(1)[0]
    enough = count == len(answers) if agreement == "all" else 2 * count > len(answers)
    return answer if answer != ABSTAINED and enough and count >= at_least else None


def read_audited(paths: Sequence[Path]) -> tuple[list[AuditedItem], list[str]]:
    """The items in logs of tasks with labels, with the answers of all runs, and notes about logs that are left out.

    Controls and attacks are left out, because they repeat a system. Blocking.
    """
    headers, notes = read_headers(find_logs(paths))
    headers, superseded = without_superseded(headers)
    notes += superseded
    found: dict[tuple[str, str], AuditedItem] = {}
    for header in headers:
        if header.metadata.get("control") or header.metadata.get("attack"):
            notes.append(f"{header.path.name}: a control or an attack; left out.")
            continue
        for item in _items_of(header):
            known = found.setdefault((item.benchmark, item.id), item)
            if (known.gold, known.digest) != (item.gold, item.digest):
                raise UserError(
                    f"{header.path}: the item {item.id!r} of {item.benchmark} is another one than in an earlier log, "
                    "or has another label. Name only logs of the same data.",
                    kind="invalid_setting",
                )
            if known is not item:
                known.runs += item.runs
                for answer, quotes in item.quotes.items():
                    known.quotes.setdefault(answer, {}).update(quotes)
    if not found:
        reasons = " ".join(notes) or "Name logs of systems on benchmarks with labels."
        raise UserError(f"These logs have no answer of a system to an item with labels. {reasons}", kind="missing_file")
    return list(found.values()), notes


def _items_of(header: Header) -> Iterator[AuditedItem]:
    """Each item of a log that has an outcome and a task with labels, with the answer of this run."""
    seed, model = header.metadata.get("seed"), header.metadata.get("model")
    about = ", ".join(filter(None, (model and str(model), "" if seed is None else f"seed {seed}")))
    name = clean(f"{header.label or 'unknown system'}{f' ({about})' if about else ''}")
    conflicting = {id for ids in (header.metadata.get("conflicting") or {}).values() for id in ids}
    place, seen = str(header.path), set[str]()
    try:
        for sample, read in samples_in(header):
            place = f"{header.path}, sample {clean(str(sample.id))[:80]}"
            document = None if read is None else checked_document(read, AUDIT_FIELDS)
            gold = (sample.target,) if isinstance(sample.target, str) else tuple(sample.target)
            outcome = None if sample.error else outcome_of(document, gold)
            if document is None or outcome is None or document["task"]["kind"] != "labels" or str(sample.id) in seen:
                continue
            seen.add(str(sample.id))
            item = AuditedItem(
                header.metadata["benchmark"],
                str(sample.id),
                document["claim"],
                tuple(document["task"]["labels"]),
                gold,
                question_digest(sample),
                CONFLICTING if str(sample.id) in conflicting else "",
                _texts_of(sample),
            )
            item.runs.append((name, outcome))
            item.quotes[outcome] = dict.fromkeys(_quotes_of(document))
            yield item
    except (*UNREADABLE, TypeError, AttributeError) as error:
        raise damaged_error(place, error) from error


def _texts_of(sample: Any) -> str:
    given = ((sample.metadata or {}).get(INPUTS) or {}).get("given") or ()
    texts = "\n\n".join("\n".join(filter(None, (one.get("title"), one["text"]))) for one in given)
    return texts if len(texts) <= LONGEST_TEXTS else f"{texts[:LONGEST_TEXTS]} ..."


def _quotes_of(document: Mapping[str, Any]) -> Iterator[str]:
    """The checked quotes behind a verdict, each with its source and what it does for the verdict."""
    pieces = {piece["id"]: piece for piece in document["evidence"]}
    for quote in verdict_citations(dict(document)):
        if quote["verified"]:
            piece = pieces[quote["evidence_id"]]
            source = " ".join(filter(None, (piece["title"], piece.get("url"))))
            bears = WARRANT_WORDS.get(quote.get("warrant"), "")
            yield f'"{quote["quote"]}" ({", ".join(filter(None, (source or piece["source"], bears)))})'


def rows_to_decide(items: Sequence[AuditedItem], at_least: int, agreement: Agreement) -> Iterator[dict[str, str]]:
    """A row of the file for each item on which the runs agree on an answer that is not right."""
    for item in items:
        answer = agreed_answer([outcome for _, outcome in item.runs], at_least, agreement)
        if answer is None or answer in item.gold:
            continue
        count = sum(outcome == answer for _, outcome in item.runs)
        texts = {
            "benchmark": item.benchmark,
            "id": item.id,
            "claim": item.claim,
            "texts": item.texts,
            "labels": "|".join(item.labels),
            "gold": "|".join(item.gold),
            "answer": answer,
            "agree": f"{count} of {len(item.runs)}",
            "answers": "\n".join(f"{name}: {outcome or '(no answer)'}" for name, outcome in item.runs),
            "quotes": "\n".join([*item.quotes.get(answer, ())][:MOST_QUOTES]),
            "note": item.note,
            "digest": item.digest,
        }
        yield {name: escape_formula(text) for name, text in texts.items()} | dict.fromkeys(OWN, "")


# --- the file ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AuditFile:
    """The contents of a file of decisions: its rows, each with its line, its columns, and its delimiter."""

    rows: tuple[tuple[int, dict[str, str]], ...] = ()
    columns: tuple[str, ...] = (*GENERATED, *OWN)
    delimiter: str = ","


def read_audit_file(path: Path) -> AuditFile:
    """Read a file that `written` made, also after a spreadsheet program has saved it. Blocking."""
    try:
        text = read_bounded(path, LARGEST).decode("utf-8-sig")
    except OSError as error:
        raise UserError(why_unread(path, error), kind="missing_file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text. Save it as CSV in UTF-8.", kind="invalid_file") from error
    lines = text.splitlines(keepends=True)
    delimiter = csv_delimiter(lines, "decision")
    found = list(csv_rows(lines, delimiter))
    columns = tuple(cell.strip() for cell in found[0].cells) if found else ()
    if lacking := [name for name in (*GENERATED, *OWN) if columns.count(name) != 1]:
        raise UserError(
            f"{path} is not a file of `moot eval audit`: each of these columns must occur once: {', '.join(lacking)}.",
            kind="invalid_file",
        )
    rows = []
    for row in found[1:]:
        if row.problem or len(row.cells) > len(columns):
            why = row.problem or f"{len(row.cells)} cells for {len(columns)} columns"
            raise UserError(f"{path}, line {row.line}: {why}.", kind="invalid_file")
        cells = [*row.cells, *[""] * (len(columns) - len(row.cells))]
        rows.append((row.line, dict(zip(columns, cells, strict=True))))
    return AuditFile(tuple(rows), columns, delimiter)


def is_touched(row: Mapping[str, str]) -> bool:
    """Whether a person has written into a row: in a column of `OWN`, or in one that the person has added."""
    return any(cell.strip() for name, cell in row.items() if name not in GENERATED)


def merged(known: AuditFile, fresh: Sequence[Mapping[str, str]]) -> AuditFile:
    """A file with the present rows, in which rows that a person has written into are as they were, word for word.

    Of the rows without a word of a person, only those that are listed now remain.
    """
    kept = {(row["benchmark"], row["id"]): row for _, row in known.rows if is_touched(row)}
    rows = [kept.pop((row["benchmark"], row["id"]), dict(row)) for row in fresh]
    rows += kept.values()
    blank = dict.fromkeys(known.columns, "")
    return AuditFile(tuple(enumerate(({**blank, **row} for row in rows), 2)), known.columns, known.delimiter)


def written(file: AuditFile) -> str:
    """The text of a file, with a byte order mark, without which spreadsheet programs misread UTF-8."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, file.columns, delimiter=file.delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(row for _, row in file.rows)
    return f"\ufeff{out.getvalue()}"


def read_decisions(path: Path) -> dict[tuple[str, str], Decision | None]:
    """The decisions in a file by benchmark and id; None for a row without a decision. Blocking."""
    found: dict[tuple[str, str], Decision | None] = {}
    for line, cells in read_audit_file(path).rows:
        row = {name: without_escape(cell) if name in GENERATED else cell for name, cell in cells.items()}
        key = (row["benchmark"], row["id"])
        if key in found:
            raise UserError(f"{path}, line {line}: the item {row['id']!r} occurs twice.", kind="invalid_file")
        try:
            found[key] = _decision(row)
        except ValueError as error:
            raise UserError(f"{path}, line {line}: {error}", kind="invalid_file") from error
    return found


def _decision(row: Mapping[str, str]) -> Decision | None:
    """The decision in a row; ValueError, which says what to write, if it cannot be used."""
    kind, label, who, why = (row[name].strip() for name in OWN)
    kind = kind.casefold()
    if not (kind or label):
        return None
    if kind not in DECISIONS:
        raise ValueError(f"`decision` must be one of {', '.join(DECISIONS)}, not {kind[:40]!r}.")
    if not who or not why:
        raise ValueError("a decision needs `who` decided, and `why`.")
    gold = tuple(row["gold"].split("|"))
    labels = {fold_label(one): one for one in row["labels"].split("|")}
    named = labels.get(fold_label(label)) if label else None
    if label and named is None:
        raise ValueError(f"`label` must be one of {', '.join(labels.values())}, not {label[:40]!r}.")
    if kind == "change" and (named is None or named in gold):
        raise ValueError("the decision is change, so `label` must have the right label, another one than `gold`.")
    if kind != "change" and named and named not in gold:
        raise ValueError(f"the decision is {kind}, but `label` has another label than `gold`: empty it.")
    return Decision(gold, row["digest"], kind, {"change": named, "keep": gold[0]}.get(kind))
