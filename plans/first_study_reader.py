"""The readers of plans/first-study.yaml as chat models: they say again what was said at each step of each debate.

`langchain:first_study_reader:rag` and `langchain:first_study_reader:tool_mad` read the replies in plans/first-study
(its zip, unpacked) and the claims in plans/data, both in the present folder. A reply is found by its debate and its
step, not by its prompt, because the wording of prompts has changed since.
"""

import json
from collections import defaultdict
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

PLANS = Path("plans")


def plain(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def words(reply: dict[str, Any]) -> set[str]:
    """The words of the reasons in a reply."""
    return set(" ".join([reply.get("rationale", ""), *(one["text"] for one in reply.get("statements", ()))]).split())


class Reader(BaseChatModel):
    """The reader of one system."""

    system: str

    @cached_property
    def debates(self) -> dict[str, dict[str, list[AIMessage]]]:
        """The replies of each claim's debate, by step, as in "rag: respond, round 2"."""
        found: dict[str, dict[str, list[AIMessage]]] = {}
        for name, title in (("averitec", "averitec"), ("check_covid", "check-covid-binary")):
            for place, line in enumerate(
                (PLANS / f"data/{name}/{name}.jsonl").read_text(encoding="utf-8").splitlines()
            ):
                record = json.loads(line)
                id = str(record.get("id", place)).replace("_", "-")
                file = PLANS / f"first-study/{self.system}/{self.system.replace('_', '-')}-{title}-{id}.moot"
                if file.is_file():
                    steps = found[plain(record["claim"])] = defaultdict(list)
                    for stored in map(json.loads, file.read_text(encoding="utf-8").splitlines()[1:]):
                        steps[stored["about"]["node"]].append(AIMessage(**stored["value"]["message"]))
        return found

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **more: Any,
    ) -> ChatResult:
        asked = plain(" ".join(message.text for message in messages))
        about = run_manager.metadata if run_manager else {}
        step = f"{about['agent']}: {about['node']}" if about.get("agent") else about["node"]
        step += f", round {about['round']}" if about.get("round") else ""
        if not (found := [claim for claim in self.debates if claim in asked]):
            raise ValueError("this prompt is about no claim of the study")
        steps = self.debates[min(found, key=asked.index)]
        if not steps[step]:
            raise ValueError(f"no reply was recorded for the step {step!r} of this debate")
        # The reasons of two debaters may be assessed in one round: the right reply has the words of this prompt's.
        reasons: dict[bool, set[str]] = {True: set(), False: set()}
        for said in (json.loads(one.text) for name in steps if ": respond" in name for one in steps[name]):
            reasons[plain(said["rationale"]) in asked] |= words(said)
        own, other = reasons[True] - reasons[False], reasons[False] - reasons[True]

        def fit(reply: AIMessage) -> int:
            told = words(json.loads(reply.text))
            return len(told & own) - len(told & other)

        reply = max(steps[step], key=fit)
        return ChatResult(generations=[ChatGeneration(message=reply)])


rag, tool_mad = (Reader(system=name) for name in ("rag", "tool_mad"))
