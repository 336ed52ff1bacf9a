"""Defines tasks, and words them for prompts. A task says what form an answer has.

`moot.nodes._texts.answers` parses the answers.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal
from urllib.parse import urlsplit

from moot.core.errors import UserError, did_you_mean
from moot.core.redaction import redact
from moot.nodes._records.entries import LONGEST_SPEAKER, Task
from moot.nodes._texts.answers import ABSTENTION, abstains
from moot.nodes._texts.labels import (
    COMPROMISED,
    CONFLICTING,
    FALSE,
    MAYBE,
    MIXED,
    NO,
    NOT_TRUE,
    OPEN,
    QUOTES,
    REFUTED,
    SENSES,
    SUPPORTED,
    TRUE,
    UNSETTLED,
    WITHOUT_EVIDENCE,
    YES,
    fold_label,
    normal_option,
)
from moot.prompts._files import as_data, without_brackets
from moot.retrievers._archives import is_url, website_of
from moot.retrievers._evidence import clean

LONGEST_CLAIM = 4000
LONGEST_LABEL = 500
LONGEST_OPTION = 2000
LONGEST_ADDRESS = 2000
"""The maximum lengths of a claim, a label, an option and an address, in characters."""


@dataclass(frozen=True)
class KnownTask:
    """A predefined task."""

    kind: Literal["labels", "choice", "short_answer", "number", "expression"]
    about: str  # the description in lists of tasks
    labels: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # label, meaning, other spellings


def _claim_task(about: str, supported: str, refuted: str, unsettled: str | None = None, *more: Any) -> KnownTask:
    labels = [(supported, TRUE, SUPPORTED), (refuted, FALSE, REFUTED)]
    if unsettled:
        labels.append((unsettled, OPEN, UNSETTLED))
    return KnownTask("labels", about, (*labels, *more))


_HOVER = (("SUPPORTED", TRUE, SUPPORTED), ("NOT_SUPPORTED", NOT_TRUE, REFUTED))
_PUBMEDQA = (("yes", YES, ()), ("no", NO, ()), ("maybe", MAYBE, ()))
_MIXED = ("Conflicting Evidence/Cherrypicking", CONFLICTING, MIXED)
_VERITAS = (("Intact", TRUE, SUPPORTED), ("Compromised", COMPROMISED, REFUTED), ("Unknown", OPEN, UNSETTLED))
_QUANTEMP = (("True", TRUE, SUPPORTED), ("False", FALSE, REFUTED), ("Conflicting", CONFLICTING, MIXED))

TASKS: dict[str, KnownTask] = {
    "labels": KnownTask("labels", "one of your own labels"),
    "choice": KnownTask("choice", "one of the given options, by its letter"),
    "short_answer": KnownTask("short_answer", "a name, phrase or span"),
    "number": KnownTask("number", "a number, compared by value and unit"),
    "expression": KnownTask("expression", "a mathematical expression in LaTeX"),
    "fever": _claim_task("FEVER: three labels", "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
    "feverous": _claim_task("FEVEROUS: three labels", "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
    "faviq": _claim_task("FaVIQ: two labels", "SUPPORTS", "REFUTES"),
    "averitec": _claim_task("AVeriTeC: four labels", "Supported", "Refuted", "Not Enough Evidence", _MIXED),
    "hover": KnownTask("labels", "HoVer: two labels", _HOVER),
    "scifact": _claim_task("SciFact: three labels", "SUPPORT", "CONTRADICT", "NOT ENOUGH INFO"),
    "check_covid": _claim_task("Check-COVID: three labels", "SUPPORT", "REFUTE", "NOTENOUGHINFO"),
    "check_covid_binary": _claim_task("Check-COVID: two labels", "SUPPORT", "REFUTE"),
    "healthver": _claim_task("HealthVer: three labels", "Supports", "Refutes", "Neutral"),
    "healthver_binary": _claim_task("HealthVer: two labels", "SUPPORT", "REFUTE"),
    "pubmedqa": KnownTask("labels", "PubMedQA: yes, no, maybe", _PUBMEDQA),
    "llm_aggrefact": KnownTask("labels", "LLM-AggreFact: two labels", _HOVER),
    "quantemp": KnownTask("labels", "QuanTemp: three labels", _QUANTEMP),
    "claimreview2024plus": _claim_task(
        "ClaimReview2024+: four labels",
        "supported",
        "refuted",
        "not enough information",
        ("misleading", CONFLICTING, MIXED),
    ),
    "veritas": KnownTask("labels", "VeriTaS: three labels", _VERITAS),
    **{
        name: KnownTask("choice", f"{title}: the letter of an option")
        for name, title in {
            "medqa": "MedQA",
            "medmcqa": "MedMCQA",
            "mmlu": "MMLU",
            "mmlu_pro": "MMLU-Pro",
            "gpqa": "GPQA",
            "arc_challenge": "ARC-Challenge",
            "faitheval_counterfactual": "FaithEval (counterfactual contexts)",
        }.items()
    },
    **{
        name: KnownTask("short_answer", f"{title}: a name, phrase or span")
        for name, title in {
            "triviaqa": "TriviaQA",
            "nq_open": "NQ-open",
            "hotpotqa": "HotpotQA",
            "2wikimultihopqa": "2WikiMultiHopQA",
            "squad": "SQuAD",
            "longbench": "LongBench's question answering",
            "ramdocs": "RAMDocs",
            "faitheval_unanswerable": "FaithEval (unanswerable contexts)",
        }.items()
    },
    "gsm8k": KnownTask("number", "GSM8K: a number"),
    "gsm_ic": KnownTask("number", "GSM-IC: a number"),
    "math": KnownTask("expression", "MATH: an expression"),
}
"""Every task by name."""

Labels = Sequence[str] | Mapping[str, str]


def make_task(
    name: str | None = None, labels: Labels | None = None, options: Sequence[str] | None = None, claim: str = ""
) -> Task:
    """Makes the task of a debate from a name, labels or options.

    Args:
        name: a name in the list of ``moot tasks``; by default ``choice`` if there are options, ``labels`` if there are
            labels, else ``fever``.
        labels: the possible answers of the task ``labels``, as a list or as a mapping to their meanings. An empty
            list, as a cleared form sends, is as none.
        options: the options of a multiple-choice question. The answers are their letters, from A; empty as for labels.
        claim: the claim. If it ends with a question mark, the task's ``subject`` is ``question``. In tasks that always
            ask a question, such as ``choice`` and ``pubmedqa``, the subject is ``question`` anyway.

    Raises:
        UserError: the task is unknown, or the labels or options are invalid or do not fit the task.
    """
    if any(isinstance(given, str) or not isinstance(given, Sequence | Mapping | None) for given in (labels, options)):
        raise UserError("Labels and options must be lists of texts.", kind="invalid_task")
    labels, options = _visible_texts(labels), _visible_texts(options)
    name = name or ("choice" if options else "labels" if labels else "fever")
    known = TASKS.get(name)
    if known is None:
        raise UserError(
            f"The task {name!r} is unknown. {did_you_mean(name, TASKS)}Known: {', '.join(TASKS)}.", kind="invalid_task"
        )
    asks = known.kind != "labels" or name == "pubmedqa" or is_question(claim)
    task: Task = {
        "name": name,
        "kind": "labels" if known.kind == "choice" else known.kind,
        "subject": "question" if asks else "claim",
        "labels": [label for label, _, _ in known.labels],
        "meanings": {label: meaning for label, meaning, _ in known.labels},
        "spellings": {spelling: label for label, _, others in known.labels for spelling in others},
    }
    if name == "labels" and labels and not options:
        meanings = {k: v for k, v in labels.items() if v} if isinstance(labels, Mapping) else {}
        return _check_texts({**task, "labels": list(labels), "meanings": meanings}, [*labels, *meanings.values()])
    if known.kind == "choice" and options and not labels and not isinstance(options, Mapping):
        letters = list(string.ascii_uppercase[: len(options)])
        pairs = list(zip(letters, options, strict=False))
        task |= {"labels": letters, "meanings": dict(pairs), "spellings": _letters_by_option(pairs)}
        return _check_texts(task, options)
    if name != "labels" and known.kind != "choice" and not labels and not options:
        return task
    raise UserError(
        f"The task {name!r} does not fit the input. `labels` needs a list of labels, multiple choice a list of "
        "options, and the other tasks neither.",
        kind="invalid_task",
    )


QUESTION_MARKS = tuple("?\u037e؟፧᥅‽⁇⁈⁉❓❔⳺⳻⸮⹔꘏꛷꫱︖﹖？𑅃")
"""Question marks of all scripts except the Armenian question mark, which is inside a word."""


def is_question(text: str) -> bool:
    """Whether a text ends with a question mark of any script, apart from marks that enclose the whole text."""
    body = text.strip(AROUND_QUESTION)
    while len(body) > 1 and _is_pair(body[0], body[-1]):
        body = body[1:-1].strip(AROUND_QUESTION)
    # In Greek, a semicolon is a question mark.
    if body.endswith(";"):
        last = next(filter(str.isalpha, reversed(body)), "")
        return bool(last) and unicodedata.name(last, "").startswith("GREEK")
    # In Armenian, the mark is on the question word, so it may be anywhere in the last sentence.
    return body.endswith(QUESTION_MARKS) or "՞" in body.rstrip("։:.").rpartition("։")[2]


AROUND_QUESTION = "*_`!！" + string.whitespace + "\u3000\u00a0\u202f"
"""Characters allowed before and after a question: emphasis, exclamation marks and spaces."""
BRACKETS = dict(zip(")]}）］｝』】》〉", "([{（［｛『【《〈", strict=True))
"""Opening brackets by their closing bracket."""


def _is_pair(first: str, last: str) -> bool:
    """Whether two characters can enclose a text: two quotation marks of any kinds, or matching brackets."""
    return (first in QUOTES and last in QUOTES) or BRACKETS.get(last) == first


def _letters_by_option(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The letter of each option, by the option's text, without options of the same text (`normal_option`)."""
    texts = [normal_option(option) for _, option in pairs if isinstance(option, str)]
    return {o: letter for letter, o in pairs if isinstance(o, str) and texts.count(normal_option(o)) == 1}


