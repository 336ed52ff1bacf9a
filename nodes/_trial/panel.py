"""The end of a trial: analysis of consistency, the record, the judges, and the verdict (PROClaim, 2.7 and 2.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal

from langchain_core.language_models import BaseChatModel
from langgraph.types import Send
from moot.core.errors import BUDGET_EXHAUSTED, ReplyError, UserError, WorldError
from moot.nodes._models.speaker import Speaker, as_speaker
from moot.nodes._records.entries import CourtDebate, Task, Turn, Vote
from moot.nodes._runtime.ceilings import Decision, stopped_by_ceiling
from moot.nodes._runtime.node import Node, NodeContext, choose_model
from moot.nodes._runtime.state import DebateState, TrialState
from moot.nodes._runtime.turns import Known, Said, Started, new_turn, outcome_of, tells
from moot.nodes._speakers.turns import speaker_declaration
from moot.nodes._steps.compare import common_outcome
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.labels import COMPROMISED, FALSE, OPEN, REFUTED, SUPPORTED, TRUE, UNSETTLED, fold_label
from moot.nodes._texts.replies import Reply, Text
from moot.nodes._texts.show import cited_ids, show_evidence, show_persona
from moot.nodes._texts.task import TASKS, make_task, unsettled_label
from moot.nodes._trial.confidence import (
    CONSENSUS_WEIGHT,
    QUALITIES,
    QUALITY_WEIGHT,
    VERDICTS,
    PanelVerdict,
    Verdict,
    base_confidence,
    consensus_strength,
    final_confidence,
    judge_quality,
    mean_scores,
    panel_verdict,
    reflection_adjustment,
    role_switch_adjustment,
)
from moot.nodes._trial.courtroom import (
    SIDES,
    Texts,
    case_values,
    on_record,
    premises_of,
    show_statements,
    speaker_node,
    statements,
    to_speaker,
    turn_starter,
)
from moot.nodes._trial.discovery import lacks_nothing
from moot.nodes._trial.trial_settings import TrialSettings
from moot.prompts import as_data
from moot.retrievers import Evidence
from moot.retrievers._evidence import active_evidence
from moot.retrievers._excerpts import count_tokens
from pydantic import BeforeValidator, Field

Ten = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
"""A number from 0 to 10, in a reply."""

# --- labels -----------------------------------------------------------------------------------------------------------

_YES, _NO, _MAYBE = ((meaning, (label,)) for label, meaning, _ in TASKS["pubmedqa"].labels)
_NOT_SUPPORTED = TASKS["hover"].labels[1][1]
LABELS_OF_VERDICTS: dict[Verdict, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "SUPPORTED": ((TRUE, _YES[0]), (*SUPPORTED, "true", *_YES[1])),
    "NOT SUPPORTED": ((FALSE, COMPROMISED, _NOT_SUPPORTED, _NO[0]), (*REFUTED, "not supported", "false", *_NO[1])),
    "INCONCLUSIVE": (
        (OPEN, _NOT_SUPPORTED, _MAYBE[0]),
        (*UNSETTLED, "inconclusive", "unproven", "unverified", "unknown", *_MAYBE[1]),
    ),
}
"""For each verdict: the meanings and the spellings of the labels that stand for it."""


def verdict_labels(task: Task, given: Mapping[Verdict, str] | None = None) -> dict[Verdict, str]:
    """The task's label for each verdict, ``given`` or by meaning; UserError if any but INCONCLUSIVE has none."""
    given = given or {}
    known = set(map(fold_label, task["labels"]))
    if strange := [label for label in given.values() if fold_label(label) not in known]:
        raise UserError(
            f"verdict_labels: the task {task['name']!r} has no label {strange[0]!r}"
            + (f"; it has {', '.join(task['labels'])}." if task["labels"] else ", nor any other."),
            kind="unfit_task",
        )
    # In HoVer, the label NOT_SUPPORTED stands for both NOT SUPPORTED and INCONCLUSIVE.
    fitting = {verdict: _fitting_labels(task, verdict, given) for verdict in VERDICTS}
    found = {verdict: labels[0] for verdict, labels in fitting.items() if len(labels) == 1}
    missing = set(VERDICTS[:2]) - set(found)
    unclear = any(len(labels) > 1 for labels in fitting.values())
    if missing or unclear or found["SUPPORTED"] == found["NOT SUPPORTED"]:
        what = f"labels: {', '.join(task['labels'])}" if task["labels"] else f"a {task['kind'].replace('_', ' ')}"
        raise UserError(
            f"A trial ends with SUPPORTED, NOT SUPPORTED or INCONCLUSIVE, and the task {task['name']!r} asks for "
            f"{what}. Choose a task that checks claims, or set the label for each verdict: "
            'verdict_labels={"SUPPORTED": ..., "NOT SUPPORTED": ...}.',
            kind="unfit_task",
        )
    return found


