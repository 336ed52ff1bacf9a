"""The archive of a study: a zip file with its plans, its logs and the replies that its debates got, each with a hash.

Whoever has it can make the same tables from the logs, and run every debate again from the replies, without a key and
without a network. An archive is untrusted input (`moot.core.archives`).
"""

from __future__ import annotations

import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from moot.core.archives import PART, ArchiveKind, FileList, ListedFile, new_archive
from moot.core.callers import program_in
from moot.core.endpoint import PROVIDERS, close_clients
from moot.core.errors import MootError, UserError
from moot.core.fingerprints import moot_version
from moot.core.store import Store, open_store
from moot.core.transfer import export_run, import_run
from moot.evals._runs.log_files import UNREADABLE, Header, find_logs, read_headers, without_superseded
from moot.evals._runs.logs import damaged_error, samples_in
from moot.graphs import load_graph
from moot.nodes import StoreUse, store_use
from moot.nodes._models.prices import Entry, price_of, read_prices
from moot.nodes._runtime.settings import checked_settings
from pydantic import Field

LIST = "study.json"
"""The name of the list of the files in an archive."""
MOST_BYTES = 200 * 2**30
"""Maximum number of bytes of all files in an archive, unpacked."""
NAME = re.compile(rf"(?:logs(?:/{PART}){{1,6}}\.(?:eval|json|yaml)|replies/[0-9a-f]{{32}}\.moot)")
"""The names of the files in an archive: no absolute path, no hidden file, and none outside its folder."""
SAME = ("answer", "raw_verdict", "stop_reason", "rounds", "status")
"""The fields of a result document that a replay must give again, with the numbers of calls and tokens."""


class StudyList(FileList):
    """The list of an archive: its files, and what its debates depended on besides their settings."""

    moot_study: Literal[1]
    corpora: dict[str, str]
    """The digest of each corpus that was searched. The passages that were found are in the logs and the replies."""
    endpoints: dict[str, str]
    """The addresses that were called, by provider. A replay calls none, but replies are stored by address."""
    prices: Annotated[list[Entry], Field(max_length=10_000)]
    """The prices of the models that were called: tables of costs, and ceilings in USD, depend on them."""


ARCHIVE = ArchiveKind("a study", LIST, StudyList, NAME, MOST_BYTES)


@dataclass
class Archived:
    """What an archive contains: the numbers of its logs, and of debates with and without stored replies."""

    logs: int = 0
    debates: int = 0
    without_replies: int = 0


@dataclass
class Replayed:
    """What a replay found: the number of debates that gave the same result, and why each other debate did not."""

    same: int = 0
    different: list[str] = field(default_factory=list)
    not_replayed: list[str] = field(default_factory=list)


def archive_study(logs: Path, file: Path, store: Store | None) -> Archived:
    """Write the archive of a folder of logs. Blocking."""
    if not logs.is_dir():
        raise UserError(f"There is no folder {logs}. Name the folder of a study's logs.", kind="missing_file")
    headers, _ = read_headers(find_logs([logs]))
    headers, _ = without_superseded(headers)
    if not headers:
        raise UserError(f"{logs} has no log of a debate system.", kind="missing_file")
    found, parts = Archived(len(headers)), [header.metadata.get("parts") or {} for header in headers]
    models: set[str] = set()
    paths = {f"logs/{header.path.relative_to(logs).as_posix()}": header.path for header in headers}
    paths |= {f"logs/{plan.relative_to(logs).as_posix()}": plan for plan in sorted(logs.rglob("plan-*.yaml"))}
    listed: dict[str, ListedFile] = {}
    known = read_prices()
    with new_archive(file) as archive:
        for name, path in paths.items():
            listed[name] = ARCHIVE.add(archive, name, path)
        with tempfile.TemporaryDirectory() as folder:
            exported = Path(folder) / "run.moot"
            for document in _documents(headers):
                run = store.run(document["id"]) if store and document.get("id") else None
                found.debates += 1
                models |= {call["model"] for call in document["calls"]}
                if store is None or run is None or not run.replies:
                    found.without_replies += 1
                elif (name := f"replies/{run.id}.moot") not in listed:
                    export_run(store, run, exported)
                    listed[name] = ARCHIVE.add(archive, name, exported)
        about = StudyList(
            moot_study=1,
            version=moot_version(),
            corpora=_merged(parts, "corpora"),
            endpoints=_merged(parts, "endpoints"),
            prices=[Entry(model=name, **price) for name in sorted(models) if (price := price_of(name, known))],
            files=listed,
        )
        archive.writestr(LIST, about.model_dump_json(indent=1))
    return found