def _visible_texts(texts: Any) -> Any:
    """Labels or options without invisible and control characters; `_check_texts` refuses values that are not texts."""
    if isinstance(texts, Mapping):
        shown = {_visible_text(key): _visible_text(value) for key, value in texts.items()}
        if len(shown) < len(texts):
            raise UserError("Two of the labels are the same.", kind="invalid_task")
        return shown
    return None if texts is None else [_visible_text(text) for text in texts]


def _visible_text(text: Any) -> Any:
    return clean(text) if isinstance(text, str) else text


def _check_texts(task: Task, texts: Sequence[str]) -> Task:
    """Returns the task if its labels and ``texts`` (its labels and meanings, or its options) are valid."""
    longest = LONGEST_LABEL if task["name"] == "labels" else LONGEST_OPTION
    if not all(isinstance(t, str) and t.strip() and len(t) <= longest for t in texts):
        raise UserError(f"Labels and options must be texts of 1 to {longest:,} characters.", kind="invalid_task")
    count = len(task["labels"]) if task["name"] == "labels" else len(texts)
    if not 2 <= count <= len(string.ascii_uppercase):
        raise UserError(f"A task has 2 to 26 answers, not {count}.", kind="invalid_task")
    if not all(fold_label(label) for label in task["labels"]):
        raise UserError("A label needs a letter or a digit.", kind="invalid_task")
    # Options are distinguished by their letters, even if two have the same text, as in some benchmarks.
    if task["name"] == "labels" and len(set(map(fold_label, task["labels"]))) < len(task["labels"]):
        raise UserError("Two of the labels are the same.", kind="invalid_task")
    return task