def _fitting_labels(task: Task, verdict: Verdict, given: Mapping[Verdict, str]) -> list[str]:
    if verdict in given:
        return [label for label in task["labels"] if fold_label(label) == fold_label(given[verdict])]
    meanings, spellings = LABELS_OF_VERDICTS[verdict]
    known = set(map(fold_label, spellings))
    found = [label for label in task["labels"] if task["meanings"].get(label) in meanings or fold_label(label) in known]
    unsettled = unsettled_label(task) if verdict == "INCONCLUSIVE" else None
    return found or ([unsettled] if unsettled else [])


def answer_for(verdict: Verdict, labels: Mapping[Verdict, str], policy: str | None) -> str | None:
    """The answer for a verdict; None if the trial abstains and the task has no label for INCONCLUSIVE."""
    if verdict != "INCONCLUSIVE":
        return labels[verdict]
    policy = policy or ("abstain" if verdict in labels else "burden_of_refutation")
    # Else a claim that was not refuted counts as true (PROClaim, appendix C).
    return labels.get(verdict) if policy == "abstain" else labels["SUPPORTED"]


def check_trial_task(settings: Any, task: Task) -> None:
    """Refuses a task that a trial cannot decide.

    Args:
        settings: settings with ``verdict_labels``.
        task: the form of an answer.

    Raises:
        UserError: as for `verdict_labels`.
    """
    verdict_labels(task, settings.verdict_labels)


# --- the analysis of consistency --------------------------------------------------------------------------------------


class ConsistencyReply(Reply):
    """How consistently each counsel argued when the sides were switched, from 0 to 10."""

    contradictions: Texts
    plaintiff_counsel: Ten
    defense_counsel: Ten
    overall: Ten


class Consistency(Started):
    """How consistently the counsel argued."""

    step: Literal["analyse"]
    contradictions: list[str] | None
    plaintiff_counsel: float | None
    defense_counsel: float | None
    overall: float | None
    outcome: str


@tells(Consistency)
def tell_consistency(turn: Turn, known: Known) -> Iterator[Said]:
    """How consistently each counsel argued, and their contradictions."""
    if turn["overall"] is None:
        yield Said("overall", "finds", outcome=outcome_of(turn))
        return
    counsel = ", ".join(f"the {side}'s counsel {turn[f'{side}_counsel']:.1f}" for side in SIDES)
    yield Said("overall", "finds", f"consistency {turn['overall']:.1f} of 10 ({counsel})", kind="finding")
    for one in turn["contradictions"] or []:
        yield Said("overall", "finds", f"a contradiction: {one}")


def analyse_node() -> Node:
    """Adds the analyser's turn with its scores of how consistently each counsel argued, for opposite sides (2.7).

    Reads: claim, task, turns and, if present, debater, rounds.
    """
    return speaker_node(
        "proclaim/analyse",
        ConsistencyReply,
        lambda state, settings: {
            **case_values(state["claim"], state["task"], premises_of(state["turns"])),
            "first_debate": show_debate(state["turns"], "primary"),
            "second_debate": show_debate(state["turns"], "switched"),
        },
        turn_starter("analyser", "analyse", "panel"),
    )


# --- the record -------------------------------------------------------------------------------------------------------

DEBATE_NAMES = {"primary": "first", "switched": "second"}
"""The names of the debates in the store, by their phase."""

ALWAYS_WHOLE = ("first_debate", "second_debate", "retrieval", "critic", "reflections", "consistency")
"""The parts of a record that are never shortened."""


