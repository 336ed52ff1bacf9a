"""A thousand random replies for all kinds of tasks: the parsers raise no exception and invent no answer."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from moot.nodes._models.reply_parsing import read_reply
from moot.nodes._records.entries import Task
from moot.nodes._texts.answers import read_answer, read_number
from moot.nodes._texts.labels import fold_label, spellings
from moot.nodes._texts.replies import answer_reply
from moot.nodes._texts.task import make_task
from moot.retrievers._evidence import clean

TASKS = {
    "fever": make_task("fever"),
    "averitec": make_task("averitec"),
    "hover": make_task("hover"),
    "pubmedqa": make_task("pubmedqa"),
    "own labels": make_task(labels=["true", "false", "unproven"]),
    "choice": make_task("medqa", options=["iron", "gold", "a metal", "None of these"]),
    "short answer": make_task("triviaqa"),
    "number": make_task("gsm8k"),
    "expression": make_task("math"),
}
REPLIES = 120
NOISE = [
    *("\x00", "\u202e", "\ud83d", "\u200b", "湖", "ﷺ", "٣"),
    *("\\", "{", "}", '"', "[", "`", "<think>", "</answer>", "~~"),
]


def valid_answers(task: Task) -> list[str]:
    """Valid answers of a task."""
    if task["labels"]:
        return [*task["labels"], *task["spellings"]]
    return {
        "short_answer": ["Paris", "the 3rd of May", "O'Neill & Sons", "東京"],
        "number": ["18", "1,860", "-0.5", "1/3", "$12"],
    }.get(task["kind"], ["x^2", "\\frac{1}{2}", "\\sqrt{3}"])


def random_reply(rng: random.Random, task: Task) -> str:
    """A random reply, which may be valid, wrapped, repeated or broken."""
    given = valid_answers(task)
    answer = rng.choice(given)
    cases: list[Callable[[str], str]] = [str.strip, str.lower, str.upper, str.title]
    case = rng.choice(cases)
    words = rng.choice(["{}", "not {}", "{} or {}", "**{}**", "{}, because", "I think {}", '"{}" they say', "{}\n\n{}"])
    text = words.format(case(answer), rng.choice(given))
    fields: Any = {"rationale": "So it is.", "citations": [{"evidence_id": "ev-1", "quote": "so"}], "answer": text}
    shape = rng.randrange(11)
    if shape == 0:
        fields["answer"] = rng.choice([None, 5, 1.5, True, [], {}, [text], {"label": text}, float("inf"), "", " "])
    if shape == 1:
        depth = rng.randrange(1, 3000)
        return '{"answer": ' + "[" * depth + json.dumps(text) + "]" * rng.randrange(depth + 1) + "}"
    reply = json.dumps(fields, ensure_ascii=rng.random() < 0.5)
    if shape == 2:
        return reply[: rng.randrange(len(reply) + 1)]
    if shape == 3:
        return reply + rng.choice(["", "\n", " and "]) + json.dumps({**fields, "answer": rng.choice(given)})
    if shape == 4:
        return f"Here it is:\n```json\n{reply}\n```\nDone."
    if shape == 5:
        place = rng.randrange(len(reply))
        return reply[:place] + "".join(rng.choices(NOISE, k=rng.randrange(1, 5))) + reply[place:]
    if shape == 6:
        return f"<think>{json.dumps({**fields, 'answer': rng.choice(given)})}</think>{reply}"
    if shape == 7:
        return reply.replace("So it is.", "x" * 50_000)
    if shape == 8:
        return text
    if shape == 9:
        return '{"draft": ' * rng.randrange(1, 2000) + reply
    return reply


def contains_answer(task: Task, text: str, answer: str) -> bool:
    """Whether a text without its invisible characters contains a spelling of an answer."""
    text = clean(re.sub(r"\\u([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), text).encode(errors="replace").decode())
    if task["labels"]:
        inside = fold_label(text).replace("\\n", " ")
        words = [*spellings(task), "true", "false"]
        return any(word in inside and read_answer(task, word) == answer for word in words)
    if task["kind"] == "number":
        value = read_number(answer)
        return value is not None and any(read_number(part) == value for part in possible_numbers(text))
    plain = re.sub(r"\\(.)", r"\1", text.replace("\\n", "\n"))
    return answer in plain


def possible_numbers(text: str) -> list[str]:
    """The words of a text. Any of them may be a number."""
    parts = text.replace('"', " ").replace("{", " ").replace("}", " ").replace("\\n", " ").replace("*", " ").split()
    return [part.rstrip(",.") for part in parts]


@pytest.mark.parametrize("name", TASKS)
def test_a_parsed_answer_is_always_contained_in_its_reply(name: str) -> None:
    """No reply makes a parser raise an exception. At least 10 % of the replies are valid, at least 10 % are invalid."""
    task = TASKS[name]
    rng = random.Random(name)
    outcomes: Counter[str] = Counter()
    for _ in range(REPLIES):
        text = random_reply(rng, task)
        found, outcome, problem = read_reply(AIMessage(text), answer_reply(task))
        outcomes[outcome] += 1
        assert (found is None) == bool(problem)
        if found is not None:
            assert contains_answer(task, text, found.answer), (text[:500], found.answer)
    assert outcomes["ok"] >= REPLIES / 10
    assert outcomes["unparsed"] >= REPLIES / 10


@pytest.mark.parametrize("name", TASKS)
def test_a_reply_cut_at_any_byte_is_not_usable(name: str) -> None:
    task = TASKS[name]
    answer = valid_answers(task)[0]
    reply = json.dumps({"rationale": "Größe 湖", "citations": [], "answer": answer}, ensure_ascii=False).encode()
    for end in range(len(reply)):
        found, outcome, _ = read_reply(AIMessage(reply[:end].decode(errors="replace")), answer_reply(task))
        assert (found, outcome) == (None, "empty" if end == 0 else "unparsed")
    found, _, _ = read_reply(AIMessage(reply.decode()), answer_reply(task))
    assert found is not None
