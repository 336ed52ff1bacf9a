"""Tables of analyses from the papers, in three groups: scores of answers; agents and rounds; the weight of votes.

A function returns None if its table would have no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from moot.evals._analyses.debate_figures import AgentAnswer, DebateFigures, consensus_by_round
from moot.evals._analyses.weights import FOLDS, Panel, read_panel, search_weight
from moot.evals._report.comparison import Study, System
from moot.evals._report.scores import SYSTEM, TITLES, is_right
from moot.evals._report.tables import Cell, Column, Table, columns, make_table
from moot.evals._stats.significance import wilson
from moot.nodes._steps.score import METRICS, average
from moot.nodes._trial.confidence import QUALITY_WEIGHT

POOLED = "All runs are pooled."


def debate_figures(system: System) -> list[DebateFigures]:
    """The figures of each debate that has an outcome and a result document."""
    return [observation.debate_figures for observation in system.answered if observation.debate_figures is not None]


# --- scores -----------------------------------------------------------------------------------------------------------


def score_gaps_table(study: Study) -> Table | None:
    """Mean scores of right and of wrong answers, in each debate's last round and in all rounds.

    Source: Tool-MAD, second version, figures 3, 10 and 11.
    """
    heads = [SYSTEM, *columns("text", score="", rounds="answers of"), *columns("count", right="right answers")]
    heads += [*columns("share", right_mean="their mean score"), *columns("count", wrong="wrong answers")]
    heads += columns("share", wrong_mean="their mean score")
    heads += columns("share", lower="lower quartile of all", median="median of all", upper="upper quartile of all")
    rows: list[list[Cell]] = []
    for system in study.measured:
        ends = [(debate, max((a.round for a in debate.answers), default=0)) for debate in debate_figures(system)]
        last = [answer for debate, end in ends for answer in debate.answers if answer.round == end]
        all_answers = [answer for debate, _ in ends for answer in debate.answers]
        for name in METRICS:
            for rounds, answers in (("the last round", last), ("all rounds", all_answers)):
                if cells := _score_gap_cells(name, answers):
                    rows.append([system.label, name.replace("_", " "), rounds, *cells])
    return make_table(
        "score_gaps",
        "Scores of right and wrong answers",
        "All debaters' answers that could be read and whose score is known. "
        f"{TITLES[study.first_measure].capitalize()} decides which answers are right. The quartiles help to choose "
        f"thresholds. Answers of one debate are not independent. {POOLED}",
        heads,
        rows,
    )


def _score_gap_cells(name: str, answers: Sequence[AgentAnswer]) -> list[Cell]:
    """The counts, means and quartiles of a score; [] if no readable answer has this score."""
    scored = [(value, a.right) for a in answers if a.right is not None and (value := a.scores.get(name)) is not None]
    if not scored:
        return []
    right_scores, wrong_scores = ([value for value, right in scored if right is wanted] for wanted in (True, False))
    quartiles = np.quantile([value for value, _ in scored], [0.25, 0.5, 0.75]).tolist()
    return [len(right_scores), average(right_scores), len(wrong_scores), average(wrong_scores), *quartiles]


def judge_choices_table(study: Study) -> Table | None:
    """How often the judge takes the answer with the higher score, and how often each of the two answers is right.

    Source: Tool-MAD, first version, figure 4.
    """
    heads = [SYSTEM, Column("score", "score"), *columns("count", judged="debates counted")]
    heads += columns(
        "share",
        follows="judge takes the answer with the higher score",
        higher_right="answer with the higher score is right",
        lower_right="answer with the lower score is right",
    )
    rows: list[list[Cell]] = []
    for system in study.measured:
        for name in METRICS:
            choices = [debate.judge_choices[name] for debate in debate_figures(system) if name in debate.judge_choices]
            if choices:
                follows, higher_right, lower_right = (wilson([choice[i] for choice in choices]) for i in range(3))
                rows.append([system.label, name.replace("_", " "), len(choices), follows, higher_right, lower_right])
    return make_table(
        "judge_follows",
        "Does the judge follow the higher score?",
        "Debates count if a judge, who sees the debaters' average scores, decided between two debaters with different "
        "scores and different last answers. The 95% intervals are Wilson's. If the judge takes the answer with the "
        f"higher score, the score need not be the reason. {POOLED}",
        heads,
        rows,
    )


# --- agents and rounds ------------------------------------------------------------------------------------------------


def consensus_rounds_table(study: Study) -> Table | None:
    """The share of debates that are in consensus after each round (CortexDebate, table 8)."""
    heads = [SYSTEM, Column("round", "after round"), *columns("count", held="debates in the round")]
    heads += columns("share", consensus="in consensus, of all", consensus_held="in consensus, of those in the round")
    rows: list[list[Cell]] = []
    for system in study.measured:
        agreements = [debate.agreed for debate in debate_figures(system) if debate.agreed]
        for number, share in consensus_by_round(debate_figures(system)).items():
            reached = [agreed[number] for agreed in agreements if number in agreed]
            rows.append(
                [system.label, str(number), len(reached), share, average([float(agreement) for agreement in reached])]
            )
    return make_table(
        "consensus_rounds",
        "Consensus by round",
        "Rounds are numbered as in the result documents. If round 0 has the first answers, the paper's first round is "
        "round 1. Only debates in which several agents voted count. In the share of all debates, a debate that has "
        f"ended keeps its last state. The score by round is in the table “By round”. {POOLED}",
        heads,
        rows,
    )


def agents_table(study: Study) -> Table | None:
    """Each agent's score in its first and last answers, Avg-DN, and prompt length (CortexDebate, tables 3, 4, 7)."""
    title = TITLES[study.first_measure]
    heads = [SYSTEM, Column("agent", "agent"), *columns("count", items="")]
    heads += columns("share", first=f"{title}, first answer", last=f"{title}, last answer")
    heads += columns("number", debates="Avg-DN", context="context tokens per round")
    rows: list[list[Cell]] = []
    for system in study.measured:
        figures = debate_figures(system)
        agents = list(dict.fromkeys(answer.agent for debate in figures for answer in debate.answers))
        for agent in agents if len(agents) > 1 else ():
            by_debate = [[a.right is True for a in debate.answers if a.agent == agent] for debate in figures]
            known = [answers for answers in by_debate if answers]
            shares = [wilson([answers[place] for answers in known]) for place in (0, -1)]
            counts = (
                [float(debate.debates.get(agent, 0)) for debate in figures]
                if any(debate.debates for debate in figures)
                else []
            )
            context = average([debate.context.get(agent) for debate in figures])
            rows.append([system.label, agent, len(known), *shares, average(counts), context])
    return make_table(
        "agents",
        "Agents",
        "An answer that could not be read counts as wrong. Avg-DN is how often an agent was kept as another agent's "
        "opponent, per item. Context is the mean length of an agent's prompts for an answer, in tokens. The 95% "
        f"intervals are Wilson's. {POOLED}",
        heads,
        rows,
    )


