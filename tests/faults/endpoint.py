"""Faults of a model's endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.latency import RULES, SETTINGS
from tests.faults.debates import IN_PYTHON, READERS, Ended, Place, place, words_of
from tests.faults.record import Fault, Result, first_failed

Rule = dict[str, Any]
SYSTEM = "madke"
ONE_ATTEMPT = {"attempts": 1}
DEBATES, PER_SECOND, MOST_CALLS = 32, 40, 1.1
"""Debates of one process; the endpoint's limit; the maximum ratio of sent calls to answered calls."""
OVERFLOW = {"error": {"message": "maximum context length is 64 tokens", "code": "context_length_exceeded"}}
SELECTION = {"match": "`selected`", "fields": {"reason": "It fits.", "selected": [1]}}
"""A fixed selection. Without it, a second request would draw another selection, because it quotes the first reply and
replies are drawn from their prompts; other evidence could then change the verdict.
"""
ODD = ('{"choices": [', "null", '{"choices": []}', "<html>", '{"error": {"message": "no"}}', "")
"""Response bodies that are cut off, or no reply."""


def passes(*rules: Rule, scripted: Sequence[Rule] = (), **settings: Any) -> Callable[[Path, bool], Result]:
    """Faults that a debate survives: it ends with the same verdict as without them.

    Args:
        rules: the faults.
        scripted: the endpoint's replies, both with the fault and without it.
        settings: the debate's settings.
    """

    def arrange(folder: Path, quick: bool) -> Result:
        with place(folder / "without", scripted) as here:
            undisturbed, calls = here.verify(SYSTEM, **settings), here.served()
        more, wrong = 0, ""
        for number, rule in enumerate(rules):
            with place(folder / f"with-{number}", [rule, *scripted]) as here:
                ended = here.verify(SYSTEM, **settings)
                more += here.served() - calls
            wrong = wrong or first_failed(
                (ended.code == 0, f"exit code {ended.code}: {ended.errors}"),
                (ended.verdict == undisturbed.verdict, f"another verdict: {ended.verdict}"),
            )
        return Result(len(rules), f"{more} requests more", wrong)

    return arrange


def fails(kinds: set[str], *rules: Rule, **settings: Any) -> Callable[[Path, bool], Result]:
    """Faults that end a debate with an error of one of these kinds; the same command then makes only missing calls."""

    def arrange(folder: Path, quick: bool) -> Result:
        repaid, wrong = 0, ""
        with place(folder / "without") as here:
            undisturbed, calls = here.verify(SYSTEM, **settings), here.served()
        for number, rule in enumerate(rules):
            with place(folder / f"with-{number}", [{**rule, "match": "", "times": 1}]) as here:
                ended = here.verify(SYSTEM, **settings)
                wrong = wrong or failure_error(ended, kinds)
                ended = here.verify(SYSTEM, **settings)
                again = here.served() - calls - 1
                repaid += max(0, again)
            wrong = wrong or first_failed(
                (ended.code == 0, f"it does not go on: {ended.errors}"),
                (ended.verdict == undisturbed.verdict, f"another verdict: {ended.verdict}"),
                (again <= 0, f"{again} calls were paid again after {json.dumps(rule)}"),
            )
        return Result(len(rules), f"{repaid} calls paid again", wrong)

    return arrange


def combined(*faults: Callable[[Path, bool], Result]) -> Callable[[Path, bool], Result]:
    """Faults of one class with different expected results."""

    def arrange(folder: Path, quick: bool) -> Result:
        found = [fault(folder / f"part-{number}", quick) for number, fault in enumerate(faults)]
        wrong = next((result.wrong for result in found if result.wrong), "")
        return Result(sum(r.times for r in found), "; ".join(r.lost for r in found), wrong)

    return arrange


def always(kinds: set[str], *rules: Rule, **settings: Any) -> Callable[[Path, bool], Result]:
    """Faults of every call: the debate ends with an error of one of these kinds."""

    def arrange(folder: Path, quick: bool) -> Result:
        wrong = ""
        for number, rule in enumerate(rules):
            with place(folder / str(number), [rule]) as here:
                wrong = wrong or failure_error(here.verify(SYSTEM, **settings), kinds)
        return Result(len(rules), "the debate, but for what is in its document", wrong)

    return arrange


def failure_error(ended: Ended, kinds: set[str]) -> str:
    """The error if a debate did not fail with one of these kinds of errors; else empty."""
    return first_failed(
        (ended.code in (2, 3), f"exit code {ended.code}, not 2 or 3: {ended.errors}"),
        (ended.fault in kinds, f"the error is {ended.fault}, not {sorted(kinds)}: {ended.errors}"),
        ("Traceback" not in ended.errors, ended.errors),
    )


def late(folder: Path, quick: bool) -> Result:
    """A judge whose endpoint is down at the end."""
    with place(folder / "without") as here:
        calls = judged(here).document["usage"]["calls"]  # type: ignore[index]
        undisturbed = here.served()
    with place(folder / "with", [{"model": "stub-judge", "status": 500, "times": 3}]) as here:
        first = judged(here)
        refused = 3
        done = judged(here)
        repaid = here.served() - refused - undisturbed
    wrong = failure_error(first, {"server_error"}) or first_failed(
        (done.code == 0, done.errors), (repaid <= 0, f"{repaid} calls were paid again")
    )
    return Result(1, f"{max(0, repaid)} of {calls} calls paid again", wrong)