def check_claim(claim: object) -> str:
    """The claim without surrounding white space, and without invisible and control characters."""
    if claim is not None and not isinstance(claim, str):
        raise UserError(f"The claim must be a text, not a {type(claim).__name__}.", kind="invalid_claim")
    if not claim or not (shown := clean(claim)):
        raise UserError(
            "The claim is empty. Give one sentence that can be true or false, or a question.", kind="invalid_claim"
        )
    if len(shown) > LONGEST_CLAIM:
        raise UserError(
            f"The claim has {len(shown):,} characters; at most {LONGEST_CLAIM:,} are allowed. Shorten it.",
            kind="invalid_claim",
        )
    if any("\ud800" <= character <= "\udfff" for character in claim):
        raise UserError("The claim contains a lone surrogate, which cannot be sent.", kind="invalid_claim")
    return shown


def check_origin(claim_date: object, speaker: object, appeared_at: object = None) -> dict[str, str]:
    """The date (a year, month or day in ISO form), speaker and page of a claim, checked, as entries of a task."""
    origin = {}
    if claim_date is not None and claim_date != "":
        if not isinstance(claim_date, str) or not is_iso_date(claim_date.strip()):
            raise UserError(
                f"`claim_date` must be a year, a month or a day such as 2020, 2020-10 or 2020-10-25, not "
                f"{redact(str(claim_date))[:40]!r}.",
                kind="invalid_claim",
            )
        origin["claim_date"] = claim_date.strip()
    if speaker is not None:
        if not isinstance(speaker, str) or len(name := " ".join(clean(speaker).split())) > LONGEST_SPEAKER:
            raise UserError(
                f"`speaker` must be a text of at most {LONGEST_SPEAKER} characters.",
                kind="invalid_claim",
            )
        origin |= {"speaker": name} if name else {}
    if appeared_at is not None and appeared_at != "":
        page = appeared_at.strip() if isinstance(appeared_at, str) else ""
        # A word such as "none" is no address of a website.
        given = "://" in page or re.match(r"[^\s/.]+\.[^\s/]", page)
        page = page if "://" in page else f"https://{page}"
        host = website_of(page) if given and is_url(page) else ""
        if not host or re.search(r"\s", host) or len(page) > LONGEST_ADDRESS:
            raise UserError(
                "`appeared_at` must be the address of the page on which the claim appeared, such as "
                f"https://example.org/story, not {redact(str(appeared_at))[:80]!r}.",
                kind="invalid_claim",
            )
        if "@" in urlsplit(page).netloc:
            raise UserError(
                f"`appeared_at`: the address of {website_of(page)} contains a user name or a password. Leave it out.",
                kind="invalid_claim",
            )
        origin["appeared_at"] = page
    return origin