def panel_exhibits(evidence: Iterable[Evidence]) -> list[Evidence]:
    """The panel's evidence: admitted pieces by weight, discoveries of the debates, then disputed pieces by weight."""
    pieces = active_evidence(evidence)
    # Pieces without a ruling count as disputed pieces with the weight 0.
    disputed = [piece for piece in pieces if piece.get("status", "seed") in ("disputed", "seed")]
    return on_record(pieces) + sorted(disputed, key=lambda piece: -piece.get("weight", 0.0))


def fitting_exhibits(
    pieces: Sequence[Evidence], cost: Callable[[Evidence], int], room: int, cited: Collection[str] = ()
) -> tuple[list[Evidence], list[Evidence]]:
    """The exhibits that fit into ``room`` tokens, and those left out: uncited ones first, each time the last one."""
    total = sum(cost(piece) for piece in pieces)
    left_out: set[str] = set()
    from_the_end = list(reversed(pieces))
    for piece in sorted(from_the_end, key=lambda piece: piece["id"] in cited):
        if total <= room:
            break
        total -= cost(piece)
        left_out.add(piece["id"])
    return [p for p in pieces if p["id"] not in left_out], [p for p in pieces if p["id"] in left_out]


ABOUT_EXHIBITS = (
    "The exhibits, with the weight from 0 to 1 that they were given before the debates. Discovered ones were found "
    "during a debate, and not weighed; disputed ones were not before the counsel:"
)
ABOUT_WEIGHED = (
    "The exhibits, each with the weight from 0 to 1 that it was given. Discovered ones were found during a debate; "
    "disputed ones were not shown to the counsel:"
)
"""What judges are told of the exhibits, in the full and in the lean procedure."""


def fit_record(
    claim: str, task: Task, turns: Sequence[Turn], evidence: Sequence[Evidence], most_tokens: int
) -> tuple[dict[str, str], list[Evidence]]:
    """The values for a judge's prompt, and the exhibits left out to keep it below ``most_tokens`` (estimated)."""
    values = case_values(claim, task, premises_of(turns))
    parts = {
        "first_debate": show_debate(turns, "primary"),
        "second_debate": show_debate(turns, "switched"),
        "retrieval": show_retrieval(turns),
        "critic": show_critic(turns),
        "reflections": show_reflections(turns),
        "consistency": show_consistency(turns),
    }
    # Only exhibits are left out, so the record is longer if the other parts are.
    room, cited = most_tokens - tokens_without_exhibits(parts), cited_ids(turns)
    kept, left_out = fitting_exhibits(
        panel_exhibits(evidence), lambda piece: count_tokens(show_exhibits([piece])), room, cited
    )
    cited_ones = ", ".join(piece["id"] for piece in left_out if piece["id"] in cited)
    note = f"({len(left_out)} more are left out for the record's length; cited of these: {cited_ones or 'none'}.)"
    exhibits = [show_exhibits(kept), *([note] if left_out else [])]
    weighed = any("weight" in piece for piece in evidence if piece.get("status") == "discovered")
    about = ABOUT_WEIGHED if weighed else ABOUT_EXHIBITS
    return values | parts | {"about_exhibits": about, "exhibits": "\n".join(exhibits)}, left_out


def tokens_without_exhibits(values: Mapping[str, str]) -> int:
    """The number of tokens (estimated) of the parts in `ALWAYS_WHOLE`."""
    return sum(count_tokens(values[name]) for name in ALWAYS_WHOLE)


def show_exhibits(pieces: Sequence[Evidence]) -> str:
    """The text of exhibits, each with its status and, if it is known, its weight."""
    return show_evidence(pieces, "(no exhibit is shown)", _status_attributes)


def _status_attributes(piece: Evidence) -> dict[str, str]:
    """The attributes of an exhibit's tag; without a ruling, the status is ``disputed``."""
    status = piece.get("status", "seed")
    weight = {"weight": f"{piece['weight']:.2f}"} if "weight" in piece else {}
    return {"status": "disputed" if status == "seed" else status} | weight


