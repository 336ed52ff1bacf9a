"""Faults of a model's endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.latency import RULES, SETTINGS
from tests.faults.debates import IN_PYTHON, READERS, Ended, Sandbox, sandbox, words_of
from tests.faults.record import Fault, Result, first_failed

Rule = dict[str, Any]
SYSTEM = "madke"
ONE_ATTEMPT = {"attempts": 1}
DEBATES, PER_SECOND, MOST_CALLS = 32, 40, 1.3
"""For overloads: the number of debates, the calls per second that the endpoint accepts, and the largest allowed ratio
of sent to answered calls.
"""
UNFINISHED = "the debate, except for the part in its document"
"""The loss if a debate ends with an error (a cell of the table)."""
OVERFLOW = {"error": {"message": "maximum context length is 64 tokens", "code": "context_length_exceeded"}}
SELECTION = {"match": "`selected`", "fields": {"reason": "It fits.", "selected": [1]}}
"""A rule for a fixed selection of evidence.

Without this rule, the endpoint derives each selection from the prompt. The prompt of a repeated request also quotes the
unusable reply, so the repeated request would get another selection. This could change the verdict.
"""
ODD = ('{"choices": [', "null", '{"choices": []}', "<html>", '{"error": {"message": "no"}}', "")
"""Response bodies that are cut off or contain no reply."""


def survived_faults(*rules: Rule, scripted: Sequence[Rule] = (), **settings: Any) -> Callable[[Path, bool], Result]:
    """Make a function that runs a debate with each fault; its verdict must be the same as without faults.

    Args:
        rules: the faults.
        scripted: rules for the endpoint's replies, in the runs with a fault and in the run without faults.
        settings: the debate's settings.
    """

    def cause(folder: Path, quick: bool) -> Result:
        with sandbox(folder / "without", scripted) as here:
            undisturbed, calls = here.verify(SYSTEM, **settings), here.served()
        more, wrong = 0, ""
        for number, rule in enumerate(rules):
            with sandbox(folder / f"with-{number}", [rule, *scripted]) as here:
                ended = here.verify(SYSTEM, **settings)
                more += here.served() - calls
            wrong = wrong or first_failed(
                (ended.code == 0, f"exit code {ended.code}: {ended.errors}"),
                (ended.verdict == undisturbed.verdict, f"another verdict: {ended.verdict}"),
            )
        return Result(len(rules), f"{more} additional requests", wrong)

    return cause


def resumable_failures(kinds: set[str], *rules: Rule, **settings: Any) -> Callable[[Path, bool], Result]:
    """Make a function that runs a debate twice for each fault. Only the first chat call of the first run fails.

    The first run must end with an error of one of ``kinds``. The second run must make only the missing calls.
    """

    def cause(folder: Path, quick: bool) -> Result:
        repaid, wrong = 0, ""
        with sandbox(folder / "without") as here:
            undisturbed, calls = here.verify(SYSTEM, **settings), here.served()
        for number, rule in enumerate(rules):
            with sandbox(folder / f"with-{number}", [{**rule, "match": "", "times": 1}]) as here:
                ended = here.verify(SYSTEM, **settings)
                wrong = wrong or wrong_failure(ended, kinds)
                ended = here.verify(SYSTEM, **settings)
                again = here.served() - calls - 1
                repaid += max(0, again)
            wrong = wrong or first_failed(
                (ended.code == 0, f"the debate does not resume: {ended.errors}"),
                (ended.verdict == undisturbed.verdict, f"another verdict: {ended.verdict}"),
                (again <= 0, f"{again} calls were paid again after {json.dumps(rule)}"),
            )
        return Result(len(rules), f"{repaid} calls paid again", wrong)

    return cause


def combine_faults(*faults: Callable[[Path, bool], Result]) -> Callable[[Path, bool], Result]:
    """Make a function that calls several functions, each of which causes faults and checks their result."""

    def cause(folder: Path, quick: bool) -> Result:
        found = [fault(folder / f"part-{number}", quick) for number, fault in enumerate(faults)]
        wrong = next((result.wrong for result in found if result.wrong), "")
        return Result(sum(r.times for r in found), "; ".join(r.lost for r in found), wrong)

    return cause


def lasting_failures(kinds: set[str], *rules: Rule, **settings: Any) -> Callable[[Path, bool], Result]:
    """Make a function that runs a debate for each rule; each debate must end with an error of one of ``kinds``."""

    def cause(folder: Path, quick: bool) -> Result:
        problems = []
        for number, rule in enumerate(rules):
            with sandbox(folder / str(number), [rule]) as here:
                problems.append(wrong_failure(here.verify(SYSTEM, **settings), kinds))
        return Result(len(rules), UNFINISHED, next(filter(None, problems), ""))

    return cause


def wrong_failure(ended: Ended, kinds: set[str]) -> str:
    """The problem if a debate did not fail with an error of one of ``kinds``; otherwise an empty string."""
    return first_failed(
        (ended.code in (2, 3), f"exit code {ended.code}, not 2 or 3: {ended.errors}"),
        (ended.error_kind in kinds, f"the error is {ended.error_kind}, not {sorted(kinds)}: {ended.errors}"),
        ("Traceback" not in ended.errors, ended.errors),
    )


def fail_judge_at_end(folder: Path, quick: bool) -> Result:
    """Run a debate whose judge's model fails at the end; then run the same command again."""
    with sandbox(folder / "without") as here:
        calls = run_with_own_judge(here).document["usage"]["calls"]  # type: ignore[index]
        undisturbed = here.served()
    with sandbox(folder / "with", [{"model": "stub-judge", "status": 500, "times": 3}]) as here:
        first = run_with_own_judge(here)
        refused = 3
        done = run_with_own_judge(here)
        repaid = here.served() - refused - undisturbed
    wrong = wrong_failure(first, {"server_error"}) or first_failed(
        (done.code == 0, done.errors), (repaid <= 0, f"{repaid} calls were paid again")
    )
    return Result(1, f"{max(0, repaid)} of {calls} calls paid again", wrong)


