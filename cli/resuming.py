"""Debates that did not end, as ``moot verify`` finds them in the ledger and goes on with them."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from moot.cli.options import parse_pairs, parse_settings
from moot.core.config import value_of
from moot.core.errors import UserError
from moot.core.ledger import Debate, key_of, open_ledger
from moot.core.ledger.records import moot_version
from moot.core.redaction import anonymised
from moot.graphs import DebateSystem
from moot.nodes.models.keeping import MODES, LedgerUse, Mode
from moot.nodes.runtime.settings import Settings, checked_settings
from moot.nodes.vendors.catalogue import check_provider


@dataclass(frozen=True)
class Begins:
    """How a debate begins: with which settings, how it uses the ledger, and which debate it goes on with, if any."""

    settings: Settings
    use: LedgerUse
    earlier: Debate | None = None


@dataclass(frozen=True)
class Chosen:
    """What the command line says of settings: ``KEY=VALUE`` pairs, options of their own, those of a preset, and below
    them what is set for every command (`moot.core.config`)."""

    pairs: Sequence[str]
    named: Mapping[str, Any]
    preset: Mapping[str, Any]
    usual: Mapping[str, Any] = field(default_factory=dict)


def begins(
    system: DebateSystem,
    given: Mapping[str, Any],
    chosen: Chosen,
    ledger: str | None,
    *,
    resume: bool,
    fresh: bool,
    control: str | None = None,
) -> Begins:
    """How a debate begins.

    Args:
        system: its system.
        given: its input.
        chosen: its settings.
        ledger: the mode; by default what ``MOOT_LEDGER`` says, else ``record``.
        resume: whether it has to go on with the last unfinished debate of the same input.
        fresh: whether it must not go on with an earlier one.
        control: the system that is run beside it, if any.

    Raises:
        UserError: no such mode, options that exclude each other, no debate to go on with, or one with other settings.
    """
    mode = mode_of(ledger or value_of("ledger") or "record")
    if resume and (fresh or mode != "record"):
        raise UserError(
            "--resume goes on with a debate by what the ledger recorded: leave out --fresh and --ledger.",
            kind="invalid_setting",
        )
    settings = parse_settings(system.settings, chosen.pairs, {**chosen.usual, **chosen.preset, **chosen.named})
    check_models(settings)
    if fresh or mode != "record":
        return Begins(settings, LedgerUse(mode, adopt=not fresh))
    of_input = asyncio.run(unfinished_debates(system.name, given))
    if control:
        of_input += asyncio.run(without_control(system.name, given, control))
    if resume:
        if not of_input:
            raise UserError(
                f"The ledger holds no unfinished debate of {system.name} on this input. Leave out --resume to begin "
                "one; `moot ledger` lists those that there are.",
                kind="invalid_setting",
            )
        earlier = of_input[0]
        settings = settings_of(system, chosen, settings, earlier)
        return Begins(settings, use_of(earlier), earlier)
    same = moot_version(), anonymised(settings.recorded())
    found = next((debate for debate in of_input if (debate.version, debate.settings) == same), None)
    return Begins(settings, use_of(found) if found else LedgerUse(mode), found)


def check_models(settings: Settings) -> None:
    """Refuses a misspelt provider before anything runs.

    Raises:
        UserError: a model's provider is none.
    """
    speakers = (
        getattr(one, "model", None) for field in vars(settings).values() if isinstance(field, tuple) for one in field
    )
    for choice in (settings.model, *settings.models.values(), *speakers):
        if choice:
            check_provider(choice if isinstance(choice, str) else choice.model)


def use_of(earlier: Debate) -> LedgerUse:
    """How the ledger is used by a debate that goes on, or that is done and only read."""
    return LedgerUse("replay" if earlier.status == "done" else "record", id=earlier.id)


def mode_of(text: str) -> Mode:
    """A mode of the ledger by its name.

    Raises:
        UserError: there is none of that name.
    """
    for mode in MODES:
        if text == mode:
            return mode
    raise UserError(f"--ledger takes {', '.join(MODES)}, not {text!r}.", kind="invalid_setting")


def last_unfinished(given: Mapping[str, Any]) -> str | None:
    """The system of the last debate of an input that did not end; None if there is none."""
    found = asyncio.run(unfinished_debates(None, given))
    return found[0].graph if found else None


async def unfinished_debates(graph: str | None, given: Mapping[str, Any]) -> list[Debate]:
    """The debates of an input that did not end, and that no process holds; the newest first.

    Args:
        graph: only those of this system.
        given: the input.
    """
    wanted = {key: value for key, value in given.items() if value}
    found = await open_ledger().debates(graph=graph, text=str(given["claim"]))
    return [debate for debate in found if asked_for(debate) == wanted and is_left(debate)]


async def without_control(graph: str, given: Mapping[str, Any], control: str) -> list[Debate]:
    """The debate of a system and an input that is done, if the control that followed it did not end; else none.

    One that asked a person is not found: its replies are not read again.
    """
    wanted = {key: value for key, value in given.items() if value}
    if not (left := await unfinished_debates(control, given)):
        return []
    done = await open_ledger().debates(status="done", graph=graph, text=str(given["claim"]))
    followed = (debate for debate in done if asked_for(debate) == wanted and debate.started <= left[0].started)
    return [debate for debate in followed if not debate.settings.get("ask_person")][:1]


def asked_for(debate: Debate) -> dict[str, Any]:
    """A debate's input, without what is empty."""
    return {key: value for key, value in debate.input.items() if value}


