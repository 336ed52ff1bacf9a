"""Dissent: agents that did not support the verdict, their best argument, and changes of an agent's answer."""

from __future__ import annotations

from typing import Any

from moot.nodes._texts.dissent import dissent_of
from moot.nodes._texts.task import make_task


def answer_turn(agent: str, round: int, answer: str | None, *cited: str, **more: Any) -> dict[str, Any]:
    """A turn with an answer that cites the evidence with the ids ``cited``. A final ``!`` marks an unverified quote."""
    citations = [{"evidence_id": id.strip("!"), "quote": f"of {id}", "verified": "!" not in id} for id in cited]
    turn = {"step": "respond", "phase": "primary", "agent": agent, "round": round, "answer": answer}
    return {**turn, "rationale": f"{agent} {round}", "citations": citations, **more}


def document(*turns: dict[str, Any], answer: str | None = "SUPPORTS", **more: Any) -> dict[str, Any]:
    """A result document with these turns and the verdict ``answer``; ``more`` has further keys."""
    calls = [{"role": agent, "model": f"fake:{agent}"} for agent in "abc"]
    task = make_task(None, None, None, "A claim.")
    known: dict[str, Any] = {"votes": [], "round_log": [], "warnings": [], "answer": answer, "raw_verdict": answer}
    return {"task": task, "turns": turns, "calls": calls, **known, **more}


def test_the_minority_and_each_change_of_an_answer_are_reported() -> None:
    found = dissent_of(
        document(
            answer_turn("a", 1, "SUPPORTS", "ev-1"),
            answer_turn("b", 1, "REFUTES"),
            answer_turn("c", 1, "REFUTES", "ev-2"),
            answer_turn("a", 2, "SUPPORTS", "ev-1"),
            answer_turn("b", 2, "SUPPORTS", "ev-1", "ev-9!"),
            answer_turn("c", 2, "REFUTES", "ev-2"),
        )
    )
    assert found["votes"] == [{"answer": "SUPPORTS", "votes": 2}, {"answer": "REFUTES", "votes": 1}]
    assert found["minority"] == [
        {
            "answer": "REFUTES",
            "by": [{"agent": "c", "model": "fake:c", "number": None}],
            "argument": "c 2",
            "quotes": [{"evidence_id": "ev-2", "quote": "of ev-2"}],
        }
    ]
    [change] = found["changes"]
    assert change == {
        "agent": "b", "model": "fake:b", "number": None, "round": 2, "before": "REFUTES", "answer": "SUPPORTS",
        "after": ["a"], "evidence_ids": ["ev-1"], "towards_verdict": True,
    }  # fmt: skip
    assert found["asked_again"] == 3


def test_a_change_is_towards_the_verdict_or_not_and_a_first_usable_answer_is_none() -> None:
    turns = [answer_turn("a", 1, "SUPPORTS"), answer_turn("b", 1, None), answer_turn("a", 2, "REFUTES")]
    turns += [answer_turn("b", 2, "REFUTES"), answer_turn("a", 3, "NOT ENOUGH INFO"), answer_turn("b", 3, "REFUTES")]
    found = dissent_of(document(*turns, answer="REFUTES"))
    assert [(one["agent"], one["round"], one["towards_verdict"]) for one in found["changes"]] == [
        ("a", 2, True),
        ("a", 3, False),
    ]
    assert found["asked_again"] == 3
    undecided = dissent_of(document(*turns, answer=None))
    assert [one["towards_verdict"] for one in undecided["changes"]] == [None, None]


def test_votes_that_do_not_count_are_no_minority() -> None:
    """A reader of one text whose text leaves the claim open contradicts nobody; an unusable reply is still listed."""
    given = [("a", "SUPPORTS", 0), ("b", "NOT ENOUGH INFO", None), ("c", "REFUTES", 1), ("d", None, None)]
    votes = [{"agent": agent, "answer": answer, "group": group} for agent, answer, group in given]
    found = dissent_of(document(*(answer_turn(agent, 1, answer) for agent, answer, _ in given), votes=votes))
    assert [(one["answer"], one["by"][0]["agent"]) for one in found["minority"]] == [("REFUTES", "c"), (None, "d")]
    assert {"answer": "NOT ENOUGH INFO", "votes": 1} in found["votes"]


