"""How many tokens a reply may have, and how an endpoint wants to be told.

Without `max_tokens`, the endpoint decides, unless a ceiling bounds tokens or USD: then `limit_of` is sent. It follows
the model: a model that thinks writes hidden tokens first, and they count. That a model thinks is known from LangChain's
profile of it, from an endpoint's counts, or from a reply that was cut off before it said anything.
"""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

REPLY_TOKENS = 512
"""Maximum number of tokens in a reply under a ceiling in tokens or USD, if `max_tokens` is not set."""
THINKING_TOKENS = 4096
"""Further tokens for a model that is known to think, before an endpoint has counted more of its thoughts."""
THINKING_MARGIN = 2
"""The most thoughts counted so far are multiplied by this factor, because their length varies."""

MOST_THOUGHTS = 1_000_000
"""Larger counts of hidden tokens are ignored, in case an endpoint returns absurd counts."""

_thoughts: dict[str, int] = {}
"""The most hidden tokens of a reply so far, by model (provider:name); 0 if none were counted."""
_older_name: set[tuple[str, str]] = set()
"""Models, by address and name, whose endpoints accept only the older name ``max_tokens``."""


def forget_replies() -> None:
    """Forgets what was learnt from endpoints about replies; for tests."""
    _thoughts.clear()
    _older_name.clear()


def limit_of(model: str) -> int:
    """The tokens of a reply that are reserved for a model (provider:name), its thoughts included."""
    thoughts = _thoughts.get(model)
    return REPLY_TOKENS + (0 if thoughts is None else max(THINKING_TOKENS, THINKING_MARGIN * thoughts))


def note_thinking(model: str, tokens: int = 0) -> None:
    """Notes that a model thinks, and that it wrote this many hidden tokens in one reply."""
    _thoughts[model] = max(_thoughts.get(model, 0), tokens)


def note_profile(model: str, chat: BaseChatModel) -> None:
    """Notes that a model thinks, if LangChain's profile of it says so, and if it does so without being asked."""
    provider = model.partition(":")[0]
    if provider not in THINK_IF_ASKED and (getattr(chat, "profile", None) or {}).get("reasoning_output"):
        note_thinking(model)


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


def accepts_older_name(address: str, model: str) -> bool:
    """Whether an endpoint was found to accept only ``max_tokens``, not ``max_completion_tokens``."""
    return (address, model) in _older_name


def note_name(address: str, model: str, *, older: bool) -> None:
    """Notes by which name an endpoint accepts the limit of a reply."""
    (_older_name.add if older else _older_name.discard)((address, model))
