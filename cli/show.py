"""A debate on the screen, line by line as it happens. Everything from models and evidence is printed as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moot.nodes.agree import METRICS, agreed_answer, answers_of
from moot.nodes.debate import verdict_citations, verdict_turns
from moot.nodes.settings import Settings
from moot.nodes.state import merge_turns
from moot.nodes.task import full_answer
from moot.retrievers.evidence import clean
from rich.console import Console
from rich.table import Table
from rich.text import Text


class Transcript:
    """Prints what nodes write. Nodes that it does not know print nothing."""

    def __init__(self, console: Console, settings: Settings) -> None:
        self.console = console
        self.settings: Any = settings
        self.turns: list[Any] = []
        self.round = 0
        self.agreed = False

    def update(self, node: str, written: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """What a node wrote, and the state before it."""
        self.turns = merge_turns(self.turns, written.get("turns"))
        say = getattr(self, f"_{node}", None)
        if say is not None and written and not written.get("error"):
            say(written)

    def line(self, agent: str, what: str, text: str, style: str = "") -> None:
        """One line: who, what, and a text that wraps under itself."""
        head, body = f"  {agent:<10} {what:<10} ", Text(clean(str(text)), style=style)
        if not self.console.is_terminal:
            self.console.print(Text(head) + body)
            return
        row = Table.grid()
        row.add_column(width=len(head), style="dim")
        row.add_column()
        row.add_row(Text(head), body)
        self.console.print(row)

    def say(self, text: str, style: str = "") -> None:
        """A line of our own."""
        self.console.print(Text(text, style=style))

    # --- what nodes write -------------------------------------------------------------------------------------------

    def _open(self, written: Mapping[str, Any]) -> None:
        task = written["task"]
        self.say(f"{task['subject'].capitalize()}: {clean(written['claim'])}", "bold")
        answers = ", ".join(full_answer(task, label) for label in task["labels"]) or task["kind"].replace("_", " ")
        self.say(f"Graph {written['graph']}; answers: {clean(answers)}", "dim")

    def _formulate_query(self, written: Mapping[str, Any]) -> None:
        turn = written["turns"][0]
        self._round(turn["round"])
        self.line(turn["agent"], "asks", turn["query"])

    def _retrieve(self, written: Mapping[str, Any]) -> None:
        turn = written["turns"][0]
        self._round(turn["round"])
        for piece in written["evidence"]:
            self.line(turn["agent"], "finds", f"{piece['title']} ({piece['source']}) [{piece['id']}]")
        if not written["evidence"]:
            asked = " and ".join(reading["retriever"] for reading in written["corpora"])
            self.line(turn["agent"], "finds", f"nothing in {asked}")

    def _respond(self, written: Mapping[str, Any]) -> None:
        turn = written["turns"][0]
        self._round(turn["round"])
        if turn["answer"] is None:
            self.line(turn["agent"], "answers", f"nothing that can be used ({turn['outcome']})", "yellow")
        else:
            self.line(turn["agent"], "answers", f"{turn['answer']} - {turn['rationale']}", "cyan")

    def _faithfulness(self, written: Mapping[str, Any]) -> None:
        self._scores(written["turns"][0])

    _answer_relevance = _faithfulness
    _consistency = _faithfulness

    def _scores(self, key: Mapping[str, Any]) -> None:
        turn = next(t for t in answers_of(self.turns, key["round"]) if t["agent"] == key["agent"])
        given = [metric for metric in METRICS if metric in turn["scores"]]
        if len(given) == len(self._gates()) or "consistency" in given:
            marks = "; ".join(
                self._mark(metric, turn["scores"][metric], self._searches(turn["agent"])) for metric in given
            )
            self.line(turn["agent"], f"scores r{turn['round']}", marks)

    def _gates(self) -> list[str]:
        """The scores that have thresholds, and so decide whether a consensus is stable."""
        return [metric for metric in METRICS if hasattr(self.settings, f"{metric}_threshold")]

    def _searches(self, agent: str) -> bool:
        return any(d.name == agent and d.retriever for d in self.settings.debaters)

    def _mark(self, metric: str, value: float | None, searches: bool) -> str:
        name = metric.replace("_", " ")
        threshold = getattr(self.settings, f"{metric}_threshold", None)
        if threshold is None:
            return f"{name} {'unknown' if value is None else f'{value:.2f}'}"
        if value is None and metric == "faithfulness" and not searches:
            return f"{name} not applicable"
        if value is None:
            return f"{name} unknown (needs {threshold:.2f})"
        return f"{name} {value:.2f} {'>=' if value >= threshold else '<'} {threshold:.2f}"

    def _compare_answers(self, written: Mapping[str, Any]) -> None:
        if not written.get("votes"):
            return
        given = ", ".join(f"{v['agent']} {v['answer'] or 'no answer'}" for v in written["votes"])
        agreed = self.agreed = agreed_answer(written["votes"]) is not None
        left = written["rounds"] < self.settings.max_rounds
        if agreed:
            why = "they agree" + ("; the scores decide whether that is stable" if self._scored() else self._then(left))
        else:
            why = "they differ, so the debate goes on" if left else "they differ, and the rounds are used up"
        self.say(f"  Round {written['rounds']}: {given}: {why}.", "magenta")

    def _then(self, left: bool) -> str:
        """What an agreement leads to where no scores gate it."""
        if getattr(self.settings, "scoring", "on") != "all_rounds":
            return ""
        return ", but every round is run" if left else "; the rounds are used up, so the judge decides"

    def _scored(self) -> bool:
        return bool(self._gates()) and self.settings.scoring == "on"

    def _average_scores(self, written: Mapping[str, Any]) -> None:
        last = answers_of(self.turns)
        agreed = self.agreed
        low = [
            f"{t['agent']}'s {metric.replace('_', ' ')}"
            for t in last
            for metric in self._gates()
            if not self._reached(metric, t["scores"]) and (metric != "faithfulness" or self._searches(t["agent"]))
        ]
        if agreed and low:
            left = last[0]["round"] < self.settings.max_rounds
            then = "another round" if left else "the judge decides"
            self.say(f"  The consensus is not stable ({', '.join(low)} below the threshold): {then}.", "magenta")

    def _reached(self, metric: str, scores: Mapping[str, float | None]) -> bool:
        value = scores.get(metric)
        return value is not None and value >= getattr(self.settings, f"{metric}_threshold")

    def _agree(self, written: Mapping[str, Any]) -> None:
        self.say(f"  The debate stops: {written['stop_reason']}.", "magenta")

    def _judge(self, written: Mapping[str, Any]) -> None:
        self.line("judge", "decides", f"{written['answer']} - {written['turns'][0]['rationale']}", "cyan")

    def _round(self, number: int) -> None:
        if number > self.round:
            self.round = number
            self.say(f"Round {number}", "bold")

    # --- the end ----------------------------------------------------------------------------------------------------

    def close(self, document: Mapping[str, Any]) -> None:
        """The verdict with its citations, what it cost, and what went wrong."""
        if document["status"] == "done":
            self._verdict(document)
        elif document["status"] == "interrupted":
            self.say("Interrupted: no verdict.", "bold red")
        else:
            error = document["error"]
            self.say(f"No verdict ({error['kind']} at {error['where']}): {clean(error['detail'])}", "bold red")
        self._costs(document)
        demo = [w for w in document["warnings"] if w["kind"] == "demo_model"]
        others = [w for w in document["warnings"] if w["kind"] != "demo_model"]
        if others:
            self.say("Warnings:", "yellow")
        for warned in others:
            self.say(f"  {warned['kind']} ({warned['where']}): {clean(warned['detail'])}", "yellow")
        for warned in demo:
            self.say(warned["detail"], "yellow")

    def _verdict(self, document: Mapping[str, Any]) -> None:
        answer = clean(full_answer(document["task"], document["answer"]))
        self.say(f"Verdict: {answer} ({document['stop_reason']})", "bold green")
        for turn in verdict_turns(dict(document)):
            self.line(turn["agent"], "because", turn.get("rationale") or "")
        known = {piece["id"]: piece for piece in document["evidence"]}
        for citation in verdict_citations(dict(document)):
            piece = known[citation["evidence_id"]]
            at = piece.get("url") or piece["source"]
            summary = "summary_of" in piece
            found = "found word for word" + " in a summary" * summary
            found = found if citation["verified"] else f"not found in the {'summary' if summary else 'text'}"
            self.line("", "cites", f'[{piece["id"]}] {piece["title"]} ({at}): "{citation["quote"]}" ({found})')
        if not verdict_citations(dict(document)):
            self.line("", "cites", "nothing")

    def _costs(self, document: Mapping[str, Any]) -> None:
        usage = document["usage"]
        read = "; ".join(f"{c['agent']} read {c['retriever']}{_instead(c)}" for c in document["corpora"])
        models = ", ".join(sorted({m["model"] for m in document["models"].values()}))
        uncounted = f" ({usage['uncounted']} calls uncounted)" if usage["uncounted"] else ""
        self.say(
            f"{usage['prompt_tokens']:,} + {usage['completion_tokens']:,} tokens{uncounted} in {usage['calls']} calls, "
            f"{document['rounds']} rounds, {document['seconds']:.1f} s; {models or 'no model'}; {read or 'no source'}.",
            "dim",
        )


def _instead(reading: Mapping[str, Any]) -> str:
    """Why a debater did not read the web, where that is what it asked for."""
    fell_back = reading["requested"] == "web" and reading["retriever"].startswith("bm25:")
    return " (in place of the web: neither TAVILY_API_KEY nor SERPER_API_KEY is set)" if fell_back else ""