def is_iso_date(text: str) -> bool:
    """Whether a text is a year, a month or a day in ISO form that exists in the calendar."""
    parts = re.fullmatch(r"([0-9]{4})(?:-([0-9]{2}))?(?:-([0-9]{2}))?", text)
    try:
        return parts is not None and bool(date(int(parts[1]), int(parts[2] or 1), int(parts[3] or 1)))
    except ValueError:
        return False


def describe(task: Task, *, evidence: bool = True, pool: bool = False) -> str:
    """Describes the form of an answer for a prompt; ``pool``: it may combine evidence with the model's knowledge."""
    if task["kind"] == "short_answer" and (evidence or pool):
        return f"{RULES['short_answer']} {ABSTAIN_BY_KNOWLEDGE if pool else ABSTAIN_BY_EVIDENCE}"
    if task["kind"] != "labels":
        return RULES[task["kind"]]
    what = "the letter of exactly one of these" if _has_letters(task) else "exactly one of these, as it is written here"
    return f"`answer` is {what}:\n{describe_labels(task, evidence=evidence)}{rules_of_labels(task, evidence=evidence)}"


def rules_of_labels(task: Task, *, evidence: bool = True) -> str:
    """The rules for labels as further lines of a list; empty if the task has none."""
    if not task.get("label_rules"):
        return ""
    part, reported, *more = RULES_BY_EVIDENCE if evidence else RULES_BY_KNOWLEDGE
    reported += REPORTED_BY_ITSELF if task.get("speaker") else ""
    return "".join(f"\n- {rule}" for rule in (part, reported, *more))


def reported_rule(task: Task) -> str:
    """The rule on reported speech for two sides, as a further line of a list; empty if the task has no such rules."""
    if not task.get("label_rules"):
        return ""
    return f"\n- {REPORTED_SIDES}{REPORTED_SIDES_BY_ITSELF if task.get('speaker') else ''}"


def describe_labels(task: Task, *, evidence: bool = True) -> str:
    """The labels of a task, each on a line with its meaning."""
    meanings = task["meanings"] if evidence else {k: WITHOUT_EVIDENCE.get(v, v) for k, v in task["meanings"].items()}
    lines = (f"{label} - {meanings[label]}" if label in meanings else label for label in task["labels"])
    return without_brackets("\n".join(f"  - {' '.join(line.split())}" for line in lines))


def show_options(task: Task) -> str:
    """The options of a multiple-choice question, for prompts that do not ask for an answer; empty for other tasks."""
    lines = [f"{label} - {' '.join(task['meanings'][label].split())}" for label in task["labels"] if _has_letters(task)]
    return as_data("options", "\n".join(lines)) if lines else ""


RULES = {
    "short_answer": "`answer` is a name, date or phrase of a few words, without a sentence around it.",
    "number": "`answer` is one number in digits, without a unit or a calculation.",
    "expression": "`answer` is one mathematical expression in LaTeX, simplified, without a sentence around it.",
}