def run_with_own_judge(here: Sandbox) -> Ended:
    """Run a debate whose judge has its own model. With ``all_rounds`` the judge is always called."""
    return here.verify("tool_mad", models={"judge": "openai:stub-judge"}, max_rounds=1, scoring="all_rounds")


def overload_by_processes(folder: Path, quick: bool) -> Result:
    """Run debates, each in its own process, with an endpoint that accepts only three calls at a time."""
    number = 4 if quick else 8
    with sandbox(folder, latency_ms=30, concurrency_limit=3, over_limit="reject") as here:
        starts = [Sandbox(here.stub, folder / str(n)) for n in range(number)]
        for each in starts:
            each.folder.mkdir()
        running = [(each, each.start(*words_of(SYSTEM), "--out", str(each.out))) for each in starts]
        ended = [each.end(process) for each, process in running]
    lost = [one for one in ended if one.code]
    return Result(number, f"{len(lost)} debates", lost[0].errors[-500:] if lost else "")


def overload_calls_per_second(folder: Path, quick: bool) -> Result:
    """Run debates at once in one process. Their endpoint limits the number of calls per second."""
    number = 8 if quick else DEBATES
    options = {"bucket": PER_SECOND, "bucket_size": PER_SECOND // 2, "retry_after": "1"}
    with sandbox(folder, RULES, latency_ms=30, **options) as here:
        out = folder / "documents.json"
        settings = {**SETTINGS, "debaters": READERS, "embedder": "openai:stub-embedding"}
        given = {"graph": "tool_mad", "settings": settings, "mode": "off", "out": str(out)}
        given["claims"] = [f"Resolution {n} says so." for n in range(number)]
        process = here.start(json.dumps(given), program=IN_PYTHON)
        errors = process.communicate(timeout=500)[1]
        documents = json.loads(out.read_text()) if out.exists() else []
        sent = [call["status"] for call in here.stub.calls()]
    done = sum(document["status"] == "done" for document in documents)
    share = len(sent) / max(1, sent.count(200))
    wrong = first_failed(
        (process.returncode == 0, errors[-500:]),
        (done == number, f"{number - done} of {number} debates are lost"),
        (quick or share <= MOST_CALLS, f"{share:.2f} times the calls"),
    )
    return Result(number, f"{number - done} debates; {share:.2f} times the calls that were answered", wrong)


def refuse_for_hours(folder: Path, quick: bool) -> Result:
    """Run debates one after another, each in its own process. The endpoint refuses calls for two hours."""
    with sandbox(folder, [{"status": 429, "retry_after": "7200"}]) as here:
        ended = [here.verify("standard_prompting") for _ in range(3)]
        sent = here.served()
    wrong = next(filter(None, (wrong_failure(one, {"rate_limited"}) for one in ended)), "")
    return Result(len(ended), UNFINISHED, wrong or first_failed((sent == 3, f"{sent} calls were sent")))


FAULTS = [
    Fault(
        "429 alone",
        "the endpoint refuses calls with 429, with and without Retry-After",
        "the call is sent again; the same verdict",
        survived_faults({"status": 429, "times": 1}, {"status": 429, "times": 2, "retry_after": "1"}),
    ),
    Fault(
        "429 for hours",
        "the endpoint asks each of three processes to wait for two hours",
        "a typed error at once; each process sends one call",
        refuse_for_hours,
    ),
    Fault(
        "429 under load",
        "debates, each in its own process, with an endpoint that accepts 3 calls at a time and refuses the others",
        "all debates end with verdicts",
        overload_by_processes,
    ),
    Fault(
        "429 under load, one process",
        f"{DEBATES} Tool-MAD debates at once with an endpoint that accepts {PER_SECOND} calls a second",
        f"all debates end with verdicts, and send at most {MOST_CALLS} times the calls that are answered",
        overload_calls_per_second,
    ),
    Fault(
        "5xx",
        "the endpoint answers one call with 500, 502, 503 or 529",
        "the call is sent again; the same verdict",
        survived_faults(*({"status": status, "times": 1} for status in (500, 502, 503, 529))),
    ),
    Fault(
        "down at the end",
        "the judge's model answers 500 until its attempts are used up",
        "a typed error; the same command calls only the judge",
        fail_judge_at_end,
    ),
    Fault(
        "timeouts",
        "an answer takes longer than the setting `timeout`",
        "a typed error; the same command makes only the missing calls",
        resumable_failures({"timeout"}, {"delay_ms": 5000}, timeout=1, **ONE_ATTEMPT),
    ),
    Fault(
        "resets",
        "the endpoint closes the connection without an answer",
        "the call is sent again; the same verdict",
        survived_faults({"drop": True, "times": 1}, {"drop": True, "times": 2}),
    ),
    Fault(
        "cut and odd bodies",
        "each response body is cut off, empty, null, HTML, without a choice, or an error with status 200",
        "a typed error, no unhandled exception",
        lasting_failures(
            {"bad_response", "server_error", "bad_request", "empty", "unparsed"},
            *({"raw": raw} for raw in ODD),
            **ONE_ATTEMPT,
        ),
    ),
    Fault(
        "replies cut off",
        "one reply, or every reply, is cut off at the length limit",
        "the reply is requested once more; a typed error if the second reply is also cut off",
        combine_faults(
            survived_faults({"finish": "length", "times": 1}, scripted=[SELECTION]),
            lasting_failures({"cut"}, {"finish": "length"}),
        ),
    ),
    Fault(
        "refusals",
        "the model refuses each call",
        "a typed error",
        lasting_failures({"refused"}, {"finish": "content_filter"}),
    ),
    Fault(
        "context overflow",
        "the endpoint says that each prompt is too long for its model",
        "a typed error that says what to shorten",
        lasting_failures({"too_long"}, {"status": 400, "raw": json.dumps(OVERFLOW)}),
    ),
    Fault(
        "key expired",
        "the endpoint answers one call with 401",
        "a typed error; the same command makes only the missing calls",
        resumable_failures({"authentication"}, {"status": 401}),
    ),
]