def show_debate(turns: Iterable[Turn], phase: str) -> str:
    """The transcript of the debate in a phase, under a heading; empty if no such debate took place."""
    debate = [turn for turn in turns if turn["phase"] == phase]
    heading = f"The {DEBATE_NAMES[phase]} debate:"
    return show_statements(statements(debate), heading, f"{heading}\n(nothing was said)" if debate else "")


def show_retrieval(turns: Iterable[Turn]) -> str:
    """The sides' searches during the debates, with one line for each search; empty if there were none."""
    lines = [_search_line(turn) for turn in turns if turn["step"] == "discover"]
    return _block("How the two sides looked for more evidence:", "retrieval", lines)


def _search_line(turn: Turn) -> str:
    if lacks_nothing(turn):
        return f"{_round_text(turn)}, {turn['side']}: looked for nothing more"
    scores = turn.get("scores", {})
    novelty = "" if scores.get("novelty") is None else f", mean novelty {scores['novelty']:.2f}"
    formulated = turn.get("formulated")
    refined = "" if formulated in (None, turn.get("query")) else f" (asked for as: {formulated})"
    if turn.get("retrieval") == "failed":
        return f"{_round_text(turn)}, {turn['side']}: {turn.get('query')}{refined}: the sources could not be searched"
    found = f"{len(turn.get('evidence_ids', []))} found, {len(turn.get('joined', []))} joined the record{novelty}"
    end = f"; the side's search ended there ({turn['ended']})" if turn.get("ended") else ""
    return f"{_round_text(turn)}, {turn['side']}: {turn.get('query')}{refined}: {found}{end}"


def show_critic(turns: Iterable[Turn]) -> str:
    """The critic's scores of both sides in each round, and the premises it finds unresolved; empty without turns."""
    lines = []
    for turn in turns:
        if turn["step"] == "critique":
            lines += [f"{_round_text(turn)}, {side}: {_scores_text(turn.get(side))}" for side in SIDES]
            unresolved = "; ".join(turn.get("unresolved_premises") or [])
            lines += [f"{_round_text(turn)}, open: {unresolved}"] if unresolved else []
    return _block("The critic's scores, from 0 to 1:", "critic", lines)


def _scores_text(scores: Mapping[str, Any] | None) -> str:
    if scores is None:
        return "not scored"
    numbers = ", ".join(f"{name} {scores[name]:.2f}" for name in ("logic", "evidence", "rebuttal"))
    return f"{numbers}. {scores['reason']}"


def show_reflections(turns: Iterable[Turn]) -> str:
    """The reflection score of each side in each round; empty if no side reflected."""
    lines = []
    for turn in turns:
        if turn["step"] == "reflect":
            score = turn.get("scores", {}).get("reflection")
            shown = "not scored" if score is None else f"{score:.2f}"
            lines.append(f"{_round_text(turn)}, {turn['side']}: {shown}")
    return _block("How each side rates its own case, from 0 to 1:", "reflections", lines)


def show_consistency(turns: Iterable[Turn]) -> str:
    """The analyser's findings on consistency; empty if the analyser had no turn."""
    found = next((turn for turn in turns if turn["step"] == "analyse"), None)
    if found is None:
        return ""
    if found.get("overall") is None:
        return "How consistently the counsel argued when they changed sides is not known."
    lines = [
        f"{found['plaintiff_counsel']:g} for the counsel who spoke for the plaintiff first, "
        f"{found['defense_counsel']:g} for the other counsel, {found['overall']:g} overall",
        *(f"Contradiction: {text}" for text in found["contradictions"] or []),
    ]
    return _block("How consistently the counsel argued when they changed sides, from 0 to 10:", "consistency", lines)


def _round_text(turn: Turn) -> str:
    return f"{DEBATE_NAMES[turn['phase']]} debate, round {turn['round']}"


def _block(heading: str, tag: str, lines: Sequence[str]) -> str:
    """Lines in a tag, under a heading; empty if there are no lines."""
    single = (" ".join(line.splitlines()) for line in lines)  # so that a model's text cannot add a line
    return f"{heading}\n{as_data(tag, chr(10).join(single))}" if lines else ""


