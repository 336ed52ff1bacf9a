"""Thoughts in a model's reply: nothing inside of them is an answer, and what follows them is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from moot.graphs import load_graph
from moot.nodes._models.reply_parsing import read_reply
from moot.nodes._steps.retrieving import KeywordsReply
from moot.nodes._texts.replies import QueryReply, SummaryReply
from moot.nodes._texts.thoughts import without_thoughts
from moot.nodes._trial.panel import JudgementReply

from tests.conftest import StartStub
from tests.core.raw import REPLY, answer, raw_server, respond_with

FORMS = [
    ("<think>", "</think>"),
    ("<THINK>\n", "\n</Think>\n\n"),
    ('<thinking mode="deep" n=1>', "</thinking >"),
    ("<antThinking>", "</antThinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<thought>", "</thought>"),
    ("<Thoughts>", "</Thoughts>"),
    ("<reason>", "</reason>"),
    ("<reasoning_process>", "</reasoning_process>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<analysis>", "</analysis>"),
    ("<inner_monologue>", "</inner_monologue>"),
    ("<chain_of_thought>", "</chain_of_thought>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>\n", "\n<|end_of_thought|>\n"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<|think|>", "<|end|><|begin|>assistant<|content|>"),
    ("<|channel>thought\n", "<channel|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>commentary<|message|>", "<|channel|>final <|constrain|>json<|message|>"),
    ("analysis", "assistantfinal"),
    ("Here is my thought process: ", " Here is my response: "),
    ("Thinking...\n", "\n...done thinking.\n\n"),
    ('<details type="reasoning" done="true">\n', "</details>\n"),
    ("<details>\n<summary>Thought for 3 seconds</summary>\n", "</details>\n"),
    ("```thinking\n", "\n```\n"),
    ("<!-- thinking: ", "-->"),
    ("~~~reasoning\n", "\n~~~\n"),
    ("[unused16]", "[unused17]"),
    ("<|im_start|>think\n", "<|im_start|>answer\n"),
    ("<|begin_of_reasoning|>", "<|end_of_reasoning|>"),
    ("<|think_start|>", "<|think_end|>"),
    ("<｜begin▁of▁thinking｜>", "<｜end▁of▁thinking｜>"),
    ("&lt;think&gt;", "&lt;/think&gt;"),
    ("＜think＞", "＜/think＞"),
    ("\\<think\\>", "\\</think\\>"),
    ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    *(
        (begin.format(name), end.format(name))
        for name in (
            *("thinking", "thought", "thoughts", "thought process", "chain-of-thought", "reasoning", "reflection"),
            *("scratchpad", "analysis", "planning", "deliberation", "inner monologue", "internal", "draft"),
        )
        for begin, end in (("<{}>", "</{}>"), ("[{}]", "[/{}]"), ("{{{}}}", "{{/{}}}"), ("<|{}|>", "<|/{}|>"))
    ),
]
"""Marks of thoughts as models write them. The first word of a thought begins with a capital letter."""
ALONE = [(begin, end) for begin, end in FORMS if end not in ("</details>\n", "\n```\n", "\n~~~\n", "-->")]
"""The forms whose end mark ends a thought even if the begin mark is missing."""
DRAFT = json.dumps({"rationale": "Perhaps.", "citations": [], "answer": "REFUTES"})
GOOD = json.dumps({"rationale": "So it is.", "citations": [], "answer": "SUPPORTS"})

prose = st.lists(st.sampled_from(["Hm, ", "no. ", "\n", '{"', "{", '"</think>" ', DRAFT, "[2] "]), max_size=6).map(
    "".join
)
mentions = st.lists(st.sampled_from([mark for form in FORMS for mark in form] + ["so ", '"', "\\", DRAFT])).map("".join)


@st.composite
def thoughts(draw: st.DrawFn) -> tuple[str, str]:
    """A thought with prose, drafts and thoughts of other forms in it; and its end mark."""
    begin, end = draw(st.sampled_from(FORMS))
    other = [form for form in FORMS if form[0][:3].lower() != begin[:3].lower() and form[0][:3] not in ("```", "~~~")]
    inner = draw(st.lists(st.sampled_from(other).map(lambda form: f"\n{form[0]}{DRAFT}{form[1]}"), max_size=2))
    return f"{begin}Suppose {draw(prose)}{''.join(inner)}{draw(prose)}", end


@given(st.lists(thoughts(), min_size=1, max_size=3), mentions)
def test_the_text_after_the_last_thought_is_the_reply(found: list[tuple[str, str]], mentioned: str) -> None:
    """A mark in a string of the reply is part of the reply."""
    reply = json.dumps({"rationale": mentioned, "answer": "SUPPORTS"})
    text = "\n".join(thought + end for thought, end in found if not thought.startswith("analysis"))
    assert without_thoughts(text + reply).strip().endswith(reply)
    assert DRAFT not in without_thoughts(text + reply).removesuffix(reply)
    assert without_thoughts(f"{reply}\n{text}").strip() == reply


@given(prose, st.sampled_from(ALONE), mentions)
def test_an_end_mark_alone_ends_a_thought(thought: str, form: tuple[str, str], mentioned: str) -> None:
    reply = json.dumps({"rationale": mentioned, "answer": "SUPPORTS"})
    found = without_thoughts(thought + form[1] + reply)
    assert found.endswith(reply)
    assert DRAFT not in found.removesuffix(reply)


@given(thoughts(), st.sampled_from(["", GOOD, f"{GOOD}\n", f"<think>Right?</think>{GOOD}"]))
def test_a_reply_that_ends_within_a_thought_has_no_text(thought: tuple[str, str], before: str) -> None:
    assert without_thoughts(thought[0]) == ""
    assert (
        before.startswith("<") or thought[0].startswith("analysis") or without_thoughts(f"{before}\n{thought[0]}") == ""
    )


@given(mentions | prose)
def test_a_reply_without_thoughts_is_not_changed(mentioned: str) -> None:
    for text in (json.dumps({"rationale": mentioned}), json.dumps([{"rationale": mentioned}], indent=1), '{"a": "b'):
        assert without_thoughts(text) == text


NO_ANSWER = [text.replace("DRAFT", DRAFT).replace("GOOD", GOOD) for text in (
    "<thinking>maybe DRAFT but that is wrong</thinking>\nI cannot decide.",
    "Draft DRAFT? No, wrong way round.\n</think>\n\nThe answer is SUPPORTS.",
    "<think>maybe DRAFT",
    "<think>maybe <think>DRAFT</think> DRAFT",
    '<think>I must not write "</think>" yet: DRAFT',
    "GOOD\n</think>",
    "[THOUGHT] maybe DRAFT",
    "analysiswe think DRAFT",
    "analysis\nWe think DRAFT",
    "analysis We think DRAFT",
    "GOOD\n<think>or rather DRAFT",
    "```\n<think>\nDRAFT\n```",
    '{"rationale": "r", "citations": [], "answer": "<think>REFUTES"}',
    '{"rationale": "r", "citations": [], "answer": "REFUTES\\n</think>"}',
)]  # fmt: skip


@pytest.mark.parametrize(
    ("field", "read"),
    [
        *(
            (f"{begin}Hm. {end}platypus eggs", "platypus eggs")
            for begin, end in FORMS
            if begin[0] in "<[{&＜◁\\" and (begin, end) in ALONE
        ),
        ("platypus <think>a <think>b</think> c</think>eggs<think>\n</think>", "platypus eggs"),
        ("The tag <think> is rare. <think>So what?</think>So is it.", "The tag <think> is rare. So is it."),
        *((text, text) for text in ("The tag <think> is rare", "It ends with </think>", "<think> and </think>")),
        *((text, text) for text in ('"<think>" to "</think>"', "[Analysis] It is so", "Thought: a\nAnswer: b")),
        ("<think>what to search", None),
        ("<think>what to search</think>", None),
    ],
)
def test_a_field_of_a_reply_has_no_thoughts(field: str, read: str | None) -> None:
    for reply, value in (
        (QueryReply, {"query": field}),
        (SummaryReply, {"summary": field}),
        (KeywordsReply, {"keywords": [field]}),
    ):
        found, outcome, _ = read_reply(AIMessage(json.dumps(value)), reply)
        assert outcome == ("ok" if read else "unparsed")
        assert not found or found.model_dump() == json.loads(
            json.dumps(value).replace(json.dumps(field), json.dumps(read))
        )


def test_a_judges_verdict_is_read_without_its_thoughts() -> None:
    scores = dict.fromkeys(("evidence_strength", "argument_validity", "scientific_reliability"), 7)
    value = scores | {"reason": "<think>Hm.</think>So it is.", "verdict": "<think>REFUTED</think>SUPPORTED"}
    found, _, problem = read_reply(AIMessage(json.dumps(value)), JudgementReply)
    assert found, problem
    assert (found.reason, found.verdict) == ("So it is.", "SUPPORTED")


async def answers_to(replies: list[str], start_stub: StartStub) -> list[Any]:
    """For each reply, the answer of a debate whose model always gives this reply, and the outcomes of its calls."""
    start_stub([{"match": f"Claim {n}\\.", "reply": reply} for n, reply in enumerate(replies)])
    system = load_graph("standard_prompting")
    settings = system.settings.model_validate({"model": "openai:stub"})
    asked = [system.graph.ainvoke({"claim": f"Claim {n}."}, context=settings) for n in range(len(replies))]
    documents = await asyncio.gather(*asked)
    return [(d["answer"], d["status"], [call["outcome"] for call in d["calls"]]) for d in documents]


async def test_a_draft_in_a_thought_is_never_the_verdict(start_stub: StartStub) -> None:
    for reply, found in zip(NO_ANSWER, await answers_to(NO_ANSWER, start_stub), strict=True):
        assert found == (None, "failed", ["unparsed", "unparsed"]), reply


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ([{"type": "thinking", "thinking": [{"type": "text", "text": DRAFT}]}, GOOD], "SUPPORTS"),
        ([{"type": "reasoning", "text": DRAFT}, {"type": "text", "text": GOOD}], "SUPPORTS"),
        ([{"type": "text", "text": "<think>" + DRAFT}, {"type": "text", "text": "</think>" + GOOD}], "SUPPORTS"),
        ([{"type": "thinking", "thinking": DRAFT}], None),
        (None, None),
        (GOOD, "SUPPORTS"),
    ],
)
async def test_only_parts_of_text_are_read(content: Any, found: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fields for thoughts beside the content are never read."""
    message = {"role": "assistant", "content": content, "reasoning_content": DRAFT, "reasoning": DRAFT}
    body = REPLY | {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    async with raw_server(respond_with(answer(body))) as raw:
        monkeypatch.setenv("OPENAI_BASE_URL", raw.url)
        system = load_graph("standard_prompting")
        settings = system.settings.model_validate({"model": "openai:m"})
        document = await system.graph.ainvoke({"claim": "The tower is tall."}, context=settings)
    assert (document["answer"], document["status"]) == (found, "done" if found else "failed")
