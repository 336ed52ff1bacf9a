"""Reads records of claims with one label each: FEVER and its variants, AVeriTeC, HoVer, SciFact and others.

Each reader makes an item from a record, or raises `InvalidRecord` or `SkippedRecord`
(`moot.evals._benchmarks.records`). The docstring of a reader shows the fields of a published record, and the fields on
the Hub if they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from moot.evals._benchmarks.records import (
    ELEMENTS,
    UNLABELLED,
    InvalidRecord,
    Item,
    Record,
    SkippedRecord,
    drop_empty,
    gold_answer,
    group_name,
    optional_field,
    page_title,
    published_shape,
    text_field,
    unique_titles,
)
from moot.evals._benchmarks.records_files import invalid, read_file
from moot.nodes._records.entries import LONGEST_SPEAKER
from moot.nodes._texts.labels import fold_label, spellings
from moot.nodes._texts.task import make_task

ELEMENT = re.compile(rf"(?P<page>.+?)_(?P<element>{ELEMENTS})")
"""Pattern of FEVEROUS's evidence ids: ``Lake Tikub_sentence_0``, ``Lake Tikub_cell_0_1_1``."""
DAY = re.compile(r"(\d{1,2})-(\d{1,2})-(\d{4})")
"""Pattern of AVeriTeC's dates: day, month and year."""


def gold_label(record: Record, task: str, *names: str) -> tuple[str]:
    """The gold label in the task's spelling, as a tuple for `Item.gold`."""
    found = gold_answer(record, *(names or ("label",)))
    if (known := _labels_by_spelling(task).get(fold_label(found))) is None:
        labels = ", ".join(dict.fromkeys(_labels_by_spelling(task).values()))
        raise InvalidRecord(f"the label {found[:80]!r} is not one of {labels}")
    return (known,)


@lru_cache
def _labels_by_spelling(task: str) -> dict[str, str]:
    """The labels of a task by their normalised spellings."""
    return spellings(make_task(task))


def with_two_labels(read: Callable[[Record], Item], task: str) -> Callable[[Record], Item]:
    """Make a reader that skips records whose label is not one of the two labels of a task."""

    def read_if_known(record: Record) -> Item:
        item = read(record)
        known = _labels_by_spelling(task).get(fold_label(item.gold[0]))
        if known is None:
            raise SkippedRecord(f"the label {item.gold[0]}, which this benchmark does not use")
        return replace(item, gold=(known,))

    return read_if_known


# --- Wikipedia --------------------------------------------------------------------------------------------------------


def fever(record: Record) -> Item:
    """Read a record {id, label, claim, evidence: [[[annotation, evidence, page or null, sentence]]]}.

    The evidence is a list of alternative sets. Pieces without a page are left out.
    """
    gold = gold_label(record, "fever")
    with published_shape("evidence"):
        groups = record.fields.get("evidence") or []
        sets = [[[page_title(page), line] for _, _, page, line in group if page is not None] for group in groups]
    sets = [pairs for pairs in sets if pairs]
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "id"),
        gold_evidence=drop_empty(sets=sets, pages=unique_titles(pair for pairs in sets for pair in pairs)),
    )


