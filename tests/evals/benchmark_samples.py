"""The folders of benchmark samples, and the benchmarks that have samples."""

from __future__ import annotations

from pathlib import Path

from moot.evals._benchmarks.catalogue import BENCHMARKS, Item
from moot.nodes._texts.answers import read_answer
from moot.nodes._texts.task import make_task

from tests.conftest import SHARED

VISIBLE = SHARED / "data" / "visible"
"""The folder with samples of published records, which are not part of the repository."""
SAMPLES = Path(__file__).parent / "samples"
"""The folder with handwritten samples."""

QUESTION_FIELDS = {
    **dict.fromkeys(("fever", "fever_symmetric", "feverous", "averitec", "hover", "scifact"), "claim"),
    **dict.fromkeys(("check_covid", "check_covid_binary"), "claim"),
    "pubmedqa": "QUESTION",
    **dict.fromkeys(
        ("medqa_4opt", "medqa_5opt", "medmcqa", "mmlu", "mmlu_med", "mmlu_pro", "arc_challenge"), "question"
    ),
    **dict.fromkeys(("triviaqa", "nq_open", "hotpotqa", "hotpotqa_distractor", "2wikimultihopqa"), "question"),
    **dict.fromkeys(("squad", "gsm8k"), "question"),
}
"""Benchmarks with records in `VISIBLE`, and the field of a record that becomes the claim."""
HANDWRITTEN = [
    *("faviq", "healthver", "healthver_binary", "gpqa", "gsm_ic", "math", "longbench", "llm_aggrefact", "quantemp"),
    *("claimreview2024plus", "veritas", "faitheval_counterfactual", "faitheval_unanswerable", "ramdocs"),
]
"""Benchmarks without records in `VISIBLE`; their samples are handwritten."""


def parser_keeps_gold_answers(name: str, item: Item) -> bool:
    """Whether an item has gold answers, and the parser of answers returns each of them unchanged."""
    task = make_task(BENCHMARKS[name].task, options=item.options or None, claim=item.claim)
    return bool(item.gold) and all(read_answer(task, gold) == gold for gold in item.gold)
