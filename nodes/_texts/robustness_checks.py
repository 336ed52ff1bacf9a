"""Lists the checks of a verdict's robustness, and sums up their results.

A check repeats a step that decides (`STEPS`), usually with less or reordered evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

from moot.retrievers._evidence import Evidence
from moot.retrievers._normalise import words_of
from typing_extensions import TypedDict

SAME_FACT = 0.4
"""Two quotes state the same fact if both contain at least this share of the shorter quote's `content_words`.

The value is our choice. It is reached by 17 of 20 pairs of quotes that state the same fact in different words, and by
2 of 20 pairs that state different facts about the same thing (tests/graphs/same_facts.jsonl).
"""
SHORTEST_WORD = 4
"""Minimum number of characters of a word that counts; words with a digit always count."""
FEWEST_WORDS = 3
"""Minimum number of `content_words` that two quotes of the same fact have in common."""
MOST_NAMES = 3
"""Maximum number of origins named in a sentence, and maximum number of sentences about pairs of origins."""
LONGEST_NAME = 80
"""Number of characters after which an origin's name is cut in a sentence."""
STEPS = {"judge": "the judge", "answer": "one call that answers from the evidence, as in `rag`,"}
"""Each step that checks may repeat, in words."""


NEGATIONS = frozenset(
    [
        "no",
        "not",
        "never",
        "none",
        "nobody",
        "nothing",
        "nor",
        "neither",
        "cannot",
        "nicht",
        "kein",
        "keine",
        "keinen",
        "keiner",
        "nie",
        "niemals",
        "ne",
        "pas",
        "jamais",
        "aucun",
        "aucune",
        "nunca",
        "ningún",
        "ninguna",
        "ninguno",
        "ni",
        "لا",
        "لم",
        "لن",
        "ليس",
        "ليست",
    ]
)
"""Words that negate a statement, in the languages of the page."""


class Quoted(NamedTuple):
    """A checked quote. It bears out ``answer`` or, unless ``holds``, speaks against it; unknown if that is empty."""

    text: str
    answer: str = ""
    holds: bool = True


class Check(TypedDict):
    """A check of a verdict: a step of `STEPS`, repeated with the evidence that ``kind`` names.

    - ``all``: all evidence. This check is made only if neither a single judge nor the answer of ``rag`` decided, to see
      if the repeated step gives the verdict.
    - ``origin``: all evidence except one origin.
    - ``pair``: all evidence except two origins that quote the same fact.
    - ``reversed``: all evidence in reversed order.
    - ``no_evidence``: no evidence.

    ``without`` names the removed origins, and ``evidence_ids`` lists the evidence that was used, in order.
    ``turns_left_out`` counts the answers that the judge was not shown because they cite only removed origins. ``same``
    says whether the answer is the same as the verdict. If the check gave no answer, ``same`` is null, and ``outcome``
    has the reason.
    """

    kind: Literal["all", "origin", "pair", "reversed", "no_evidence"]
    without: list[str]
    evidence_ids: list[str]
    turns_left_out: int
    answer: str | None
    same: bool | None
    outcome: str


class Robustness(TypedDict):
    """The result of the checks. ``step`` is the repeated step of `STEPS`.

    ``not_asked`` counts the checks that were not made because of ``robustness_calls``. ``holds`` says whether the
    verdict stays the same whichever single origin is removed; it is null if this is unknown. ``falls_without`` names
    the origins whose removal alone changes the verdict. ``said`` is the result in words.
    """

    step: Literal["judge", "answer"]
    checks: list[Check]
    not_asked: int
    holds: bool | None
    falls_without: list[str]
    said: str


def checks_of(
    evidence: Sequence[Evidence], names: Mapping[str, str], quoted: Mapping[str, Sequence[Quoted]], cited: Sequence[str]
) -> list[Check]:
    """The checks of a verdict without answers, the most informative first; ``names`` has the pieces' origins by id, and
    ``quoted`` the quotes by origin.
    """
    ids = [piece["id"] for piece in evidence]
    every = list(dict.fromkeys(names[id] for id in ids))
    ordered = [name for name in dict.fromkeys([*cited, *every]) if name in every]
    cited_names = set(cited)

    def make_check(kind: Any, *without: str) -> Check:
        left = [id for id in ids if names[id] not in without]
        return {
            "kind": kind,
            "without": list(without),
            "evidence_ids": left,
            "turns_left_out": 0,
            "answer": None,
            "same": None,
            "outcome": "not_asked",
        }

    first = [make_check("origin", name) for name in ordered if name in cited_names]
    rest = [make_check("origin", name) for name in ordered if name not in cited_names]
    pairs = [
        make_check("pair", *pair)
        for pair in combinations(ordered, 2)
        if any(
            state_same_fact([one.text], [other.text]) and not say_opposite(one, other)
            for one, other in product(*(quoted.get(name, ()) for name in pair))
        )
    ]
    in_reverse = [{**make_check("reversed"), "evidence_ids": ids[::-1]}] if len(ids) > 1 else []
    return [*first, *in_reverse, make_check("no_evidence", *every), *rest, *pairs] if ids else []  # type: ignore[list-item]


