"""A debate in Inspect's terms: its model is Inspect's model, its turns are messages, and its calls are model events.

Inspect's own clients are not used: calls go through moot's nodes, with moot's retries, limits and store. If moot
cannot call Inspect's model, the model is refused, so that no log names a model that was never called. Each of moot's
models is also a model of Inspect: ``--model moot/openai:gpt-4o-mini``, ``--model-role grader=moot/vllm:NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from inspect_ai.event import ModelEvent
from inspect_ai.log import transcript
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    GenerateConfig,
    Model,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    model_roles,
    modelapi,
)
from inspect_ai.model._model import (
    model_usage_context_var,
    role_usage_context_var,
    sample_model_usage_context_var,
    sample_role_usage_context_var,
    set_model_usage,
)
from inspect_ai.tool import ToolChoice, ToolInfo
from langchain_core.messages import convert_to_messages
from moot.core.endpoint import PROVIDERS, find_endpoint
from moot.core.errors import UserError
from moot.evals._stats.outcomes import Document
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.reply_parsing import text_of
from moot.nodes._models.speaker import Speaker
from moot.nodes._models.step_record import StepRecord
from moot.transcript.document import ending, round_sections
from moot.transcript.line import Line

GRADER = "grader"
"""Inspect's role for the model that judges answers."""
SHARED_OPTIONS = ("temperature", "max_tokens", "seed")
"""Options of Inspect's models that are also settings of debates. The model's name is not among them."""
MODEL_USAGE = (sample_model_usage_context_var, model_usage_context_var)
ROLE_USAGE = (sample_role_usage_context_var, role_usage_context_var)
"""Inspect's variables with the usage of each model (`MODEL_USAGE`) and of each role (`ROLE_USAGE`). In each pair, the
first variable is for one sample, and the second for the whole run."""
NO_OPTIONS = GenerateConfig()
"""The config in the events of moot's calls. All events share it, because creating a config takes longer than creating
an event."""


class MootModel(ModelAPI):
    """One of moot's models as an Inspect model, for example for the graders of other tasks."""

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: ToolChoice, config: GenerateConfig
    ) -> ModelOutput:
        """Make one call, without tools. The config's options other than `SHARED_OPTIONS` are ignored."""
        if tools:
            raise UserError("Moot's models do not accept Inspect's tools.", kind="invalid_setting")
        options: dict[str, Any] = {key: v for key in SHARED_OPTIONS if (v := getattr(config, key)) is not None}
        record = StepRecord("inspect")
        speaker = Speaker("inspect", await open_chat_model(self.model_name, **options), record)
        messages = convert_to_messages([(message.role, message.text) for message in input])
        reply = await speaker.converse(lambda chat, fitting: chat.ainvoke(list(fitting)), messages)
        output = ModelOutput.from_content(self.model_name, text_of(reply) if reply else "")
        output.usage = usage_of(record.calls[-1])
        return output


@modelapi(name="moot")
def moot_models() -> type[ModelAPI]:
    """Inspect's provider ``moot``, whose models have the same names as in moot."""
    return MootModel


# --- models -----------------------------------------------------------------------------------------------------------


def add_inspect_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Add Inspect's models and options to a debate's settings; ``--model none`` adds no model."""
    model = get_model()
    name = moot_name(model)
    roles = {role: moot_name(role_model) for role, role_model in model_roles().items() if role != GRADER}
    given: dict[str, Any] = {} if name is None else {"model": name}
    given |= {key: v for key in SHARED_OPTIONS if (v := getattr(model.config, key)) is not None}
    for key, value in given.items():
        option = f"--{key.replace('_', '-')}"
        check_same(f"{key} (option {option})", value, f"the debate's {key} (-S {key}=)", settings.get(key, value))
    models = dict(settings.get("models") or {})
    for role, value in roles.items():
        theirs, ours = f"model role {role} (option --model-role)", f"the debate's models.{role} (-S models.{role}=)"
        check_same(theirs, value, ours, models.get(role, value))
    named = {"models": models | roles} if models or roles else {}
    return {**given, **settings, **named}


def choose_grader(model: str | None) -> str | None:
    """The model that judges answers: ``model``, or Inspect's for the role ``grader``; None if both are missing."""
    given = moot_name(grader) if (grader := model_roles().get(GRADER)) else None
    if model and given:
        check_same(f"model role {GRADER} (option --model-role)", given, "the task's judge (-T judge=)", model)
    return model or given


def check_same(theirs: str, value: Any, ours: str, other: Any) -> None:
    """Check that Inspect and the debate have the same value for a setting."""
    if value != other:
        raise UserError(
            f"Inspect's {theirs} is {value}, but {ours} is {other}: set only one of them.", kind="invalid_setting"
        )