def test_of_readers_who_hear_only_an_aggregator_a_change_is_after_its_answer() -> None:
    turns = [answer_turn(agent, 1, answer) for agent, answer in (("a", "REFUTES"), ("b", "SUPPORTS"))]
    turns += [answer_turn("aggregator", 1, "SUPPORTS", step="aggregate"), answer_turn("a", 2, "SUPPORTS", "ev-1")]
    [change] = dissent_of(document(*turns))["changes"]
    assert (change["agent"], change["after"], change["evidence_ids"]) == ("a", ["aggregator"], ["ev-1"])


def test_of_two_fixed_sides_the_moderators_leaning_may_change() -> None:
    sides = (("affirmative", "SUPPORTS"), ("neither", None), ("negative", "REFUTES"))
    turns: list[dict[str, Any]] = []
    for round, (ahead, label) in enumerate(sides, 1):
        turns += [
            answer_turn(side, round, None, "ev-1", step="argue", side=side) for side in ("affirmative", "negative")
        ]
        turns[-1]["citations"] += answer_turn("", 0, None, f"ev-{round + 1}")["citations"]
        turns.append({**answer_turn("moderator", round, None, step="moderate"), "ahead": ahead, "leans": label})
    found = dissent_of(document(*turns, answer="REFUTES"))
    [change] = found["changes"]
    assert (change["agent"], change["round"], change["before"], change["answer"]) == (
        "moderator",
        3,
        "SUPPORTS",
        "REFUTES",
    )
    assert (change["after"], change["towards_verdict"], found["asked_again"]) == (["negative"], True, 1)
    assert change["evidence_ids"] == ["ev-4"]  # it had quoted ev-1 in earlier rounds


def side_turn(side: str, round: int, *cited: str, phase: str = "primary", **more: Any) -> dict[str, Any]:
    """A counsel's argument in a trial."""
    turn = answer_turn(side, round, None, *cited, step="argue", side=side, argument="So it is.", phase=phase, **more)
    del turn["answer"]
    return turn


def critique(round: int, phase: str = "primary", **more: Any) -> dict[str, Any]:
    """A critic's turn; without ``weaker``, the scores of the sides differ by ``ahead``."""
    ahead = more.pop("ahead", 0.0)
    scores = {
        side: {"logic": 0.5 + share, "evidence": 0.5, "rebuttal": 0.5}
        for side, share in (("plaintiff", ahead), ("defense", 0.0))
    }
    turn = {"step": "critique", "phase": phase, "agent": "critic", "round": round, "debate_resolved": False}
    return {**turn, **scores, **more}


JUDGED = {"step": "judge", "phase": "panel", "agent": "a", "round": 1, "verdict": "NOT SUPPORTED", "reason": "So."}


def test_in_a_trial_the_critic_may_change_its_mind_and_a_counsel_concede() -> None:
    turns = [side_turn("plaintiff", 1, "ev-1", concedes=False), side_turn("defense", 1, concedes=False)]
    turns += [critique(1, weaker="defense"), side_turn("plaintiff", 2, "ev-1", "ev-2", concedes=True)]
    turns += [side_turn("defense", 2, "ev-3", concedes=False), critique(2, weaker="plaintiff")]
    turns += [critique(1, "switched", weaker="defense"), JUDGED]
    found = dissent_of(document(*turns, answer="REFUTES", raw_verdict="NOT SUPPORTED"))
    told = [(one["agent"], one["round"], one["before"], one["answer"], one["after"]) for one in found["changes"]]
    assert told == [
        ("plaintiff", 2, "SUPPORTED", "NOT SUPPORTED", ["defense"]),
        ("critic", 2, "SUPPORTED", "NOT SUPPORTED", ["defense"]),
    ]
    assert [one["evidence_ids"] for one in found["changes"]] == [["ev-2"], ["ev-3"]]
    assert [one["towards_verdict"] for one in found["changes"]] == [True, True]
    assert found["asked_again"] == 5  # each of four arguments, and the critic's second finding


def test_in_the_full_procedure_the_critics_scores_say_who_is_ahead() -> None:
    turns = [side_turn("plaintiff", 1), side_turn("defense", 1), critique(1, ahead=0.25), critique(2, ahead=0.0)]
    turns += [critique(3, ahead=-0.25), critique(4, debate_resolved=None, plaintiff=None, defense=None), JUDGED]
    found = dissent_of(document(*turns, raw_verdict="SUPPORTED"))
    [change] = found["changes"]
    assert (change["round"], change["answer"], change["after"]) == (3, "NOT SUPPORTED", ["defense"])
    assert (change["towards_verdict"], found["asked_again"]) == (False, 1)