def _merged(parts: Sequence[Mapping[str, Any]], name: str) -> dict[str, str]:
    return {key: str(value) for one in parts for key, value in (one.get(name) or {}).items()}


def _documents(headers: Sequence[Header]) -> Iterator[Mapping[str, Any]]:
    """The result documents in logs, one after the other."""
    for header in headers:
        try:
            yield from (document for _, document in samples_in(header) if document is not None)
        except (*UNREADABLE, TypeError, AttributeError) as error:
            raise damaged_error(str(header.path), error) from error


# --- another person's archive -----------------------------------------------------------------------------------------


def unpack_study(file: Path, folder: Path) -> StudyList:
    """Unpack an archive into a new folder, and check every file against the list. Blocking."""
    return ARCHIVE.unpack(file, folder)


def replay_study(folder: Path, about: StudyList, advance: Callable[[], None] = lambda: None) -> Replayed:
    """Run every debate of an unpacked archive again from its replies, and compare the results with the logs. Blocking.

    This sets MOOT_HOME to a folder in ``folder``, so that the replies are kept apart from one's own, and the addresses
    of providers and the prices of models to those of the study.
    """
    os.environ["MOOT_HOME"] = str(folder.absolute() / "home")
    prices = folder.absolute() / "prices.jsonl"
    prices.write_text("".join(f"{entry.model_dump_json(exclude_none=True)}\n" for entry in about.prices), "utf-8")
    os.environ["MOOT_PRICES"] = str(prices)
    for provider, address in about.endpoints.items():
        if provider in PROVIDERS:
            os.environ[PROVIDERS[provider].base_url_variable] = address
    stored = {Path(name).stem for name in about.files if name.startswith("replies/")}
    headers, _ = read_headers(find_logs([folder / "logs"]))
    return asyncio.run(_replay(folder, headers, stored, advance))


async def _replay(folder: Path, headers: Sequence[Header], stored: set[str], advance: Callable[[], None]) -> Replayed:
    found = Replayed()
    try:
        for header in headers:
            attacked = bool(header.metadata.get("attack"))
            for document in _documents([header]):
                name = f"{header.path.name}, debate {document['id']}"
                if attacked or document["id"] not in stored:
                    why = "it was attacked" if attacked else "its replies are not in the archive"
                    found.not_replayed.append(f"{name}: {why}")
                    continue
                await _replay_one(folder / "replies" / f"{document['id']}.moot", document, name, found)
                advance()
    finally:
        await close_clients()
    return found


async def _replay_one(file: Path, document: Mapping[str, Any], name: str, found: Replayed) -> None:
    store = open_store()
    import_run(store, file)
    run = store.run(document["id"])
    assert run
    if outside := program_in(run.settings):
        found.not_replayed.append(f"{name}: {outside[:80]} is a program of its own")
        return
    try:
        system = load_graph(run.graph)
        settings = checked_settings(system.settings, run.settings, run.graph)
        with store_use(StoreUse("replay", id=run.id)):
            again = await system.graph.ainvoke(run.input, context=settings.with_document())
    except MootError as error:
        found.not_replayed.append(f"{name}: {error.detail}")
        return
    changed = [key for key in SAME if again[key] != document[key]]
    totals = ("calls", "prompt_tokens", "completion_tokens")
    changed += [key for key in totals if again["usage"][key] != document["usage"][key]]
    if changed:
        why = f" ({again['error']['detail']})" if again["error"] else ""
        found.different.append(f"{name}: {', '.join(changed)} differ{why}")
    else:
        found.same += 1
