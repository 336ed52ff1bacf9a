"""`moot recheck` on a web that changes, comments on passages, and checks that are handed over."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from moot.core.reviews import History, history_of
from moot.core.store import open_store
from moot.web import debates
from moot.web.reviews import moment

from tests.commands import moot
from tests.conftest import StartStub
from tests.scripted_web import ScriptedWeb, Site, all_sites, environment, scripted_web

SITES = all_sites()[:5]
SAME, REWRITTEN, CORRECTED, GONE, BROKEN = SITES
pytestmark = pytest.mark.allow_hosts(["127.0.0.1", *(site.host for site in SITES)])
TODAY = datetime.now(UTC).date().isoformat()
OPTIONS = ["--model", "openai:stub", "--graph", "rag", "--set", 'sources=["serper"]', "--set", "k=5"]
OPTIONS += ["--set", "assess=false"]
WARNINGS = ["--acknowledge", "single_origin"]


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedWeb]:
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    with scripted_web(SITES) as running:
        for name, value in environment(running).items():
            monkeypatch.setenv(name, value)
        yield running


def answers(start_stub: StartStub, answer: str, *cited: dict[str, str]) -> None:
    """From now on, the endpoint gives this answer, with these citations."""
    fields = {"query": "sights", "answer": answer, "rationale": "So.", "citations": list(cited)}
    start_stub([{"fields": fields}])


@pytest.fixture
def check(web: ScriptedWeb, start_stub: StartStub, tmp_path: Path) -> str:
    """The id of a stored check whose verdict quotes the pages of all sites."""
    answers(start_stub, "SUPPORTS")
    first = verified(tmp_path)
    cited = [
        {"evidence_id": piece["id"], "quote": site.decisive}
        for piece in first["evidence"]
        for site in SITES
        if site.host in piece["url"]
    ]
    assert len(cited) == len(SITES)
    answers(start_stub, "SUPPORTS", *cited)
    assert moot("config", "set", "editor", "Ada").returncode == 0
    return str(verified(tmp_path)["id"])


def verified(folder: Path) -> dict[str, Any]:
    """The document of a new check."""
    assert moot("verify", SAME.claim, *OPTIONS, "--out", folder / "check.json").returncode == 0
    document: dict[str, Any] = json.loads((folder / "check.json").read_text())
    return document


def approve(check: str, *options: str) -> None:
    done = moot("review", check, "--approve", "--rating", "True", "--summary", "It is so.", *WARNINGS, *options)
    assert done.returncode == 0, done.stderr


def newest(check: str) -> dict[str, Any]:
    """The newest version of a check."""
    return debates.load(debates.versions(check)[-1])


def history(check: str) -> History:
    return history_of(open_store(), check)


def corrected(site: Site) -> str:
    return site.article().replace(f"in the spring of {site.year}", f"in the autumn of {site.year + 9}")


def change(web: ScriptedWeb) -> None:
    web.changed[REWRITTEN.host] = REWRITTEN.article().replace("well-known sight", "famous sight")
    web.changed[CORRECTED.host] = corrected(CORRECTED)
    web.changed[GONE.host] = 410
    web.changed[BROKEN.host] = 500


def found_by_site(told: dict[str, Any]) -> dict[str, str]:
    pieces = {piece["id"]: piece["url"] for piece in debates.load(told["document"])["evidence"]}
    hosts = {site.host: site.name for site in SITES}
    return {hosts[pieces[one["passage"]].split("/")[2].split(":")[0]]: one["found"] for one in told["findings"]}


def test_looking_again_says_what_became_of_each_page_and_debates_anew(
    check: str, web: ScriptedWeb, start_stub: StartStub
) -> None:
    approve(check, "--look-again", TODAY)
    change(web)
    before = len(web.requests)
    asked = moot("recheck", "--due", typed="n\n")
    assert "1 check: 5 cited pages to read again" in asked.stderr
    assert "Expected: " in asked.stderr
    assert (asked.returncode, len(web.requests), len(history(check))) == (1, before, 1)
    answers(start_stub, "REFUTES")
    done = moot("recheck", "--due", "--yes", "--json")
    [told] = json.loads(done.stdout)
    assert found_by_site(told) == {
        SAME.name: "unchanged",
        REWRITTEN.name: "text_changed",
        CORRECTED.name: "passage_gone",
        GONE.name: "page_gone",
        BROKEN.name: "not_read",
    }
    now = {one["found"]: one["now"] for one in told["findings"]}
    assert f"in the autumn of {CORRECTED.year + 9}" in now["passage_gone"]
    assert done.returncode == 3, "one page could not be read"
    anew = newest(check)
    assert (anew["id"], anew["answer"]) == (told["version"], "REFUTES")
    assert anew["replaces"]["check"] == check
    texts = " ".join(piece["text"] for piece in anew["evidence"])
    assert f"autumn of {CORRECTED.year + 9}" in texts, "no page is taken from the earlier debate"
    old = debates.load(anew["replaces"]["document"])
    assert (old["id"], old["answer"], "replaces" in old) == (check, "SUPPORTS", False)
    seen = history(check)
    assert [(one.action, one.stage, one.version) for one in seen[1:]] == [
        ("recheck", "approved", ""),
        ("recheck", "approved", anew["id"]),
    ]
    assert seen.decided == seen[0], "the editor's decision stands until the editor changes it"
    said = moot("review", anew["id"][:8]).stdout
    assert said.count("Ada") == 4, "the history goes on with the new version"
    assert said.splitlines()[2:4] == [
        "Not reviewed.",
        f"An editor decided about another version, {check[:8]}: Our rating: True. Approved, Ada, {moment(seen[0])}.",
    ]


def test_without_a_change_nothing_is_debated_and_the_check_is_no_longer_due(check: str, web: ScriptedWeb) -> None:
    moot("review", check, "--look-again", TODAY)
    done = moot("recheck", check[:8], "--yes", "--look-again", "2999-01-31")
    assert (done.returncode, done.stdout.count(": unchanged.")) == (0, 5), done.stderr
    assert len(debates.versions(check)) == 1
    assert str(history(check)[-1].look_again) == "2999-01-31"
    assert "No check is due." in moot("review", "--due").stdout
    assert moot("recheck", check, "--no-debate").returncode == 0
    assert str(history(check)[-1].look_again) == "2999-01-31"  # a day that has not come stays
    assert "No check is due." in moot("recheck", "--due").stdout
    wrong = [moot("recheck"), moot("recheck", check, "--due"), moot("recheck", check, "--look-again", "soon")]
    assert [one.returncode for one in wrong] == [2, 2, 2]


def test_given_pages_are_debated_anew_as_they_are_now(web: ScriptedWeb, start_stub: StartStub, tmp_path: Path) -> None:
    options = ["--model", "openai:stub", "--graph", "chain_of_thought", "--out", tmp_path / "check.json"]
    options += [part for site in (CORRECTED, GONE) for part in ("--given", web.url(site))]
    answers(start_stub, "SUPPORTS")
    assert moot("verify", CORRECTED.claim, *options).returncode == 0
    texts = {piece["text"]: piece["id"] for piece in json.loads((tmp_path / "check.json").read_text())["evidence"]}
    quotes = (CORRECTED.decisive, GONE.decisive)
    cited = [{"evidence_id": id, "quote": q} for text, id in texts.items() for q in quotes if q in text]
    answers(start_stub, "SUPPORTS", *cited)
    assert moot("verify", CORRECTED.claim, *options).returncode == 0
    check = json.loads((tmp_path / "check.json").read_text())["id"]
    change(web)
    answers(start_stub, "REFUTES")
    done = moot("recheck", check, "--yes")
    assert done.returncode == 0, done.stderr
    now = newest(check)["evidence"]
    assert {piece["url"] for piece in now} == {web.url(CORRECTED)}
    assert f"autumn of {CORRECTED.year + 9}" in " ".join(piece["text"] for piece in now)


def test_comments_stand_at_passages_and_decide_nothing(check: str) -> None:
    first = debates.load(debates.versions(check)[0])["evidence"]
    approve(check)
    commented = moot("review", check, "--comment-on", "2", "Is this the same canal?", "--person", "Bo")
    assert "Is this the same canal?" in commented.stdout, commented.stderr
    entry = history(check)[-1]
    assert entry.passage in {piece["id"] for piece in first}
    assert (entry.stage, entry.rating, history(check).decided) == ("approved", "True", history(check)[0])
    options = ["--claimreview", "--publisher", "P", "--url", "https://example.org/1", "--out"]
    review = Path(open_store().path).parent / "a.json"  # type: ignore[attr-defined]
    assert moot("report", check, *options, review).returncode == 0
    assert "canal?" not in review.read_text()
    unknown = moot("review", check, "--comment-on", "99", "No such one.")
    assert (unknown.returncode, "no passage '99'" in unknown.stderr) == (2, True)
    assert moot("review", check, "--comment-on", "1", " ").returncode == 2
    assert moot("review", check, "--comment-on", "1", "x", "--approve").returncode == 2


def test_an_archive_opens_elsewhere_and_never_overwrites(
    check: str, web: ScriptedWeb, start_stub: StartStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approve(check)
    moot("review", check, "--comment-on", "1", "Ask the museum.")
    change(web)
    answers(start_stub, "REFUTES")
    moot("recheck", check, "--yes")
    made = moot("export", check[:8], "--out", tmp_path / "checks.zip")
    assert "1 check, 2 documents and 4 entries of their histories" in made.stdout, made.stderr
    here = [(stem, debates.load(stem)) for stem in debates.versions(check)], history(check)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in (check, "f" * 32):
        (folder / f"{name}.json").write_text(json.dumps(here[0][0][1] | {"id": name}))
    part = moot("export", folder, "--out", tmp_path / "part.zip")
    assert (part.returncode, "not stored here: ffffffff." in part.stderr) == (2, True)
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "elsewhere"))
    assert "1 check, 2 documents and 4 entries" in moot("import", tmp_path / "checks.zip").stdout
    there = [(stem, debates.load(stem)) for stem in debates.versions(check)], history(check)
    assert there == here
    assert "1 check here already" in moot("import", tmp_path / "checks.zip").stdout
    assert moot("review", check, "--correct", "It was later.", *WARNINGS, "--person", "Bo").returncode == 0
    moot("export", check, "--out", tmp_path / "back.zip")
    # A check that was handed over can be looked at again there, from its document alone.
    assert moot("recheck", check, "--no-debate").returncode == 0
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    back = moot("import", tmp_path / "back.zip").stdout
    assert "0 documents and 1 entry" in back
    assert f"{check[:8]}: corrected by Bo (as the archive says, which is not signed)" in back
    assert history(check)[:-1] == here[1]
    moot("review", check, "--withdraw", "All was wrong.")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "elsewhere"))
    before = history(check)
    moot("export", check, "--out", tmp_path / "theirs.zip")
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    apart = moot("import", tmp_path / "theirs.zip")
    assert (apart.returncode, "went on apart at entry 6: here Ada (withdrawn" in apart.stderr) == (2, True)
    assert (history(check)[-1].action, before[-1].action) == ("withdraw", "recheck")


def rewrite(archive: Path, change: Callable[[dict[str, bytes]], None], *, lists: bool = True) -> Path:
    """A copy of an archive with changed files and, with ``lists``, a list that fits them."""
    with zipfile.ZipFile(archive) as file:
        content = {name: file.read(name) for name in file.namelist()}
    change(content)
    if lists:
        about = json.loads(content.pop("checks.json"))
        of = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in content.items()}
        content["checks.json"] = json.dumps({**about, "files": of}).encode()
    out = archive.with_name("forged.zip")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(name, data)
    return out


def replaced(ending: str, old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(content: dict[str, bytes]) -> None:
        [name] = [name for name in content if name.endswith(ending) and name != "checks.json"]
        assert old.encode() in content[name]
        content[name] = content[name].replace(old.encode(), new.encode())

    return change


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The archive of a check without evidence; MOOT_HOME is another one."""
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "home"))
    assert moot("verify", "It rains.", "--model", "fake:1", "--graph", "standard_prompting").returncode == 0
    check = json.loads(moot("list", "--json").stdout)[0]["id"]
    assert moot("review", check, "--note", "Who says so?", "--person", "Ada").returncode == 0
    assert moot("export", check, "--out", tmp_path / "checks.zip").returncode == 0
    monkeypatch.setenv("MOOT_HOME", str(tmp_path / "other"))
    return tmp_path / "checks.zip"


