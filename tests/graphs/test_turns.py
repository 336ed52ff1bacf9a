"""The fields of turns that the JSON schema of documents allows, and that Pydantic accepts when it reads documents."""

from __future__ import annotations

import random
from typing import Any

import pytest
from moot.graphs import load_graph
from moot.nodes._models.fake import draw
from moot.nodes._runtime.state import VerdictOutput
from moot.nodes._runtime.turns import all_kinds, step_of
from pydantic import TypeAdapter, ValidationError
from typing_extensions import get_type_hints

from tests.schemas import Validator

ALL_KINDS = [kind.fields for kinds in all_kinds().values() for kind in kinds]
OUTPUT = load_graph("tool_mad").graph.get_output_jsonschema()
SCHEMA = Validator({"$defs": OUTPUT["$defs"], **OUTPUT["properties"]["turns"]})
TURNS_READER: TypeAdapter[list[Any]] = TypeAdapter(get_type_hints(VerdictOutput, include_extras=True)["turns"])
KEY = {"round": 1, "phase": "primary", "agent": "somebody"}
"""The key of a turn, without its step."""
KEY_FIELDS = {"round", "phase", "agent", "step"}


def is_valid(turn: Any) -> bool:
    """Whether a turn is valid in a document. Pydantic must agree with the JSON schema, and must not change the turn."""
    try:
        assert TURNS_READER.validate_python([turn], strict=True) == [turn]
        read = True
    except ValidationError:
        read = False
    assert SCHEMA.is_valid([turn]) == read, turn
    return read


def examples(kind: type) -> list[dict[str, Any]]:
    """Two turns of a kind: one with all fields, and one with only the required fields."""
    schema = {**OUTPUT["$defs"][kind.__name__]}
    step = {"step": {"enum": [schema["properties"]["step"]["const"]]}}
    full = draw({**schema, "properties": schema["properties"] | step}, random.Random(kind.__name__), OUTPUT["$defs"])
    return [full, {name: full[name] for name in schema["required"]}]


@pytest.mark.parametrize("kind", ALL_KINDS, ids=lambda kind: kind.__name__)
def test_a_turn_needs_the_fields_of_its_step_and_allows_no_others(kind: type) -> None:
    """A turn without a required field is valid only if it has all required fields of another kind with this step."""
    for turn in examples(kind):
        assert turn["step"] == step_of(kind)
        assert is_valid(turn)
        assert not is_valid({**turn, "mood": "good"})
        same = [other for other in ALL_KINDS if step_of(other) == step_of(kind)]
        allowed = {name for other in same for name in OUTPUT["$defs"][other.__name__]["properties"]}
        for name in random.Random(kind.__name__).sample(
            sorted({*OUTPUT["$defs"]["OtherTurn"]["properties"]} - allowed), 4
        ):
            assert not is_valid({**turn, name: None}), name
    required = set(turn) - KEY_FIELDS
    of_other_kinds = [set(examples(other)[1]) for other in same if other is not kind]
    for name in sorted(required):
        rest = {key: value for key, value in turn.items() if key != name}
        assert not is_valid(rest) or any(set(rest) >= fields for fields in of_other_kinds), name


def test_a_turn_has_either_all_or_none_of_the_fields_of_an_answer() -> None:
    complete = examples(next(kind for kind in ALL_KINDS if kind.__name__ == "Answer"))[1]
    fields = ("answer", "rationale", "citations", "outcome")
    assert is_valid({key: value for key, value in complete.items() if key not in fields})
    for name in fields:
        assert not is_valid({key: value for key, value in complete.items() if key != name})


OUTCOMES = {
    "Answer": "answer", "SharedRetrieval": "retrieval", "ToolCall": "tool", "Comparison": "comparisons",
    "Agreement": "agree", "Moderation": "preferred", "Summary": "summary", "FinalAnswer": "answer",
    "Judgement": "answer", "SecondOpinion": "probabilities", "Review": "comment", "PeerScore": "score",
    "QueriesReview": "queries",
    "PremisesReview": "proposed", "EvidenceReview": "struck", "Remark": "remark", "VerdictReview": "question",
    "Premises": "premises", "StanceQueries": "challenging_query", "SeedRetrieval": "retrieval",
    "PremiseRetrieval": "retrieval", "SideRetrieval": "retrieval", "Challenges": "challenges",
    "Weighing": "credibility", "Discovery": "ended", "Argument": "argument", "ExpertRequest": "needed",
    "ExpertRuling": "granted", "Testimony": "testimony", "Reflection": "rebuttal", "Critique": "debate_resolved",
    "Closing": "close", "Consistency": "overall", "PanelVote": "verdict", "Plan": "queries", "Aggregate": "answers",
    "SidesWeighed": "ahead", "Tally": "answer_scores",
}  # fmt: skip
"""For each kind of finished turn, the field with its outcome. Turns in progress lack this field."""


def test_every_finished_turn_needs_its_outcome() -> None:
    kinds = {kind.__name__: examples(kind)[1] for kind in ALL_KINDS if not kind.__name__.endswith("Begun")}
    assert set(kinds) == set(OUTCOMES)
    for kind, name in OUTCOMES.items():
        assert not is_valid({key: value for key, value in kinds[kind].items() if key != name}), kind


@pytest.mark.parametrize("step", ["vote", "Respond", "respond ", ""])
def test_a_turn_of_an_unknown_step_may_have_unknown_fields(step: str) -> None:
    """Its known fields keep their types, and the fields of its key are required."""
    assert is_valid(KEY | {"step": step})
    assert is_valid(KEY | {"step": step, "answer": None, "premises": ["One."]})
    turn = KEY | {"step": step, "mood": ["any"]}
    assert SCHEMA.is_valid([turn])
    assert TURNS_READER.validate_python([turn]) == [KEY | {"step": step}]  # Pydantic drops unknown fields
    assert not is_valid(KEY | {"step": step, "citations": "none"})
    assert not is_valid({"round": 1, "agent": "somebody", "step": step})


@pytest.mark.parametrize("turn", [KEY, KEY | {"step": None}, KEY | {"step": ["respond"]}, "respond", None])
def test_turns_without_the_name_of_a_step_are_refused(turn: Any) -> None:
    assert not is_valid(turn)
