"""A report's files for a paper: they compile, and fit a column of a paper with two columns."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from moot.evals._report.sections import Report
from moot.evals._report.write import compare, write_report
from moot.evals._runs.stated import StatedTest
from pypdfium2 import PdfDocument  # type: ignore[import-untyped]

from tests.evals.made_comparison import write_study

STATED = [
    {"first": "debate", "second": "debate alone"},
    {"first": "debate", "second": "single", "benchmark": "pooled"},
    {"first": "debate", "second": "single", "claim": "not_worse", "margin": 0.05, "benchmark": "pooled"},
    {"first": "label prior", "second": "label prior", "claim": "equivalent", "margin": 0.05},  # has no spread
]
PAPER = r"""\documentclass[twocolumn]{article}\usepackage{booktabs,graphicx}\begin{document}
\input{methods}\input{systems}\input{findings}\clearpage
%s\end{document}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on the made-up study, with stated tests."""
    folder = write_study(tmp_path_factory.mktemp("logs"))
    return compare([folder], tests=[StatedTest.model_validate(test) for test in STATED])


def text(report: Report, name: str) -> str:
    found = report.paper()[f"paper/{name}"]
    assert isinstance(found, str)
    return found


def test_the_table_marks_the_best_the_second_and_what_is_significant(report: Report) -> None:
    rows = [line for line in text(report, "systems.tex").splitlines() if line.endswith(r"\\")]
    assert rows == [
        r" & FEVER & FEVEROUS & average \\",
        r"$n$ & 60 & 40 &  \\",
        r"\textit{openai:small} &  &  &  \\",
        r"debate & \textbf{82.8}$^{a}$ & \textbf{80.0}$^{a}$ & \textbf{81.4} \\",
        r"\quad debate alone$^{a}$ & 53.3 & \underline{48.3} & 50.8 \\",
        r"single & 50.0 & 47.5 & 48.8 \\",
        r"\textit{openai:large} &  &  &  \\",
        r"large & \underline{71.7} & \textbf{80.0} & \underline{75.8} \\",
    ]
    [caption] = re.findall(r"\\caption\{(.*)\}", text(report, "systems.tex"))
    assert len(caption) < 2 * 55  # two lines of a column


def test_the_methods_paragraph_states_models_seeds_prompts_tests_and_failures(report: Report) -> None:
    methods = report.methods
    for part in (
        "We compared debate, single, large and their controls (answers_alone) on FEVER (60 items",
        "Models were openai:large, openai:small.",
        "with the sampling seeds 1, 2, 3",
        "agents/answer 0a1b2c3d",
        "4 tests were made on paired items",
        "2 could not be computed.",
        "1 of the claim not worse with the margin 0.05",
        "Of 800 answers, 0 are missing",
    ):
        assert part in methods
    assert text(report, "methods.tex").startswith("We compared debate")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="needs pdflatex")
def test_latex_compiles_and_nothing_is_wider_than_its_column(report: Report, tmp_path: Path) -> None:
    write_report(report, tmp_path)
    figures = sorted((tmp_path / "paper").glob("*.pdf"))
    assert [file.stem for file in figures] == ["finding-1", "finding-2", "finding-3", "finding-4"]
    assert all(PdfDocument(file)[0].get_width() <= 3.4 * 72 for file in figures)
    tables = "".join(rf"\input{{{file}}}\clearpage" for file in sorted((tmp_path / "tables").glob("*.tex")))
    (tmp_path / "paper" / "main.tex").write_text(PAPER % tables, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main.tex"]
    done = subprocess.run(command, cwd=tmp_path / "paper", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