@pytest.mark.parametrize(
    ("change", "lists", "said"),
    [
        (replaced(".json", '"schema_version": "', '"schema_version": "9'), True, "this version of moot reads only"),
        (replaced("history.jsonl", "Who says so?", "All is well."), True, "entry 1 does not fit its hash"),
        (replaced("history.jsonl", "Who says so?", "All is well."), False, "its SHA-256 or its length differs"),
        (replaced(".json", '"id": "', '"id": "0'), True, "another check"),
        (lambda files: files.update({"checks/../../evil.json": b"{}"}), True, "a name that it may not have"),
        (lambda files: files.update({one: b" " * 10**8 for one in files if "html" in one}), False, "is longer than"),
        (lambda files: files.pop("checks.json"), False, "it has no checks.json"),
        (lambda files: files.update({"notes.txt": b""}), False, "are not those that its checks.json names"),
    ],
    ids=["schema", "history", "hash", "other", "name", "bomb", "no list", "unlisted"],
)
def test_a_forged_archive_adds_nothing(
    archive: Path, change: Callable[[dict[str, bytes]], None], lists: bool, said: str
) -> None:
    refused = moot("import", rewrite(archive, change, lists=lists))
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert "No debates are stored yet." in moot("list").stdout
    assert "is not an archive of checks" in moot("import", Path(__file__)).stderr
    assert "There is no file" in moot("import", archive.with_name("none.zip")).stderr
    assert moot("export", "--out", archive).returncode == 2