def fever_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert the Hub's rows of FEVER to records in the published shape.

    Each row has at most one sentence of evidence. Rows with the same id are one record.
    """
    records: dict[Any, dict[str, Any]] = {}
    groups: dict[Any, dict[Any, list[Any]]] = {}
    for row in rows:
        records.setdefault(row["id"], {key: row[key] for key in ("id", "label", "claim")})
        parts = [row[f"evidence_{part}"] for part in ("annotation_id", "id", "wiki_url", "sentence_id")]
        parts[2] = parts[2] or None
        groups.setdefault(row["id"], {}).setdefault(parts[1], []).append(parts)
    return [record | {"evidence": list(groups[key].values())} for key, record in records.items()]


def fever_symmetric(record: Record) -> Item:
    """Read a record {id, claim, evidence: a sentence, gold_label}.

    The label belongs to the claim together with the sentence. The sentence may also be in the field evidence_sentence,
    and the label in the field label.
    """
    gold = gold_label(record, "fever", "gold_label", "label")
    sentence, claim = text_field(record, "evidence", "evidence_sentence"), text_field(record, "claim")
    return Item(
        claim=claim,
        gold=gold,
        id=optional_field(record, "id"),
        group=claim,
        given=(("", sentence),),
        gold_evidence={"texts": [sentence]},
    )


def own_claim(record: Record) -> Item:
    """Read a row of the user's own claims, with the fields of `moot.evals._benchmarks.claim_files.ClaimRow`.

    If the row names no labels, its label must be one of FEVER's three labels.
    """
    row = record.fields
    labels = row["labels"]
    if not row["label"]:
        raise SkippedRecord(UNLABELLED)
    try:
        gold = (row["label"],) if labels else gold_label(record, "fever")
    except InvalidRecord as error:
        raise InvalidRecord(
            f"{error}. Write one of these, or name your own labels in a column `labels`, as in true|false"
        ) from error
    return Item(
        claim=row["claim"],
        gold=gold,
        id=row["id"],
        task="labels" if labels else "fever",
        labels=labels,
        group=row["group"] or "",
        claim_date=row["claim_date"],
        speaker=row["speaker"],
        given=row["given"],
    )


def feverous(record: Record) -> Item:
    """Read a record {id, claim, label, challenge, evidence: [{content: [element]}]}.

    In ProgramFC's copy, the evidence is a text. Each line of it has a title, a tab and a sentence.
    """
    gold = gold_label(record, "feverous")
    with published_shape("evidence"):
        found = record.fields.get("evidence") or []
        if isinstance(found, str):
            lines = [line.partition("\t") for line in found.splitlines() if line.strip()]
            sets, pages = [], [page_title(title) for title, _, _ in lines]
        else:
            sets = [[_parse_element(i) for i in group["content"]] for group in found if group["content"]]
            pages = unique_titles(pair for pairs in sets for pair in pairs)
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "id"),
        stratum=optional_field(record, "challenge"),
        gold_evidence=drop_empty(sets=sets, pages=list(dict.fromkeys(pages))),
    )


def _parse_element(name: str) -> list[str]:
    """The page and the element in an evidence id."""
    if not (match := ELEMENT.fullmatch(name)):
        raise ValueError(f"{name!r} is not an element of a page")
    return [page_title(match["page"]), match["element"]]


def faviq(record: Record) -> Item:
    """Read a record {id, claim, label, positive_evidence: {id, title, text}}.

    In newer releases, positive_evidence is a list of such objects.
    """
    gold = gold_label(record, "faviq")
    with published_shape("positive_evidence"):
        found = record.fields.get("positive_evidence") or []
        passages = [passage for passage in ([found] if isinstance(found, dict) else found) if passage]
        documents = [str(passage["id"]) for passage in passages if passage.get("id")]
        pages = list(dict.fromkeys(page_title(passage["title"]) for passage in passages if passage.get("title")))
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "id"),
        gold_evidence=drop_empty(documents=documents, pages=pages),
    )


def hover(record: Record) -> Item:
    """Read a record {uid, claim, label, num_hops, hpqa_id, supporting_facts: [[title, sentence]]}.

    On the Hub, a fact is {key, value}.
    """
    gold = gold_label(record, "hover")
    hops = optional_field(record, "num_hops")
    with published_shape("supporting_facts"):
        facts = record.fields.get("supporting_facts") or []
        pairs = [[fact["key"], fact["value"]] if isinstance(fact, dict) else [fact[0], fact[1]] for fact in facts]
        pages = unique_titles(pairs)
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "uid", "id"),
        stratum=f"{hops} hops" if hops else "",
        group=optional_field(record, "hpqa_id"),
        gold_evidence=drop_empty(sets=[pairs] if pairs else [], pages=pages),
    )


# --- the web ----------------------------------------------------------------------------------------------------------


def averitec(record: Record) -> Item:
    """Read a record {claim, label, claim_date, speaker, claim_types, questions: [{question, answers}]}.

    claim_date is a text D-M-YYYY, an ISO date or null. The files of the shared tasks of 2024 and 2025 also have
    claim_id, and one answer may stand without a list around it.
    """
    gold = gold_label(record, "averitec")
    with published_shape("questions"):
        asked = [(q["question"], _listed(q["answers"])) for q in record.fields.get("questions") or []]
        questions = [{"question": q, "answers": [_answer_text(a) for a in answers]} for q, answers in asked]
        found = [a["source_url"] for _, answers in asked for a in answers if a.get("source_url")]
        urls = list(dict.fromkeys(found))
    with published_shape("claim_types"):
        stratum = ", ".join(sorted(record.fields.get("claim_types") or []))
    day = _parse_day(optional_field(record, "claim_date"))
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "claim_id"),
        stratum=stratum,
        claim_date=day,
        speaker=optional_field(record, "speaker")[:LONGEST_SPEAKER] or None,
        published_before=day,
        gold_evidence=drop_empty(questions=questions, urls=urls),
    )


def _listed(answers: Any) -> list[Mapping[str, Any]]:
    return answers if isinstance(answers, list) else [answers]


def _answer_text(found: Mapping[str, Any]) -> str:
    """An answer, with its explanation if it is yes or no, as AVeriTeC's script joins them."""
    answer: str = found["answer"]
    explanation = found.get("boolean_explanation")
    return answer + ". " + explanation if found.get("answer_type") == "Boolean" and explanation is not None else answer