def is_left(debate: Debate) -> bool:
    """Whether a debate was interrupted or failed, or waits for a person whom nobody asks any more."""
    if debate.status == "waiting":
        return debate.pid is None or debate.pid == os.getpid() or not runs(debate.pid)
    return debate.status in ("interrupted", "failed")


def runs(pid: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def settings_of(system: DebateSystem, chosen: Chosen, settings: Settings, earlier: Debate) -> Settings:
    """The settings of the debate that is gone on with.

    Raises:
        UserError: the command line names others.
    """
    named = {*parse_pairs(chosen.pairs, chosen.named, settings.model_dump(mode="json")), *chosen.preset}
    asked = settings.recorded()
    if differ := sorted(name for name in named if asked.get(name) != earlier.settings.get(name)):
        raise UserError(
            f"The unfinished debate of this input has other settings ({', '.join(differ)}). Leave them out to go on "
            "with it, or leave out --resume to begin another debate.",
            kind="invalid_setting",
        )
    found: Settings = checked_settings(system.settings, earlier.settings)
    return found


def going_on(earlier: Debate) -> str:
    """What is said of a debate that goes on."""
    moment = datetime.fromtimestamp(earlier.updated).isoformat(" ", "seconds")
    ended = {"failed": "failed", "waiting": "waited for you", "done": "ended without its control"}.get(
        earlier.status, "was interrupted"
    )
    calls = {0: "no call is", 1: "1 call is"}.get(earlier.calls, f"{earlier.calls} calls are")
    return (
        f"moot: going on with the debate that {ended} at {moment}: {calls} in the ledger. With --fresh it is held anew."
    )


@dataclass
class PersonReplies:
    """What a person replied, kept in the ledger, so that nobody is asked twice.

    Args:
        use: how the debate uses the ledger; replies are kept in the mode ``record``.
    """

    use: LedgerUse
    _asked: Counter[str] = field(default_factory=Counter)

    async def find(self, debate: str, value: Mapping[str, Any]) -> Any:
        """The reply to what a debate waits for, as it was given before; None if there is none."""
        self._asked[self._hash(value)] += 1
        if self.use.mode != "record":
            return None
        kept = await open_ledger().find(self._key(value), debate)
        return None if kept is None or kept.debate != debate else kept.value

    async def keep(self, debate: str, value: Mapping[str, Any], reply: Any) -> None:
        """Keeps a reply."""
        if self.use.mode == "record":
            await open_ledger().keep(debate, self._key(value), reply, {"role": "person", "kind": value["kind"]})

    def _key(self, value: Mapping[str, Any]) -> Any:
        return key_of("person", {"value": value, "time": self._asked[self._hash(value)]})

    def _hash(self, value: Mapping[str, Any]) -> str:
        return key_of("person", {"value": value}).hash
