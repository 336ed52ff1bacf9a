"""Makes items from records, checks each item, and writes notes about records that are left out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from moot.core.errors import UserError
from moot.core.words import count_with_noun
from moot.evals._benchmarks.records import InvalidRecord, Item, Reading, Record, SkippedRecord, check_gold_evidence
from moot.evals._benchmarks.records_files import invalid
from moot.nodes._texts.answers import LONGEST_ANSWER, read_answer
from moot.nodes._texts.task import LONGEST_CLAIM, LONGEST_OPTION, TASKS, check_claim, make_task

MOST_PLACES = 3
"""Maximum number of places that a note names."""
MOST_ANSWERS, MOST_IDS, LONGEST_GOLD = 10, 5, 60
"""Maximum numbers of right answers and, for each, of ids in a note; and of characters of a right answer."""


def read_items(records: Sequence[Record], convert: Callable[[Record], Item], task: str, title: str) -> Reading:
    """Convert records to items, with notes about records that are left out, duplicates, and missing dates."""
    items: dict[str, Item] = {}
    left_out: dict[str, list[str]] = defaultdict(list)
    dropped_answers = 0
    sizes = Counter(record.file for record in records)
    for record in records:
        try:
            converted = convert(record)
            item = checked_item(converted, task)
        except InvalidRecord as error:
            raise invalid(record.where, f"{error}. It was read as a record of the benchmark {title!r}.") from error
        except SkippedRecord as reason:
            left_out[str(reason)].append(record.where)
            continue
        dropped_answers += len(converted.gold) - len(item.gold)
        item = replace(item, id=record.id or item.id or _substitute_id(record, sizes), source=record.where)
        other = items.setdefault(item.id, item)
        if other is not item and replace(item, source=other.source) != other:
            raise invalid(record.where, f"another record has the same id {item.id[:80]!r} ({other.source}).")
        if other is not item:
            left_out["a duplicate of another record"].append(record.where)
    notes = [
        f"{len(places)} of {len(records)} records left out: {reason} "
        f"({'; '.join(places[:MOST_PLACES])}{'; ...' if len(places) > MOST_PLACES else ''})"
        for reason, places in left_out.items()
    ]
    if dropped_answers:
        notes.append(
            f"{count_with_noun(dropped_answers, 'accepted answer')} left out: repeated or invalid "
            f"(for example, a single symbol or a text of more than {LONGEST_ANSWER} characters)"
        )
    found_items = tuple(items.values())
    return Reading(found_items, (*notes, *_duplicate_notes(found_items), *_date_notes(found_items)))


def _substitute_id(record: Record, sizes: Mapping[str, int]) -> str:
    """Make an id for a record that has none.

    If all records come from one file, the id is the record's index in the file. If there are several files, the id is
    the file's name, followed by the index if the file has several records.
    """
    if len(sizes) == 1:
        return str(record.index)
    return record.file if sizes[record.file] == 1 else f"{record.file}:{record.index}"


def checked_item(item: Item, task_name: str) -> Item:
    """Check that moot accepts an item, and return it with only the gold answers that moot can read, each once."""
    if len(item.claim) > LONGEST_CLAIM:
        raise SkippedRecord(f"a claim of more than {LONGEST_CLAIM:,} characters, which is too long for moot")
    if any(len(option) > LONGEST_OPTION for option in item.options):
        raise SkippedRecord(f"an option of more than {LONGEST_OPTION:,} characters, which is too long for moot")
    if not all(text.strip() for _, text in item.given):
        raise SkippedRecord("an empty text among those that come with the claim or question")
    check_gold_evidence(item.gold_evidence or {})
    try:
        claim = check_claim(item.claim)
        task = make_task(item.task or task_name, options=item.options or None, labels=item.labels or None, claim=claim)
    except UserError as error:
        raise InvalidRecord(error.detail.rstrip(".")) from error
    gold = tuple(dict.fromkeys(filter(None, (read_answer(task, answer) for answer in item.gold))))
    if not gold:
        raise SkippedRecord(f"no gold answer that is valid for the task {task['name']}")
    return replace(item, claim=claim, gold=gold)


def _duplicate_notes(items: Sequence[Item]) -> list[str]:
    by_question: dict[tuple[str, tuple[str, ...]], list[Item]] = defaultdict(list)
    for item in items:
        by_question[item.claim, item.options].append(item)
    repeated_groups = [found for found in by_question.values() if len(found) > 1]
    repeated = sum(len(found) - len({(item.gold, item.given) for item in found}) for found in repeated_groups)
    conflicting = [found for found in repeated_groups if len({item.gold for item in found}) > 1]
    notes = (
        [f"{count_with_noun(repeated, 'item')} with the same question and answer as another item, but a different id"]
        if repeated
        else []
    )
    distinguishable = sum(
        len({(_context(item), item.gold) for item in found}) == len({_context(item) for item in found})
        for found in conflicting
    )
    if distinguishable:
        reason = "the right answer depends on the text, date or speaker"
        notes.append(f"{count_with_noun(distinguishable, 'question')} with different answers: {reason}")
    return notes


def conflicting_items(items: Sequence[Item]) -> set[str]:
    """The ids of items whose question, options and context (`_context`) another item has with another right answer."""
    golds: dict[tuple[object, ...], set[tuple[str, ...]]] = defaultdict(set)
    for item in items:
        golds[_question(item)].add(item.gold)
    return {item.id for item in items if len(golds[_question(item)]) > 1}


def conflicts_of(items: Sequence[Item], conflicting: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The ids of the ``conflicting`` among some items, by right answer; the most frequent one first."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in items:
        if item.id in conflicting:
            found[" / ".join(item.gold)].append(item.id)
    return {gold: tuple(ids) for gold, ids in sorted(found.items(), key=lambda pair: -len(pair[1]))}


def conflict_note(items: Sequence[Item], conflicts: Mapping[str, Sequence[str]]) -> str:
    """A note on items that no system can tell apart from others: how many, and which; empty if there are none."""
    if not conflicts:
        return ""
    of = Counter(" / ".join(item.gold) for item in items)
    shown = list(conflicts.items())[:MOST_ANSWERS]
    parts = [
        f"{len(ids)} of {of[gold]} with the right answer {gold[:LONGEST_GOLD]} ({', '.join(ids[:MOST_IDS])}"
        f"{f' and {len(ids) - MOST_IDS} more' if len(ids) > MOST_IDS else ''})"
        for gold, ids in shown
    ]
    if rest := sum(map(len, conflicts.values())) - sum(len(ids) for _, ids in shown):
        parts.append(f"{rest} with other right answers")
    count = sum(map(len, conflicts.values()))
    is_cut = any(len(ids) > MOST_IDS for ids in conflicts.values())
    all_ids = ". `conflicting` in the metadata of logs, and of --dry-run --json, has all ids" if is_cut else ""
    return (
        f"{count:,} of {count_with_noun(len(items), 'item')} also occur in this benchmark with another right answer, "
        f"with the same texts, date and speaker, and no system can tell these apart: {'; '.join(parts)}{all_ids}"
    )


def _question(item: Item) -> tuple[object, ...]:
    return (item.claim, item.options, *_context(item))


def _context(item: Item) -> tuple[object, ...]:
    """What a system can know of an item besides its question and options."""
    return (item.given, item.claim_date, item.speaker, item.published_before)


def best_possible_accuracy(items: Sequence[Item], task: str) -> float | None:
    """The best possible accuracy of a system that gives the same answer to identical questions.

    Questions are identical if their claims, options and contexts (`_context`) are equal.

    None if this accuracy is 1, if the task's answers are neither labels nor letters, or if there is no item.
    """
    if TASKS[task].kind not in ("labels", "choice") or not items:
        return None
    right: dict[tuple[object, ...], Counter[str]] = defaultdict(Counter)
    for item in items:
        right[_question(item)][item.gold[0]] += 1
    best = sum(max(golds.values()) for golds in right.values()) / len(items)
    return best if best < 1 else None


def _date_notes(items: Sequence[Item]) -> list[str]:
    missing = sum(item.published_before is None for item in items)
    if missing in (0, len(items)):
        return []
    return [f"items without a date: {missing} of {len(items)}; the date of their evidence is not limited"]