def compile_record_node() -> Node:
    """Warns of a record that is too long, and of speakers without their own model (`speakers_sharing_a_model`).

    Reads: claim, task, turns, evidence.
    """

    async def step(state: TrialState, run: NodeContext) -> dict[str, Any]:
        most = run.settings.panel_tokens
        values, left = fit_record(state["claim"], state["task"], state["turns"], state["evidence"], most)
        if left:
            ids = ", ".join(piece["id"] for piece in left)
            run.record.warn(
                "exhibits_left_out", f"The record is longer than {most} tokens, so the judges do not read {ids}."
            )
        if (tokens := tokens_without_exhibits(values)) > most:
            run.record.warn(
                "record_too_long",
                f"The record without exhibits has {tokens} tokens, more than `panel_tokens` ({most}). "
                "These parts of the record are not shortened.",
            )
        if same := speakers_sharing_a_model(run.settings):
            run.record.warn(
                "shared_model",
                f"{', '.join(same)}: each has the model of a counsel or of another judge, and should have its own.",
            )
        return {}

    return Node(step)


def speakers_sharing_a_model(settings: Any) -> list[str]:
    """The critic, if its model is a counsel's, and the judges whose model is a counsel's or another judge's."""
    argued = {choose_model(settings, side).model for side in SIDES}
    judges = {judge.name: choose_model(settings, judge.name, judge.model).model for judge in settings.judges}
    times = Counter(judges.values())
    same = [name for name, model in judges.items() if model in argued or times[model] > 1]
    return [*(["critic"] if choose_model(settings, "critic").model in argued else []), *same]


# --- judges -----------------------------------------------------------------------------------------------------------

_VERDICT_TASK = make_task(labels=VERDICTS)


def _normalise_verdict(value: Any) -> Any:
    """A verdict in the spelling of `VERDICTS`; other values are returned unchanged."""
    return (isinstance(value, str) and read_answer(_VERDICT_TASK, value)) or value


class JudgementReply(Reply):
    """One judge's findings, scores from 0 to 10, and verdict."""

    reason: Text
    evidence_strength: Ten
    argument_validity: Ten
    scientific_reliability: Ten
    verdict: Annotated[Verdict, BeforeValidator(_normalise_verdict)]


class PanelVote(Started):
    """A panel judge's scores and verdict."""

    step: Literal["judge"]
    evidence_strength: float | None
    argument_validity: float | None
    scientific_reliability: float | None
    verdict: str | None
    reason: str | None
    outcome: str


@tells(PanelVote, late=True)
def tell_panel_vote(turn: Turn, known: Known) -> Iterator[Said]:
    """The judge's verdict and scores."""
    if turn["verdict"] is None:
        yield Said("verdict", "decides", kind="verdict", outcome=outcome_of(turn))
        return
    evidence, arguments, reliability = (round(turn[quality] or 0, 1) for quality in QUALITIES)
    scores = f"evidence {evidence:g}, arguments {arguments:g}, reliability {reliability:g}"
    text = f"{turn['verdict']} ({scores} of 10)"
    yield Said("verdict", "decides", text, turn["reason"], "verdict", answer=turn["verdict"])


JUDGE = "proclaim/judge"
"""The prompt of the judges."""
PANEL = Decision(
    JUDGE,
    lambda task: JudgementReply,
    lambda state, settings: fit_record(state["claim"], state["task"], (), (), settings.panel_tokens)[0],
    around=1200,
)
"""The smallest call of a judge: the claim with an empty record. Ceilings reserve the budget for this call."""


def to_judges(to: str, state: TrialState, settings: Any) -> list[Send]:
    """Builds the `Send`s of all judges, each with all evidence and all turns of the trial.

    Args:
        to: the node.
        state: the trial's state.
        settings: settings with ``judges``.
    """
    return [
        to_speaker(
            to,
            state,
            speaker_declaration(judge),
            new_turn(0, judge.name, "judge", phase="panel"),
            evidence=state["evidence"],
            heard=state["turns"],
        )
        for judge in settings.judges
    ]


def judge_record_node() -> Node:
    """Writes a judge's reason, scores and verdict into the judge's turn.

    Reads: claim, task, evidence, heard, debater, turns.
    """

    def values(state: TrialState, settings: TrialSettings) -> dict[str, str]:
        most = settings.panel_tokens
        record, _ = fit_record(state["claim"], state["task"], state["heard"], state["evidence"], most)
        return record | {"persona": show_persona(state["debater"].get("persona"))}

    return speaker_node(JUDGE, JudgementReply, values, shown=exhibits_within_limit)