REPORTED = (
    'If the words of the claim report what somebody said ("X said that ..."), decide whether they said it, and add '
    "whether it is true where {known}."
)
REPORTED_BY_ITSELF = " But if X is the one by whom the claim itself was said, decide whether what X said is true."
"""The rules for reported speech. The second is for claims with a speaker: AVeriTeC has claims such as "X said that
..." of the speaker X, and judges what X said."""
REPORTED_SIDES = (
    'If the words of the claim report what somebody said ("X said that ..."), the claim is true if they said it.'
)
REPORTED_SIDES_BY_ITSELF = " But if X is the one by whom the claim itself was said, it is true if what X said is true."
"""The same rules for those who argue that a claim is true or false, and for those who weigh such arguments."""
FIGURES = "If the claim gives a figure as rough or round, a close one supports it; an exact one has to be right."
PLACES = (
    "If the claim names no place, time or group, take those that its words suggest, and its origin if that is given. "
    "If none are suggested, it speaks generally"
)
RULES_BY_EVIDENCE = (
    "If the evidence covers only part of the claim, decide by that part, unless the claim turns on the rest. Name in "
    "your reasons the part of the claim that is not covered, not what else the evidence leaves out.",
    REPORTED.format(known="the evidence shows that"),
    "Even if you answer from the evidence alone, common knowledge may join the words of the claim to those of the "
    "evidence (that Lyon is in France). Where your answer needs it, say so.",
    FIGURES,
    f"{PLACES}: evidence about one of them covers only a part.",
    "If the claim concludes something from a fact (fraud, say), the fact alone does not support it, and evidence that "
    "explains the fact otherwise refutes it.",
)
RULES_BY_KNOWLEDGE = (
    "If you know something about only part of the claim, decide by that part, unless the claim turns on the rest. Say "
    "in your reasons of which part you know nothing.",
    REPORTED.format(known="you know that"),
    FIGURES,
    f"{PLACES}.",
    "If the claim concludes something from a fact (fraud, say), the fact alone does not support it, and another "
    "explanation of the fact that you know to be right refutes it.",
)
"""Rules for tasks with `label_rules`, in prompts with and without evidence."""

ABSTAIN_BY_EVIDENCE = f"If the evidence does not tell it, `answer` is, in these very words: {ABSTENTION}"
"""In prompts for a short answer that must follow from evidence: the sentence that allows an abstention."""
ABSTAIN_BY_KNOWLEDGE = (
    f"If neither the evidence nor what you know tells it, `answer` is, in these very words: {ABSTENTION}"
)
"""The sentence that allows an abstention in prompts in which the model may also use its own knowledge."""


def _has_letters(task: Task) -> bool:
    """Whether the labels are the letters from A on, each with its meaning, as for a multiple-choice question."""
    letters = list(string.ascii_uppercase[: len(task["labels"])])
    return bool(letters) and task["labels"] == letters and all(letter in task["meanings"] for letter in letters)


CITE = (
    "- In `citations`, name the evidence that carries your reasons: its `evidence_id` as given, and in `quote` a short "
    "passage (5 to 25 words{shorter}) copied word for word from its text. Quotes are checked, and readers are told "
    "which ones are not in the text. Cite only what you were shown."
)
CITE_NOTHING = "- No evidence is given, so leave `citations` empty."
OR_SHORTER = ", or the whole text if it is shorter"
"""What the length of a quote has to add for tasks with `label_rules`."""


EVIDENCE_REASONS = (
    "give your reasons in at most four plain sentences, each a statement that the evidence bears out: what speaks for "
    "your answer, and the strongest point against it if the evidence holds one. Say nothing that the evidence does "
    "not bear out; you may say what it does not tell. Leave out evidence about another matter. The last sentence gives "
    "the result in the words of the {subject} itself: what is so, what is not so, or what is left open."
)
EVIDENCE_STEPS = (
    "go step by step, as briefly as it can be followed: what the evidence says that helps, what you know yourself, "
    "and how the answer follows. Evidence need not state the answer."
)
KNOWN = "give your reasons in at most four plain sentences: what you know of the matter, how sure it is, what follows."
KNOWN_STEPS = "go step by step, as briefly as it can be followed: what you know that matters, and what follows."