def test_an_agent_of_a_gate_may_give_its_answer_up() -> None:
    gate = [answer_turn(agent, round, "SUPPORTS", phase="gate") for round in (0, 1) for agent in ("a", "b")]
    gate[-1]["answer"] = "REFUTES"
    debate = [answer_turn("c", round, answer) for round, answer in ((1, "SUPPORTS"), (2, "REFUTES"))]
    found = dissent_of(document(*gate, *debate, answer="REFUTES"))
    # The debater has not heard the agents.
    assert [(one["agent"], one["after"]) for one in found["changes"]] == [("b", []), ("c", [])]
    assert found["asked_again"] == 3


def test_free_answers_are_the_same_as_far_as_the_debate_found_it() -> None:
    """Round 1: Paris, Lyon; round 2: the French capital, Paris; round 3: PARIS!, Lutetia."""
    task = make_task("short_answer", None, None, "Which city?")
    said = (("Paris", "Lyon"), ("the French capital", "Paris"), ("PARIS!", "Lutetia"))
    turns = [
        answer_turn(agent, r, one) for r, both in enumerate(said, 1) for agent, one in zip("ab", both, strict=True)
    ]
    checks = {1: ("Paris", False), 2: ("the French capital", True), 3: ("PARIS!", None)}
    turns += [
        {"step": "compare", "phase": "primary", "agent": "b", "round": round, "role": "equivalence",
         "comparisons": [{"with": first, "same": same, "reason": "."}]}
        for round, (first, same) in checks.items()
    ]  # fmt: skip
    found = dissent_of(document(*turns, answer="PARIS!", task=task))
    told = [
        (one["agent"], one["round"], one["answer"], one["after"], one["towards_verdict"]) for one in found["changes"]
    ]
    assert told == [("b", 2, "Paris", ["a"], True), ("b", 3, "Lutetia", [], False)]
    assert found["asked_again"] == 4
    # Votes with the same group are the same answer, too.
    votes = [{"agent": "a", "answer": "PARIS!", "group": 0}, {"agent": "b", "answer": "Lutetia", "group": 0}]
    assert len(dissent_of(document(*turns, answer="PARIS!", task=task, votes=votes))["changes"]) == 1


def test_the_minoritys_argument_is_the_one_with_the_most_verified_quotes() -> None:
    turns = [answer_turn(a, 1, "REFUTES", *ids) for a, ids in (("a", ("ev-1!", "ev-2!")), ("b", ("ev-1",)), ("c", ()))]
    [other] = dissent_of(document(*turns, answer_turn("d", 1, "SUPPORTS")))["minority"]
    assert ([one["agent"] for one in other["by"]], other["argument"]) == (["a", "b", "c"], "b 1")


def test_some_samples_of_an_agent_may_be_the_minority() -> None:
    """Different answers in samples are not changes of the agent's answer."""
    turns = [answer_turn("a", 1, answer, number=n) for n, answer in enumerate(("SUPPORTS", "REFUTES", None), 1)]
    found = dissent_of(document(*turns))
    assert [(one["answer"], one["by"][0]["number"]) for one in found["minority"]] == [("REFUTES", 2), (None, 3)]
    assert found["changes"] == []


def test_votes_decide_which_short_answers_count_as_equal() -> None:
    task = make_task("short_answer", None, None, "Which bird?")
    turns = [
        answer_turn(agent, 1, answer) for agent, answer in (("a", "an emu"), ("b", "the emu bird"), ("c", "a kiwi"))
    ]
    votes = [{"agent": agent, "answer": "", "group": group} for agent, group in (("a", 0), ("b", 0), ("c", 1))]
    found = dissent_of(document(*turns, answer="an emu", task=task, votes=votes))
    assert [one["answer"] for one in found["minority"]] == ["a kiwi"]
    assert [one["votes"] for one in found["votes"]] == [2, 1]


def test_a_judge_of_a_panel_may_be_the_minority() -> None:
    judged = [
        {"step": "judge", "phase": "panel", "agent": agent, "round": 1, "verdict": verdict, "reason": f"By {agent}."}
        for agent, verdict in (("a", "SUPPORTED"), ("b", "INCONCLUSIVE"), ("c", "SUPPORTED"))
    ]
    found = dissent_of(document(*judged, raw_verdict="SUPPORTED"))
    assert [(one["answer"], one["argument"]) for one in found["minority"]] == [("INCONCLUSIVE", "By b.")]
