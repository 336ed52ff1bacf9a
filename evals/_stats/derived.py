"""Controls that need no model call: the majority answer of the first round, and constant labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from moot.evals._stats.observations import Observation
from moot.nodes._texts.task import TASKS, make_task
from moot.nodes._trial.panel import verdict_labels


def first_round_majority(observation: Observation) -> str | None:
    """The majority answer in the first round of a debate. Returns the answer; `ABSTAINED` if no speaker answered or the
    majority answer is an abstention; None if the item is missing, or the debate has no answer turns.
    """
    if observation.outcome is None or not observation.answers:
        return None
    return observation.answers[0].answer


def first_round_majority_is_useful(observations: Sequence[Observation]) -> bool:
    """Whether the majority answer of the first round is a useful control: it can differ from the final answer.

    It is useful if at least one debate had several speakers in its first round, and more than one round.
    """
    return any(len(observation.answers) > 1 and observation.answers[0].speakers > 1 for observation in observations)


def label_prior(gold: Sequence[str]) -> str:
    """The label that is right most often; in a tie, the alphabetically first.

    On the same items, no other constant answer is right more often.
    """
    if not gold:
        raise ValueError("there must be at least one label")
    counts = Counter(gold)
    return min(counts, key=lambda label: (-counts[label], label))


def policy_labels(task: str) -> tuple[str | None, str | None]:
    """A task's label for claims without enough evidence, and its label for true claims.

    None stands for a label that the task does not have.
    """
    if TASKS[task].kind != "labels" or not TASKS[task].labels:
        return None, None
    labels = verdict_labels(make_task(task))
    return labels.get("INCONCLUSIVE"), labels["SUPPORTED"]
