"""How many tokens a reply may have, and how an endpoint wants to be told.

Without `max_tokens`, the endpoint decides, unless a ceiling bounds tokens or USD: then `limit_of` is sent. It follows
the model: a model that thinks writes hidden tokens first, and they count. That a model thinks is known from LangChain's
profile of it, from its name, from Ollama, from an endpoint's counts, or from a reply that was cut off before it said
anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

REPLY_TOKENS = 512
"""Maximum number of tokens in a reply under a ceiling in tokens or USD, if `max_tokens` is not set."""
LONG_REPLY_TOKENS = 1536
"""The same for replies with an entry for each of several documents, statements, quotes or claims: some 50 each."""
THINKING_TOKENS = 4096
"""Further tokens for a model that is known to think, before an endpoint has counted more of its thoughts."""
THINKING_MARGIN = 2
"""The most thoughts counted so far are multiplied by this factor, because their length varies."""

MOST_THOUGHTS = 1_000_000
"""Larger counts of hidden tokens are ignored, in case an endpoint returns absurd counts."""

_thoughts: dict[str, int] = {}
"""The most hidden tokens of a reply so far, by model (provider:name); 0 if none were counted."""
_older: set[tuple[str, str]] = set()
"""Models, by address and name, whose endpoints accept only the older names ``max_tokens`` and ``system``."""
_without_usage: set[tuple[str, str]] = set()
"""Models, by address and name, whose endpoints do not accept ``stream_options``, so streamed replies have no counts."""
_without_system: set[tuple[str, str]] = set()
"""Models, by address and name, whose templates have no role ``system``."""


def forget_replies() -> None:
    """Forgets what was learnt from endpoints about replies; for tests."""
    _thoughts.clear()
    _older.clear()
    _without_usage.clear()
    _without_system.clear()


def limit_of(model: str, visible: int = REPLY_TOKENS) -> int:
    """The tokens of a reply that are reserved for a model (provider:name): ``visible`` ones, and its thoughts."""
    thoughts = _thoughts.get(model, 0 if _has_name_of_thinker(model) else None)
    return visible + (0 if thoughts is None else max(THINKING_TOKENS, THINKING_MARGIN * thoughts))


def note_thinking(model: str, tokens: int = 0) -> None:
    """Notes that a model thinks, and that it wrote this many hidden tokens in one reply."""
    _thoughts[model] = max(_thoughts.get(model, 0), tokens)


def note_profile(model: str, chat: BaseChatModel) -> None:
    """Notes that a model thinks, if LangChain's profile of it says so, and if it does so without being asked."""
    provider = model.partition(":")[0]
    if provider not in THINK_IF_ASKED and (getattr(chat, "profile", None) or {}).get("reasoning_output"):
        note_thinking(model)


THINKS = re.compile(
    r"\b(?:o[134]|gpt-5|gpt-oss|deepseek-(?:r\d|reasoner)|qwq|qwen3(?![\w.-]*(?:instruct|coder|next|embedding))"
    r"|magistral|grok-4|gemini-(?:2\.5-pro|3)|glm-4\.[5-9]|minimax-m\d|kimi-k2-thinking)(?![a-z\d])|[-_](?:thinking|reason)",
    re.IGNORECASE,
)
"""Names of models that think without being asked, as servers and gateways spell them."""


@lru_cache(maxsize=256)
def _has_name_of_thinker(model: str) -> bool:
    return bool(THINKS.search(model))


THINK_IF_ASKED = ("anthropic", "bedrock_converse")
"""Providers whose models think only if a request asks for it. moot's requests do not."""


def count_thoughts(model: str, message: AIMessage) -> None:
    """Notes the hidden tokens of a reply, if its endpoint counts any."""
    usage = message.usage_metadata
    hidden = usage.get("output_token_details", {}).get("reasoning") if usage else None
    if type(hidden) is int and 0 < hidden < MOST_THOUGHTS:
        note_thinking(model, hidden)


def limited(chat: BaseChatModel, tokens: int | None) -> BaseChatModel:
    """A copy of a chat model whose replies have at most this many tokens; the model itself without a limit for it."""
    names = [name for name in ("max_tokens", "max_output_tokens", "num_predict") if name in type(chat).model_fields]
    return chat.model_copy(update={names[0]: tokens}) if tokens and names else chat


def takes_older_names(address: str, model: str) -> bool:
    """Whether an endpoint was found to accept only older names of the API: ``max_tokens`` and the role ``system``."""
    return (address, model) in _older


def note_names(address: str, model: str, *, older: bool) -> None:
    """Notes which names of the API an endpoint accepts."""
    (_older.add if older else _older.discard)((address, model))


def note_no_usage(address: str, model: str) -> None:
    """Notes that an endpoint does not accept the request for the counts of a streamed reply."""
    _without_usage.add((address, model))


def counted_if_streamed(chat: BaseChatModel, address: str, model: str) -> BaseChatModel:
    """A chat model that asks for the counts of streamed replies only if its endpoint is not known to refuse that."""
    refused = (address, model) in _without_usage and "stream_usage" in type(chat).model_fields
    return chat.model_copy(update={"stream_usage": False}) if refused else chat


def note_no_system(address: str, model: str) -> None:
    """Notes that a model's template has no role ``system``."""
    _without_system.add((address, model))


def taken_messages(messages: Sequence[BaseMessage], address: str, model: str) -> Sequence[BaseMessage]:
    """The messages; for a model without the role ``system``, the instructions stand before the user's first message."""
    first, *others = messages
    if (address, model) not in _without_system or not isinstance(first, SystemMessage):
        return messages
    asked = next((message for message in others if isinstance(message, HumanMessage)), None)
    whole = HumanMessage(f"{first.content}\n\n{asked.content}" if asked else first.content)
    return [whole, *(message for message in others if message is not asked)]