HEED = "\n- Answer the others by the matter itself: say what is the case, not who said it or who agrees. "
"""The line of a prompt for a debater that reads others' answers; a rule for changing its own answer follows."""
FROM_OTHERS = "Change your answer if theirs is better founded, and keep it if it is not."
FROM_SHARED_EVIDENCE = (
    f"{FROM_OTHERS} Quotes under their `citations` were checked: they are in the source unless a note says otherwise."
)
FROM_NEW_EVIDENCE = "Answer anew from the evidence in front of you, and take what they say into account."
FROM_OWN_EVIDENCE = (
    "Keep your last answer if the evidence in front of you bears it out; otherwise change it. Change it, too, if the "
    "others show that you misread that evidence.\n"
    '- Your evidence is the text under "Evidence in front of you", and nothing else. A quote that the others give, '
    "or that you gave in an earlier round, is no evidence for you, even if it was checked, unless its passage is "
    "there now."
)
SHOWN_PASSAGES = (
    '- Your evidence is the text under "Evidence in front of you". It holds what your last search found, and '
    "passages that you or the others quoted word for word in the last round, the most quoted ones: `quoted_by` in "
    "their tags says who did."
)
FROM_SHOWN_PASSAGES = (
    "Keep your last answer if the evidence in front of you bears it out; otherwise change it. Change it, too, if the "
    "others show that you misread that evidence.\n"
    f"{SHOWN_PASSAGES}"
)
"""Rules for changing an answer. `FROM_OTHERS` is for debaters that answer from their knowledge: they may adopt another
debater's answer because its reasons are better. `FROM_SHARED_EVIDENCE` is for debaters that all read the same evidence.
The others are for debaters with evidence of their own: `FROM_NEW_EVIDENCE` if they do not read their own last answer,
else `FROM_OWN_EVIDENCE`, by which only this evidence may change an answer."""


def is_reasoning_task(task: Task) -> bool:
    """Whether answers result from reasoning, and evidence only helps: multiple choice, numbers and expressions."""
    return _has_letters(task) or task["kind"] in ("number", "expression")


def wording(task: Task, *, given: bool = False, known: bool = False) -> dict[str, str]:
    """The values of all placeholders that depend on the task; ``known``: the model must answer without any evidence."""
    asked, reasoned = task["subject"] == "question", is_reasoning_task(task)
    says = "what holds for this claim" if known else "what does the evidence above say about this claim"
    asks = "what is the answer to this question" if asked else says
    read = "the evidence in front of you" + (" and what you know" if reasoned else "")
    shorter = OR_SHORTER if task.get("label_rules") else ""
    return {
        "labels": describe(task, evidence=not known),
        "labels_known": describe(task, evidence=given),
        "labels_pool": describe(task, evidence=given, pool=not known),
        "labels_only": describe({**task, "label_rules": False}, evidence=given),
        "options": show_options(task),
        "subject": task["subject"],
        "work": "answer a question" if asked else "check a claim",
        "to_decide": "The question to answer:" if asked else "The claim to decide:",
        "asks": asks,
        "holds": asks if asked or given else "what holds for this claim",
        "basis": read if given else "what you know",
        "grounds": "what you know" if known else read,
        "reasons": (KNOWN_STEPS if reasoned else KNOWN)
        if known
        else EVIDENCE_STEPS
        if reasoned
        else EVIDENCE_REASONS.format(subject=task["subject"]),
        "cite": CITE.format(shorter=shorter) if given else CITE_NOTHING,
        "shorter": shorter,
    }


def unsettled_label(task: Task) -> str | None:
    """The task's label for evidence that does not settle the claim or question; None if there is no such label.

    It is a label with this meaning or the name of one, such as "not enough info", else one such as "unproven".
    """
    meant = {OPEN, MAYBE}
    for names in (UNSETTLED, SENSES["open"].names):
        written = set(map(fold_label, names))
        if found := [x for x in task["labels"] if fold_label(x) in written or task["meanings"].get(x) in meant]:
            return found[0]
    return None


def leaves_open(task: Task, answer: str | None) -> bool:
    """Whether an answer says that the evidence settles nothing: by the task's label for this, or by an abstention."""
    return answer is not None and (answer == unsettled_label(task) or abstains(task, answer))


def mixed_label(task: Task) -> str | None:
    """The task's label for evidence that both supports and refutes the claim; None if there is no such label."""
    written = set(map(fold_label, SENSES["mixed"].names))
    return next((x for x in task["labels"] if fold_label(x) in written or task["meanings"].get(x) == CONFLICTING), None)


def full_answer(task: Task, answer: str) -> str:
    """An answer that is clear without its question: a letter gets its option's text; other answers do not change."""
    return f"{answer} ({task['meanings'][answer]})" if _has_letters(task) and answer in task["meanings"] else answer