def judged(here: Place) -> Ended:
    """Run a debate whose judge has its own model; its debaters disagree, so the judge is called."""
    return here.verify("tool_mad", models={"judge": "openai:stub-judge"}, max_rounds=1, scoring="all_rounds")


def loaded(folder: Path, quick: bool) -> Result:
    """Many debates at an endpoint that limits calls at once and refuses the rest."""
    number = 4 if quick else 8
    with place(folder, latency_ms=30, concurrency_limit=3, over_limit="reject") as here:
        starts = [Place(here.stub, folder / str(n)) for n in range(number)]
        for each in starts:
            each.folder.mkdir()
        running = [(each, each.start(*words_of(SYSTEM), "--out", str(each.out))) for each in starts]
        ended = [each.end(process) for each, process in running]
    lost = [one for one in ended if one.code]
    return Result(number, f"{len(lost)} debates", lost[0].errors[-500:] if lost else "")


def bucket(folder: Path, quick: bool) -> Result:
    """Many debates in one process at an endpoint that limits calls per second."""
    number = 8 if quick else DEBATES
    options = {"bucket": PER_SECOND, "bucket_size": PER_SECOND // 2, "retry_after": "1"}
    with place(folder, RULES, latency_ms=30, **options) as here:
        settings = {**SETTINGS, "debaters": READERS, "embedder": "openai:stub-embedding"}
        given = {"graph": "tool_mad", "settings": settings, "mode": "off", "out": str(here.out)}
        given["claims"] = [f"Resolution {n} says so." for n in range(number)]
        process = here.start(json.dumps(given), program=IN_PYTHON)
        _, errors = process.communicate(timeout=500)
        documents = json.loads(here.out.read_text()) if here.out.exists() else []
        sent = [call["status"] for call in here.stub.calls()]
    done = sum(document["status"] == "done" for document in documents)
    share = len(sent) / max(1, sent.count(200))
    wrong = first_failed(
        (process.returncode == 0, errors[-500:]),
        (done == number, f"{number - done} of {number} debates are lost"),
        (quick or share <= MOST_CALLS, f"{share:.2f} times the calls"),
    )
    return Result(number, f"{number - done} debates; {share:.2f} times the calls that were answered", wrong)


FAULTS = [
    Fault(
        "429 alone",
        "the endpoint refuses calls with 429, with and without Retry-After",
        "the call is sent again; the same verdict",
        passes({"status": 429, "times": 1}, {"status": 429, "times": 2, "retry_after": "1"}),
    ),
    Fault(
        "429 under load",
        "debates in processes of their own at an endpoint that takes 3 calls at a time and refuses the others",
        "all debates end with verdicts",
        loaded,
    ),
    Fault(
        "429 under load, one process",
        f"{DEBATES} Tool-MAD debates at once at an endpoint that takes {PER_SECOND} calls a second",
        f"all debates end with verdicts, with at most {MOST_CALLS} times the calls",
        bucket,
    ),
    Fault(
        "5xx",
        "the endpoint answers 500, 502, 503 and 529 once",
        "the call is sent again; the same verdict",
        passes(*({"status": status, "times": 1} for status in (500, 502, 503, 529))),
    ),
    Fault(
        "down at the end",
        "the judge's model answers 500 until its attempts are used up",
        "a typed error; the same command asks the judge alone",
        late,
    ),
    Fault(
        "timeouts",
        "an answer takes longer than the setting `timeout`",
        "a typed error; the same command asks only what is missing",
        fails({"timeout"}, {"delay_ms": 5000}, timeout=1, **ONE_ATTEMPT),
    ),
    Fault(
        "resets",
        "the endpoint closes the connection without an answer",
        "the call is sent again; the same verdict",
        passes({"drop": True, "times": 1}, {"drop": True, "times": 2}),
    ),
    Fault(
        "cut and odd bodies",
        "each answer is cut, empty, null, HTML, without a choice, or an error under status 200",
        "a typed error, nothing unhandled",
        always(
            {"bad_response", "server_error", "bad_request", "empty", "unparsed"},
            *({"raw": raw} for raw in ODD),
            **ONE_ATTEMPT,
        ),
    ),
    Fault(
        "replies cut off",
        "one reply, and then each reply, ends at its length limit",
        "it is asked for once more; if that is cut, too, a typed error",
        combined(passes({"finish": "length", "times": 1}, scripted=[SELECTION]), always({"cut"}, {"finish": "length"})),
    ),
    Fault(
        "refusals", "the model refuses each call", "a typed error", always({"refused"}, {"finish": "content_filter"})
    ),
    Fault(
        "context overflow",
        "the endpoint says that each prompt is too long for its model",
        "a typed error that says what to shorten",
        always({"too_long"}, {"status": 400, "raw": json.dumps(OVERFLOW)}),
    ),
    Fault(
        "key expired",
        "the endpoint answers 401 in the midst of a debate",
        "a typed error; the same command asks only what is missing",
        fails({"authentication"}, {"status": 401}),
    ),
]