def viewpoints_table(study: Study) -> Table | None:
    """The colliding viewpoints, correct revisions and prompt lengths per item (CortexDebate, tables 3, 6, 7)."""
    heads = [SYSTEM, *columns("count", items="", debates="sparse debates"), *columns("number", dvc="DVC", cvr="CVR")]
    heads += [*columns("share", ratio="CVR / DVC"), *columns("number", context="context tokens")]
    rows: list[list[Cell]] = []
    for system in study.measured:
        figures = debate_figures(system)
        sparse = [debate for debate in figures if debate.collisions is not None]
        dvc, cvr = (sum(counts) for counts in ([i.collisions or 0 for i in sparse], [i.revisions or 0 for i in sparse]))
        context = average([average(list(debate.context.values())) for debate in figures])
        means: list[Cell] = (
            [dvc / len(figures), cvr / len(figures), cvr / dvc if dvc else None] if sparse else [None] * 3
        )
        if sparse or context is not None:
            rows.append([system.label, len(figures), len(sparse) if sparse else "", *means, context])
    return make_table(
        "viewpoints",
        "Different views and context",
        "On a kept edge, one agent reads the other's answer. DVC counts the kept edges whose two agents gave different "
        "answers in the round before. CVR counts the edges of DVC on which the reader was wrong in the round before, "
        "and now gives the answer that it read, which is right. Both are means per item. Items that ended without a "
        "round of debate count as 0. Context is the mean length of the prompts for answers, in tokens. "
        f"{POOLED}",
        heads,
        rows,
    )


# --- weights ----------------------------------------------------------------------------------------------------------


def weights_table(study: Study) -> Table | None:
    """The calibration error of trials by the weight of votes, and with the cross-validated one (PROClaim, table 11)."""
    heads = [SYSTEM, Column("weight", "weight of votes"), *columns("count", items=""), *columns("share", ece="ECE")]
    heads += columns("text", folds="weight chosen for each fold")
    rows: list[list[Cell]] = []
    for system in study.measured:
        panels = read_panels(system, study)
        weight = system.runs[0].settings.get("quality_weight")
        found = search_weight(panels, quality_weight=QUALITY_WEIGHT if weight is None else float(weight))
        if found is None:
            continue
        rows += [[system.label, f"{w:g}", len(panels), error, ""] for w, error in found.errors.items()]
        chosen = ", ".join(f"{w:g}" for w in found.chosen)
        rows.append([system.label, "chosen on the other folds", len(panels), found.held_out, chosen])
    return make_table(
        "weights",
        "Weight of votes in the confidence of trials",
        "ECE is the expected calibration error of the confidence with each weight. In the last row of a system, the "
        f"items are in {FOLDS} random folds, and the weight for each fold is chosen on the other folds. The smallest "
        f"error in the rows above is too optimistic. The setting for the weight is `consensus_weight`. {POOLED}",
        heads,
        rows,
    )


def read_panels(system: System, study: Study) -> list[Panel]:
    """The parts of the confidence of each trial with a verdict, and whether the verdict was right."""
    observations = [
        observation for observation in system.answered if observation.outcome and observation.document is not None
    ]
    judged = [
        (observation.document, correct)
        for observation in observations
        if (correct := is_right(observation, study)) is not None
    ]
    return [panel for document, correct in judged if document and (panel := read_panel(document, correct))]


TABLES: Sequence[Callable[[Study], Any]] = (
    score_gaps_table,
    judge_choices_table,
    consensus_rounds_table,
    agents_table,
    viewpoints_table,
    weights_table,
)
"""The functions that make these tables, in the order of a report."""