def moot_name(model: Model | list[Model]) -> str | None:
    """Moot's name for a model of Inspect, as provider:name; None for Inspect's model ``none``."""
    if isinstance(model, list):
        raise UserError("Name one model for each of Inspect's roles.", kind="invalid_setting")
    provider, _, name = str(model).partition("/")
    if isinstance(model.api, MootModel):
        provider, _, name = name.partition(":")
    elif provider == "none":
        return None
    elif provider not in PROVIDERS:
        names = ", ".join(f"{known}/NAME" for known in PROVIDERS)
        raise UserError(
            f"Inspect's model {model} cannot debate: moot calls {names}, and moot/PROVIDER:NAME. Name one of these, or "
            "give `--model none` and name the debate's model: `--solver moot/debate -S model=openai:NAME`.",
            kind="unknown_model",
        )
    address = model.api.base_url
    if address and (provider not in PROVIDERS or address.rstrip("/") != find_endpoint(provider).base_url.rstrip("/")):
        variable = PROVIDERS[provider].base_url_variable if provider in PROVIDERS else "the provider's variable"
        raise UserError(
            f"Inspect's model {model} has another address than moot would call: set {variable} instead of "
            "--model-base-url.",
            kind="invalid_setting",
        )
    return f"{provider}:{name}"


# --- logs -------------------------------------------------------------------------------------------------------------


def messages_of(document: Document) -> list[ChatMessage]:
    """A message for each turn of a debate, in order, with its speaker and round as metadata, and one for the ending."""
    turn_lines = [
        (section.heading, line)
        for section in round_sections(document)
        for line in section.lines
        if line.turn is not None
    ]
    messages: list[ChatMessage] = []
    for place, group in groupby(turn_lines, lambda pair: pair[1].turn):
        pairs = list(group)
        assert place is not None
        turn = document["turns"][place]
        metadata = {key: turn[key] for key in ("agent", "role", "step", "round", "phase") if turn.get(key) is not None}
        text = join_lines([line for _, line in pairs])
        messages.append(ChatMessageAssistant(content=text, metadata=metadata | {"heading": pairs[0][0]}))
    end = ending(document)
    return [*messages, ChatMessageAssistant(content=join_lines(end.lines), metadata={"heading": end.heading})]


def join_lines(lines: Sequence[Line]) -> str:
    """Join the lines of a transcript into one text."""
    return "\n\n".join(": ".join(filter(None, (f"{line.who} {line.what}".strip(), line.text))) for line in lines)


def report_calls(calls: Sequence[Mapping[str, Any]]) -> None:
    """Report a finished debate's calls to Inspect: a model event for each, and the usage of models and roles.

    The events contain no prompts and no replies: prompts are in LangSmith, and the sample's messages show the turns.
    Calls with a stored reply, with a shared reply, or with tokens that the endpoint did not count are not part of the
    usage.
    """
    used: dict[tuple[str, bool], list[ModelUsage]] = {}
    for call in calls:
        was_paid_before = bool(call.get("from_store") or call.get("shared"))
        model = call["model"].replace(":", "/", 1)
        usage = usage_of(call)
        output = ModelOutput(model=call["reported_model"] or call["model"], usage=usage, time=call["seconds"])
        transcript()._event(
            ModelEvent(
                model=model,
                role=call["role"],
                input=[],
                tools=[],
                tool_choice="none",
                config=NO_OPTIONS,
                output=output,
                retries=call["attempts"] - 1 or None,
                error=call.get("detail") if call["outcome"] == "failed" else None,
                cache="read" if was_paid_before else None,
                working_time=call["seconds"],
                metadata={key: call[key] for key in ("node", "agent", "phase", "round", "outcome") if call.get(key)},
            )
        )
        if usage is not None and not was_paid_before:
            used.setdefault((model, False), []).append(usage)
            used.setdefault((call["role"], True), []).append(usage)
    for (name, is_role), usages in used.items():
        for variable in ROLE_USAGE if is_role else MODEL_USAGE:
            set_model_usage(name, sum_usages(usages), variable.get(None))


def sum_usages(usages: Sequence[ModelUsage]) -> ModelUsage:
    """The sum of the tokens of several calls."""
    prompt, completion = sum(usage.input_tokens for usage in usages), sum(usage.output_tokens for usage in usages)
    return ModelUsage(input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion)


def usage_of(call: Mapping[str, Any]) -> ModelUsage | None:
    """The tokens of a call; None if its endpoint did not count them."""
    prompt, completion = call["prompt_tokens"], call["completion_tokens"]
    if prompt is None or completion is None:
        return None
    return ModelUsage(input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion)
