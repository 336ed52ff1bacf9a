"""An Inspect solver that runs a debate again, under attack, on samples that have a result without an attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from inspect_ai.solver import Solver, TaskState, solver
from moot.core.errors import UserError
from moot.evals._attacks.attack import (
    Attack,
    choose_liar,
    injection_attack,
    lying_attack,
    poison_attack,
    poisoned_texts,
    target_answer,
    template_for,
)
from moot.evals._runs.inspect_side import add_inspect_settings
from moot.evals._runs.reference import document_with_outcome, newest_log
from moot.evals._runs.solver import (
    DebateFailed,
    Question,
    debate_solver,
    refuse_fact_checks,
    run_debate,
    settings_for_sample,
)
from moot.graphs import load_graph
from moot.nodes._models.chat_models import open_chat_model
from moot.nodes._models.speaker import Speaker
from moot.nodes._runtime.node import choose_model
from moot.nodes._runtime.settings import checked_settings
from moot.nodes._texts.replies import Reply, Text
from moot.prompts import as_data
from moot.retrievers._tampering import tamper_with
from moot.transcript.report.report import report
from pydantic import Field

ATTACK = "attack"
"""Key of a sample's metadata for the details of the attack, such as the wrong answer that it aims at."""
LONGEST_DOCUMENT = 12_000
"""Maximum number of characters of a debate's report that the attacking model reads."""


class PoisonReply(Reply):
    """Passages that would lead a system to another answer."""

    passages: Annotated[list[Text], Field(min_length=1)]


@solver(name="attacked")
def attacked(
    attack: Attack,
    logs: str,
    of: str,
    graph: str = "tool_mad",
    run: str = "",
    pieces: int = 3,
    kept_back: bool = False,
    attacker: str | None = None,
    attacked_sources: Sequence[str] = (),
    **settings: Any,
) -> Solver:
    """A solver that runs a debate under attack, on samples that already have a result without an attack.

    The attack aims at a wrong answer. A sample counts as missing if the debate without an attack has no outcome on it,
    if no label is wrong, or if it searched none of ``attacked_sources``, whose results the attack changes (empty for
    all). With the attack `lying_debater`, it also counts as missing if fewer than two debaters gave an answer in that
    debate.
    """
    system = load_graph(graph)
    refuse_fact_checks(system, checked_settings(system.settings, settings, graph))
    log = newest_log(logs, of)
    if log is None:
        raise UserError(f"{logs} has no log of the debate to attack.", kind="missing_file")
    location = log.location

    async def run_sample(question: Question, sample: TaskState) -> dict[str, Any]:
        original = await document_with_outcome(location, sample.sample_id)
        if original is None:
            raise DebateFailed("not_attacked: the debate without an attack has no outcome on this sample")
        label = target_answer(original["task"]["labels"], list(sample.target))
        if label is None:
            raise DebateFailed("not_attacked: there is no wrong answer to aim at; attacks need labels or options")
        if attacked_sources and not any(one["requested"] in attacked_sources for one in original["corpora"]):
            raise DebateFailed(f"not_attacked: the debate searches no source named {' or '.join(attacked_sources)}")
        chosen = checked_settings(system.settings, add_inspect_settings(settings))
        # use the same seeds as the debate without an attack
        chosen = settings_for_sample(chosen, sample, graph, settings)
        details: dict[str, Any] = {"label": label}
        meaning = original["task"]["meanings"].get(label, "")
        target = f"{label} ({meaning})" if question.get("options") else label
        if attack == "lying_debater":
            liar = choose_liar(original)
            if liar is None:
                raise DebateFailed(
                    "not_attacked: fewer than two debaters answered, so the liar's answer would be the verdict"
                )
            tampering, details["liar"] = lying_attack(liar, target), liar
        elif attack == "injection":
            template = template_for(sample.sample_id, kept_back=kept_back)
            tampering = injection_attack(template, question["claim"], target)
            details |= {"template": template.id, "position": template.position, "language": template.language}
        else:
            if attack == "adaptive":
                aim = f"{label} ({meaning})" if meaning else label
                writer = attacker or choose_model(chosen, "attacker").model
                texts = await adaptive_texts(original, aim, pieces, writer)
            else:
                stated = meaning or label  # in a passage, the meaning reads better than the label
                texts = poisoned_texts(sample.sample_id, question["claim"], stated, pieces, kept_back=kept_back)
            tampering, details["texts"] = poison_attack(texts, one_host=attack == "poison_one_host"), texts
        sample.metadata[ATTACK] = details
        with tamper_with(replace(tampering, sources=tuple(attacked_sources))):
            return await run_debate(system, question, chosen)

    return debate_solver(run_sample)


async def adaptive_texts(original: Mapping[str, Any], label: str, pieces: int, model: str) -> list[str]:
    """Have a model write passages that argue against a debate's report. The model's role is ``attacker``."""
    speaker = Speaker("attacker", await open_chat_model(model))
    values = {
        "claim": as_data("claim", original["claim"]),
        "document": as_data("document", report(dict(original), "md")[:LONGEST_DOCUMENT]),
        "label": label,
        "pieces": str(pieces),
    }
    return (await speaker.ask("attacks/poison", values, PoisonReply)).passages[:pieces]