def state_same_fact(quotes: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a quote from one origin states the same fact as a quote from another, judged by common words."""
    return any(overlap(a, b) >= SAME_FACT for a in map(content_words, quotes) for b in map(content_words, others))


def say_opposite(one: Quoted, other: Quoted) -> bool:
    """Whether two quotes say opposite things: by the answers that they bear out, or since one of them is negated."""
    known = one.answer and other.answer
    by_answer = known and ((one.holds != other.holds) if one.answer == other.answer else (one.holds and other.holds))
    return bool(by_answer) or is_negated(one.text) != is_negated(other.text)


def is_negated(quote: str) -> bool:
    """Whether a quote has an odd number of `NEGATIONS`: "did not fall" is negated, "nobody did not fall" is not."""
    return sum(word in NEGATIONS or word.endswith(("n't", "n’t")) for word in words_of(quote)) % 2 == 1


def content_words(quote: str) -> set[str]:
    """The words of a quote that are compared: words of `SHORTEST_WORD` or more characters, and words with a digit."""
    return {word for word in words_of(quote) if len(word) >= SHORTEST_WORD or any(map(str.isdigit, word))}


def overlap(one: set[str], other: set[str]) -> float:
    """The share of the smaller set's words that are in both sets; 0 if fewer than `FEWEST_WORDS` words are in both."""
    figures = [{word for word in words if any(map(str.isdigit, word))} for words in (one, other)]
    # "5.2 per cent in March" and "6.1 per cent in June" are different facts.
    if all(figures) and not figures[0] & figures[1]:
        return 0.0
    common = len(one & other)
    return common / min(len(one), len(other)) if common >= FEWEST_WORDS else 0.0


def robustness_result(step: Literal["judge", "answer"], checks: Sequence[Check], not_asked: int) -> Robustness:
    """The result of the checks; ``not_asked`` counts those that ``robustness_calls`` left out."""
    single = [one for one in checks if one["kind"] == "origin"]
    falls = [one["without"][0] for one in single if one["same"] is False]
    known = not_asked == 0 and all(one["same"] is not None for one in single)
    holds = False if falls else (True if known and single else None)
    # If the step does not even give the verdict with all evidence, the other checks say nothing.
    if any(one["kind"] == "all" and one["same"] is not True for one in checks):
        holds, falls = None, []
    found: Robustness = {
        "step": step,
        "checks": list(checks),
        "not_asked": not_asked,
        "holds": holds,
        "falls_without": falls,
        "said": "",
    }
    return {**found, "said": " ".join(result_sentences(found))}


def result_sentences(found: Robustness) -> list[str]:
    """The result in sentences; the first says whether the verdict holds without any one source, if that is known."""
    by_kind = {kind: [one for one in found["checks"] if one["kind"] == kind] for kind in ("all", "origin", "pair")}
    again = {
        kind: next((c for c in found["checks"] if c["kind"] == kind), None) for kind in ("reversed", "no_evidence")
    }
    unknown = sum(one["same"] is None for one in found["checks"])
    if not found["checks"]:
        return ["There is no evidence to remove: the verdict was decided without evidence."]
    if any(one["same"] is None for one in by_kind["all"]):
        return [f"Unknown: with all the evidence, {STEPS['answer']} gave no answer."]
    if any(one["same"] is not True for one in by_kind["all"]):
        other = by_kind["all"][0]["answer"] or "nothing"
        return [f"Unknown: with all the evidence, {STEPS['answer']} gives {other} instead of the verdict."]
    lines = []
    if found["falls_without"]:
        becomes: dict[str, list[str]] = {}
        for one in by_kind["origin"]:
            if one["same"] is False:
                becomes.setdefault(str(one["answer"]), []).append(one["without"][0])
        lines += [
            f"Without {origins_in_words(names)} the answer becomes {answer}." for answer, names in becomes.items()
        ]
    elif found["holds"]:
        lines.append("The answer is the same without any one source.")
    else:
        lines.append("Whether the answer is the same without any one source is not known.")
    fell = [one for one in by_kind["pair"] if one["same"] is False]
    for one in [one for one in fell if not set(one["without"]) & set(found["falls_without"])][:MOST_NAMES]:
        first, second = (origins_in_words([name]) for name in one["without"])
        lines.append(f"Without both {first} and {second}, which say the same, it becomes {one['answer']}.")
    if again["reversed"] and again["reversed"]["same"] is False:
        lines.append(f"With the evidence in reversed order it becomes {again['reversed']['answer']}.")
    if again["no_evidence"] and (known := again["no_evidence"]["answer"]):
        same = ", the same," if again["no_evidence"]["same"] else ""
        lines.append(f"With no evidence the model says {known}{same} from what it knows.")
    if by_kind["all"]:
        lines.append(f"No single judge decided, so the checks repeat {STEPS['answer'].rstrip(',')}.")
    if found["not_asked"]:
        lines.append(f"{found['not_asked']} more checks were not made (robustness_calls).")
    if unknown:
        lines.append(f"{unknown} of {len(found['checks'])} checks gave no answer.")
    return lines


def origins_in_words(names: Sequence[str]) -> str:
    """Origins in words, such as ``a.org or b.org``: at most `MOST_NAMES` names, then the number of the others."""
    first = [name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME].rstrip()}..." for name in names[:MOST_NAMES]]
    left = len(names) - MOST_NAMES
    return " or ".join(first) + (f", or any of {left} others" if left > 1 else ", or another one" if left == 1 else "")