async def judge_record(
    claim: str,
    task: Task,
    turns: Sequence[Turn],
    evidence: Sequence[Evidence],
    model: Speaker | BaseChatModel,
    *,
    most_tokens: int = 48_000,
    persona: str | None = None,
    prompt: str = JUDGE,
) -> JudgementReply:
    """One judge's ``reason``, scores and ``verdict`` from the record of a trial (PROClaim, section 2.8).

    Args:
        claim: the claim of the trial.
        task: the form of an answer.
        turns: the turns of the whole trial.
        evidence: all evidence, with its rulings.
        model: the model that is called.
        most_tokens: the limit of the record in tokens (estimated); uncited exhibits are left out first.
        persona: the judge's persona.
        prompt: the prompt's name.

    Raises:
        UserError, WorldError, ReplyError: the call failed, or no reply could be used.
    """
    values, _ = fit_record(claim, task, turns, evidence, most_tokens)
    return await as_speaker(model, "judge").ask(prompt, values | {"persona": show_persona(persona)}, JudgementReply)


def exhibits_within_limit(state: TrialState, settings: Any) -> list[Evidence]:
    """The exhibits that judges read: those that fit into a record of `panel_tokens`."""
    _, left = fit_record(state["claim"], state["task"], state["heard"], state["evidence"], settings.panel_tokens)
    unread = {piece["id"] for piece in left}
    return [piece for piece in panel_exhibits(state["evidence"]) if piece["id"] not in unread]


# --- the decision -----------------------------------------------------------------------------------------------------


def decide_node() -> Node:
    """Ends the trial with the panel's verdict, the answer for this verdict, and the confidence in it.

    Reads: task, turns and, if present, debates and metrics. Without a primary debate, the stop reason is
    ``single_pass``, and the confidence is computed without a reflection score. If no judge gave a verdict, the trial
    fails.
    """

    async def step(state: DebateState, run: NodeContext) -> dict[str, Any]:
        judged = [turn for turn in state["turns"] if turn["step"] == "judge"]
        decided = panel_verdict([turn.get("verdict") for turn in judged])
        if decided is None:
            raise no_verdict_error(judged)
        labels = verdict_labels(state["task"], run.settings.verdict_labels)
        answers = {v: answer_for(v, labels, run.settings.inconclusive) for v in VERDICTS}
        answer = answers[decided.verdict]
        if decided.verdict == "INCONCLUSIVE" and answer == labels["SUPPORTED"]:
            run.record.warn(
                "burden_of_refutation",
                f"The panel found the claim INCONCLUSIVE; because it was not refuted, the answer is {answer}.",
            )
        first = primary_debate(state.get("debates") or [])
        if run.settings.role_switch and not run.settings.switches_sides:
            run.record.warn(
                "no_role_switch",
                f"Both counsel have the model {run.settings.counsel_models()['defense']}, so there was no debate with "
                "switched sides, and nothing is added for consistency. Name another model in `models.defense`.",
            )
        return {
            "answer": answer,
            "raw_verdict": decided.verdict,
            "stop_reason": first["stop_reason"] if first else "single_pass",
            "rounds": first["rounds"] if first else 0,
            "votes": [_vote(turn, answers) for turn in judged],
            "metrics": {**state.get("metrics", {}), "panel": panel_report(judged, decided)},
            **confidence_of(decided, judged, state, run.settings.consensus_weight, run.settings.quality_weight),
        }

    return Node(step, decides=lambda settings: {judge.name: PANEL for judge in settings.judges})


def no_verdict_error(judged: Sequence[Turn]) -> WorldError:
    """The error that ends a trial if no judge gave a verdict."""
    if all(turn.get("outcome") == "failed" for turn in judged):
        detail = "No judge could be reached. See the warnings for the reasons, or name other models in `judges`."
        return WorldError(detail, kind="no_judge", retryable=True)
    if any(stopped_by_ceiling(turn) for turn in judged):
        return WorldError("A ceiling was reached before any judge gave a verdict. Raise it.", kind=BUDGET_EXHAUSTED)
    detail = "No judge gave a usable verdict. Try other models for the judges, or another `structured_output`."
    return ReplyError(detail, common_outcome(judged))