def _parse_day(text: str, name: str = "claim_date") -> str | None:
    if not text:
        return None
    match = DAY.fullmatch(text)
    try:
        day = date(int(match[3]), int(match[2]), int(match[1])) if match else datetime.fromisoformat(text).date()
        return day.isoformat()
    except ValueError as error:
        raise InvalidRecord(f"the field {name} is not a date: {text[:40]!r}") from error


def quantemp(record: Record) -> Item:
    """Read a record {claim, label, doc, url, taxonomy_label, country_of_origin, lang}.

    ``doc`` is the fact-checking article, which has the verdict, and ``url`` its address; neither is evidence.
    """
    return Item(
        gold=gold_label(record, "quantemp"),
        claim=text_field(record, "claim"),
        stratum=optional_field(record, "taxonomy_label"),
    )


WITH_MEDIA = "a claim with an image or a video, which moot does not read"
MEDIA = re.compile(r"<(?:image|video):[^>]*>")
"""Pattern of the places of images and videos in claims of VeriTaS."""


def claimreview2024plus(record: Record) -> Item:
    """Read a record {text, label, image: a path or null, date: ISO time or null, author}; claims without images.

    The records have no ids, so the numbers of the records stand for them.
    """
    gold = gold_label(record, "claimreview2024plus")
    if record.fields.get("image"):
        raise SkippedRecord(WITH_MEDIA)
    day = _parse_day(optional_field(record, "date"), "date")
    return Item(
        claim=text_field(record, "text"),
        gold=gold,
        claim_date=day,
        speaker=optional_field(record, "author")[:LONGEST_SPEAKER] or None,
        published_before=day,
    )


INTACT_FROM = 0.33
"""The integrity from which VeriTaS's authors call a claim intact and, with a minus sign, up to which compromised."""


def veritas(record: Record) -> Item:
    """Read a claim {id, text, date, media: [], integrity: {score}} without images and videos.

    In older files, it is {id, data, date, verdict: {integrity}}. The integrity is a number from -1 to 1; the three
    labels are those of VeriTaS's authors.
    """
    with published_shape("integrity"):
        found = record.fields["integrity"] if "integrity" in record.fields else record.fields["verdict"]["integrity"]
        found = found["score"] if isinstance(found, dict) else found
        integrity = None if found is None else float(found)
    if integrity is None:
        raise SkippedRecord(UNLABELLED)
    if not -1 <= integrity <= 1:
        raise InvalidRecord(f"the integrity {integrity} is not between -1 and 1")
    claim = text_field(record, "text", "data")
    if record.fields.get("media") or MEDIA.search(claim):
        raise SkippedRecord(WITH_MEDIA)
    day = _parse_day(optional_field(record, "date"), "date")
    label = "Intact" if integrity >= INTACT_FROM else "Compromised" if integrity <= -INTACT_FROM else "Unknown"
    return Item(claim=claim, gold=(label,), id=optional_field(record, "id"), claim_date=day, published_before=day)


