"""``moot eval experiment``: sends the log of an evaluation to LangSmith."""

from __future__ import annotations

from pathlib import Path

from moot.cli.output import write_document
from moot.core.words import count_with_noun
from moot.evals._runs.experiment import experiment_of, send_experiment
from rich.console import Console


def send_log(path: Path, *, as_json: bool) -> None:
    """Sends a log to LangSmith, and prints a sentence about the experiment or, if ``as_json``, LangSmith's reply.

    Raises:
        UserError, WorldError: as `experiment_of` and `send_experiment`.
    """
    experiment = experiment_of(path)
    answer = send_experiment(experiment)
    write_document(answer, as_json=as_json, out=None)
    if not as_json:
        sent = f"Sent {count_with_noun(len(experiment['results']), 'sample')} of {experiment['dataset_name']!r}"
        Console().print(f"{sent} as the experiment {experiment['experiment_name']!r}.", highlight=False, markup=False)