def _vote(turn: Turn, answers: Mapping[Verdict, str | None]) -> Vote:
    """A judge's verdict, or None, as a vote; without a label for the verdict, the verdict itself is the answer."""
    verdict: Any = turn.get("verdict")
    group = None if verdict is None else VERDICTS.index(verdict)
    answer = None if verdict is None else answers[verdict] or verdict
    return {"agent": turn["agent"], "answer": answer, "group": group}


def confidence_of(
    decided: PanelVerdict,
    judged: Sequence[Turn],
    state: DebateState,
    consensus_weight: float = CONSENSUS_WEIGHT,
    quality_weight: float = QUALITY_WEIGHT,
) -> dict[str, Any]:
    """The entries ``confidence``, ``confidence_from`` and ``confidence_parts`` of the result document."""
    scores: Any = [turn for turn in judged if turn.get("verdict") is not None]
    sigma, quality = consensus_strength(decided.winning, decided.votes), judge_quality(scores)
    analysis = next((turn for turn in state["turns"] if turn["step"] == "analyse"), None)
    consistency = analysis.get("overall") if analysis else None
    reflected = winners_reflection(decided.verdict, primary_debate(state.get("debates") or []))
    base = base_confidence(sigma, quality, consensus_weight, quality_weight)
    switch, reflection = role_switch_adjustment(consistency), reflection_adjustment(reflected)
    parts = {
        "consensus_strength": sigma,
        "quality": quality,
        "base": base,
        "consistency": consistency,
        "role_switch": switch,
        "winning_reflection": reflected,
        "reflection": reflection,
    }
    final = final_confidence(base, switch, reflection, decided.winning, decided.votes)
    basis = [f"{decided.winning} of {decided.votes} judges' votes", "their scores"]
    basis += ["the counsel's consistency"] if consistency is not None else []
    basis += ["the winner's last reflection"] if reflected is not None else []
    return {
        "confidence": round(final, 6),
        "confidence_from": ", ".join(basis),
        "confidence_parts": {name: None if part is None else round(part, 6) + 0.0 for name, part in parts.items()},
    }


def primary_debate(debates: Sequence[CourtDebate]) -> CourtDebate | None:
    """The entry of the primary debate; None if there was none."""
    return next((debate for debate in debates if debate["phase"] == "primary"), None)


def winners_reflection(verdict: Verdict, debate: CourtDebate | None) -> float | None:
    """The winning side's last known reflection score in the primary debate; None without a winner or a score."""
    side = {"SUPPORTED": "plaintiff", "NOT SUPPORTED": "defense"}.get(verdict)
    scores = [score for score in (debate["reflection"][side] if debate and side else []) if score is not None]
    return scores[-1] if scores else None


def panel_report(judged: Sequence[Turn], decided: PanelVerdict) -> dict[str, Any]:
    """The entry ``panel`` of ``metrics``; ``agreement`` is the share of pairs of judges with the same verdict."""
    given = [turn for turn in judged if turn.get("verdict") is not None]
    pairs = [one["verdict"] == other["verdict"] for one, other in combinations(given, 2)]
    return {
        "verdicts": {verdict: sum(turn["verdict"] == verdict for turn in given) for verdict in VERDICTS},
        "judges": len(judged),
        "without_verdict": [turn["agent"] for turn in judged if turn.get("verdict") is None],
        "unanimous": len({turn["verdict"] for turn in given}) == 1,
        "tied": decided.tied,
        "agreement": sum(pairs) / len(pairs) if pairs else None,
        "means": mean_scores(given),
        "spread": {name: _spread([turn[name] for turn in given]) for name in QUALITIES},
        "dissent": [
            {"agent": turn["agent"], "verdict": turn["verdict"], "reason": turn["reason"]}
            for turn in given
            if turn["verdict"] != decided.verdict
        ],
    }


def _spread(values: Sequence[float]) -> float:
    return round(max(values) - min(values), 6)