def veritas_claims(fields: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The claims of a file {metadata, claims: [claim]}; an object without the field ``claims`` is itself a claim."""
    if "claims" not in fields:
        return [fields]
    if not isinstance(claims := fields["claims"], list) or not all(isinstance(one, dict) for one in claims):
        raise InvalidRecord("the field claims does not have the published shape")
    return claims


# --- claims with their text ------------------------------------------------------------------------------------------


def llm_aggrefact(record: Record) -> Item:
    """Read a record {dataset, doc, claim, label: 1 or 0, contamination_identifier}; 1: the document supports the claim.

    The label belongs to the claim together with the document.
    """
    labels = {"1": "SUPPORTED", "0": "NOT_SUPPORTED"}
    label = gold_answer(record, "label")
    if label not in labels:
        raise InvalidRecord(f"the label {label[:80]!r} is neither 1 nor 0")
    document = text_field(record, "doc")
    return Item(
        claim=text_field(record, "claim"),
        gold=(labels[label],),
        stratum=optional_field(record, "dataset"),
        group=group_name(document),
        given=(("", document),),
    )


# --- science ----------------------------------------------------------------------------------------------------------


def scifact(record: Record) -> Item:
    """Read a record {id, claim, evidence: {document: [{sentences, label}]}}.

    If there is not enough evidence for a verdict, the field ``evidence`` is {}. Records of test sets do not have the
    field, and are skipped.
    """
    with published_shape("evidence"):
        found = record.fields.get("evidence")
        if found is None:
            raise SkippedRecord(UNLABELLED)
        parts = [(document, part) for document, parts in found.items() for part in parts]
        sets = [[[document, n] for n in part["sentences"]] for document, part in parts]
        labels = {part["label"] for _, part in parts}
    if len(labels) > 1:
        raise SkippedRecord("evidence with more than one label")
    fields = {**record.fields, "label": labels.pop() if labels else "NOT ENOUGH INFO"}
    return Item(
        gold=gold_label(Record(fields, record.where), "scifact"),
        claim=text_field(record, "claim"),
        id=optional_field(record, "id"),
        gold_evidence=drop_empty(sets=sets, documents=list(found)),
    )


def scifact_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Convert the Hub's rows of SciFact to records in the published shape.

    Each row has at most one piece of evidence. Rows with the same id are one record.
    """
    records: dict[Any, dict[str, Any]] = {}
    for row in rows:
        record = records.setdefault(row["id"], {"id": row["id"], "claim": row["claim"], "evidence": {}})
        if row["evidence_label"]:
            part = {"sentences": row["evidence_sentences"], "label": row["evidence_label"]}
            record["evidence"].setdefault(str(row["evidence_doc_id"]), []).append(part)
    return list(records.values())


def check_covid(record: Record) -> Item:
    """Read a record {id, claim, label, cord_id, evidence_set: [{sent_index}]}.

    The label belongs to the claim together with the sentences in ``evidence_set``. Most claims of records with the
    label NOTENOUGHINFO also occur, word for word, in records with another label. A system that reads only the claim
    cannot answer all these records correctly (see `moot.evals._benchmarks.records_items.best_possible_accuracy`). So
    `with_sentences` adds the sentences. If the label is NOTENOUGHINFO, the document is gold evidence, but the
    document's sentences are not.
    """
    gold = gold_label(record, "check_covid")
    sentences = record.fields.get("sentences")
    document = optional_field(record, "cord_id")
    with published_shape("evidence_set"):
        pairs = [[document, part["sent_index"]] for part in record.fields.get("evidence_set") or []]
    is_gold = gold[0] != "NOTENOUGHINFO"
    return Item(
        claim=text_field(record, "claim"),
        gold=gold,
        id=optional_field(record, "id"),
        group=document,
        given=((optional_field(record, "title"), sentences),) if sentences else (),
        gold_evidence=drop_empty(sets=[pairs] if pairs and is_gold else [], documents=[document] if document else []),
    )


def with_sentences(records: list[Record], file: Path) -> tuple[list[Record], str]:
    """Add to each of Check-COVID's records the sentences of its ``evidence_set``, which are in ``corpus.json``.

    ``corpus.json`` contains records {cord_id, title, abstract: [sentence]}. It is in the folder of ``file``, or in the
    folder above.
    """
    paths = [folder / "corpus.json" for folder in (file.parent, file.parent.parent)]
    corpus = next((path for path in paths if path.is_file()), None)
    if corpus is None:
        return (
            records,
            "there is no corpus.json beside the records or in the folder above, so claims come without the sentences "
            "that their labels are about",
        )
    abstracts = {str(entry.fields.get("cord_id")): entry.fields for entry in read_file(corpus, corpus.name)}
    return [
        _add_sentences(record, abstracts) for record in records
    ], "each claim comes with the sentences that its label is about"


def _add_sentences(record: Record, abstracts: Mapping[str, Mapping[str, Any]]) -> Record:
    try:
        article = abstracts[str(record.fields["cord_id"])]
        chosen = [article["abstract"][part["sent_index"]] for part in record.fields["evidence_set"]]
        fields = {**record.fields, "title": article.get("title"), "sentences": " ".join(chosen)}
    except (LookupError, TypeError) as error:
        why = "the record's sentences are not in corpus.json. Take both files from one release."
        raise invalid(record.where, why) from error
    return replace(record, fields=fields)


def healthver(record: Record) -> Item:
    """Read a record {id, evidence: a sentence, claim, label}.

    The label belongs to the claim together with the sentence.
    """
    gold = gold_label(record, "healthver")
    sentence, claim = text_field(record, "evidence"), text_field(record, "claim")
    return Item(
        claim=claim,
        gold=gold,
        id=optional_field(record, "id"),
        group=claim,
        given=(("", sentence),),
        gold_evidence={"texts": [sentence]},
    )


def pubmedqa(record: Record) -> Item:
    """Read a record {PMID: {QUESTION, CONTEXTS, final_decision, LONG_ANSWER}}.

    On the Hub, a record is {pubid, question, context, long_answer, final_decision}. The contexts are not given to the
    system.
    """
    gold = gold_label(record, "pubmedqa", "final_decision")
    pmid = optional_field(record, "id", "pubid")
    return Item(
        claim=text_field(record, "QUESTION", "question"),
        gold=gold,
        id=pmid,
        gold_evidence=drop_empty(documents=[pmid] if pmid else []),
    )
