"""A report's files for a paper: a table of systems and benchmarks, a methods paragraph, a figure for each finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from moot.evals._report.comparison import Study, System, common_items
from moot.evals._report.drawing import INK, draw_dots, line_style, open_figure, shorten, write_row_names
from moot.evals._report.findings import MOST_FINDINGS, finding_sentence
from moot.evals._report.overview import Line, overview_lines
from moot.evals._report.pairs import Pair
from moot.evals._report.scores import INTERVALS, TITLES
from moot.evals._report.tables import FITTING_TABULAR, escape_latex, tabular
from moot.evals._report.tests import Comparison
from moot.evals._stats.clusters import mean_of_intervals
from moot.evals._stats.estimates import difference, estimate
from moot.evals._stats.sample_size import ALPHA
from moot.evals._stats.significance import Family, Interval

COLUMN = 3.3
"""Width of a figure in inches: that of a column of a paper with two columns."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"


# --- the table --------------------------------------------------------------------------------------------------------


def paper_table(studies: Sequence[Study], compared: Sequence[Comparison]) -> str:
    """The table of systems and benchmarks in LaTeX: scores in per cent, the best and the second, and significance."""
    benchmarks, lines = overview_lines(studies)
    lines = [line for line in lines if any(system.runs for system in line.systems_by_place.values())]
    marks = better_than(compared)
    baselines = [key for key in ((line.name, line.model) for line in lines) if any(key in of for of in marks.values())]
    letters = dict(zip(baselines, LETTERS, strict=False))
    scores = [[_score(line, place) for place in range(len(benchmarks))] for line in lines]
    if len(benchmarks) > 1:
        known = [[line.scores_by_place.get(place) for place in range(len(benchmarks))] for line in lines]
        means = [mean_of_intervals([one for one in row if one]).value if all(row) else None for row in known]
        scores = [[*row, mean] for row, mean in zip(scores, means, strict=True)]
    best = [_two_best([row[place] for row in scores]) for place in range(len(scores[0]))] if scores else []
    names = [name for name, _ in benchmarks]
    heads = ["", *map(escape_latex, names), *(["average"] if len(names) > 1 else [])]
    count = [f"{min(n)}" if min(n) == max(n) else f"{min(n)}--{max(n)}" for _, n in benchmarks]
    rows = [["$n$", *count, *([""] if len(names) > 1 else [])]]
    many_models = len({line.model for line in lines}) > 1
    model = ""
    for line, row in zip(lines, scores, strict=True):
        if many_models and line.model != model:
            rows.append([rf"\textit{{{escape_latex(line.model)}}}", *[""] * len(row)])
        model = line.model
        key = (line.name, line.model)
        name = rf"\quad {escape_latex(line.name)}" if line.nested else escape_latex(line.name)
        cells = [
            _score_cell(value, best[place], _letters(marks, letters, key, names, place))
            for place, value in enumerate(row)
        ]
        rows.append([name + (f"$^{{{letters[key]}}}$" if key in letters else ""), *cells])
    measures = ", ".join(dict.fromkeys(TITLES[study.first_measure] for study in studies))
    marked = "; letters: better than that row (Holm)" if letters else ""
    caption = f"{measures.capitalize()} in %: best bold, second underlined{marked}."
    return (
        "% Needs the packages booktabs and graphicx. It fits a column.\n"
        "\\begin{table}[t]\n\\centering\\small\\setlength{\\tabcolsep}{4pt}\n"
        f"{FITTING_TABULAR % tabular(heads, rows, 'l' + 'r' * (len(heads) - 1))}\n"
        f"\\caption{{{escape_latex(caption)}}}\n\\label{{tab:systems}}\n\\end{{table}}\n"
    )


SystemKey = tuple[str, str]
"""A system's label and model."""


def better_than(compared: Iterable[Comparison]) -> dict[tuple[SystemKey, str], list[SystemKey]]:
    """For each system and benchmark, the systems than which it is significantly better there."""
    found: dict[tuple[SystemKey, str], list[SystemKey]] = {}
    for one in compared:
        if one.bounds is not None or len(one.pairs) > 1 or one.p_holm is None or one.p_holm > ALPHA:
            continue
        [pair] = one.pairs
        keys = [
            (system.label, study.model or "several models")
            for system, study in ((pair.first, pair.study), (pair.second, pair.second_study))
        ]
        better, other = keys if (one.difference.value or 0) > 0 else keys[::-1]
        found.setdefault((better, _column(pair.study)), []).append(other)
    return found


def _column(study: Study) -> str:
    return ", ".join(filter(None, (study.benchmark.title, study.data)))


def _letters(
    marks: dict[tuple[SystemKey, str], list[SystemKey]],
    letters: dict[SystemKey, str],
    key: SystemKey,
    names: Sequence[str],
    place: int,
) -> str:
    others = marks.get((key, names[place]), []) if place < len(names) else []
    return ",".join(sorted(letters[other] for other in others if other in letters))


def _score(line: Line, place: int) -> float | None:
    interval = line.scores_by_place.get(place)
    return interval.value if interval else None


def _two_best(values: Sequence[float | None]) -> tuple[str | None, str | None]:
    """The best and the second-best score as they are printed, so that equal figures have equal marks."""
    printed = sorted({float(f"{100 * value:.1f}") for value in values if value is not None}, reverse=True)
    first, second = [*(f"{value:.1f}" for value in printed[:2]), None, None][:2]
    return first, second


def _score_cell(value: float | None, best: tuple[str | None, str | None], mark: str) -> str:
    if value is None:
        return "--"
    text = f"{100 * value:.1f}"
    shown = rf"\textbf{{{text}}}" if text == best[0] else rf"\underline{{{text}}}" if text == best[1] else text
    return shown + (f"$^{{{mark}}}$" if mark else "")


# --- figures ----------------------------------------------------------------------------------------------------------


def finding_figures(compared: Sequence[Comparison]) -> dict[str, tuple[bytes, str]]:
    """For each finding, the name of its file, its figure as PDF, and its caption."""
    significant = [one for one in compared if one.p_holm is not None and one.p_holm <= ALPHA][:MOST_FINDINGS]
    return {f"finding-{n}": (_draw_finding(one), finding_sentence(one)) for n, one in enumerate(significant, 1)}


def _draw_finding(comparison: Comparison) -> bytes:
    """The scores and the difference of a finding; over several benchmarks, the differences on each and their mean."""
    panels: list[tuple[str, list[str], list[Interval], bool]] = []
    if len(comparison.pairs) == 1:
        [pair] = comparison.pairs
        ids, measure = common_items(pair.first, pair.second), pair.study.first_measure
        names = list(comparison.names)
        scores = [estimate(system, measure, ids) for system in (pair.first, pair.second)]
        panels.append((TITLES[measure], names, scores, False))
        panels.append(("difference", [f"{names[0]} minus\n{names[1]}"], [comparison.difference], True))
    else:
        titles = [pair.study.benchmark.title for pair in comparison.pairs]
        each = [*map(_difference_of, comparison.pairs), comparison.difference]
        panels.append(("difference", [*titles, "mean"], each, True))
    heights = [len(panel[1]) for panel in panels]
    with open_figure("finding", 0.55 * len(panels) + 0.32 * sum(heights), COLUMN) as (figure, files):
        grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, shown_names, values, zero) in zip(grid, panels, strict=True):
            if zero:
                axes.axvline(0, color=INK, linewidth=1, linestyle="--")
            draw_dots(axes, values, [line_style(n) for n in range(len(values))])
            axes.set_xlabel(title)
            write_row_names(axes, [shorten(name) for name in shown_names])
    return files[-1]


def _difference_of(pair: Pair) -> Interval:
    return difference(pair.first, pair.second, pair.study.first_measure, common_items(pair.first, pair.second))


def findings_tex(figures: dict[str, tuple[bytes, str]]) -> str:
    """LaTeX that shows the figures of findings with their captions."""
    parts = [
        f"\\begin{{figure}}[t]\n\\centering\n\\includegraphics[width=\\columnwidth]{{{name}.pdf}}\n"
        f"\\caption{{{escape_latex(caption)}}}\n\\label{{fig:{name}}}\n\\end{{figure}}\n"
        for name, (_, caption) in figures.items()
    ]
    return "% Needs the package graphicx.\n" + "\n".join(parts)


# --- methods ----------------------------------------------------------------------------------------------------------


def methods_paragraph(studies: Sequence[Study], compared: Sequence[Comparison], family: Family) -> str:
    """What a paper's section on methods has to say, from the logs: systems, data, models, seeds, tests, failures."""
    systems = [system for study in studies for system in study.measured]
    runs = [run for system in systems for run in system.runs]
    sentences = [
        f"We compared {_listed(s.label for s in systems if s.of is None)}"
        + (
            f" and their controls ({_listed(str(s.control) for s in systems if s.control)})"
            * any(s.of for s in systems)
        )
        + f" on {_listed(_benchmark_words(study) for study in studies)}.",
        f"Models were {_listed(_model_words(systems))}.",
        _seed_words(systems),
    ]
    prompts = {name: digest for run in runs for name, digest in (run.parts.get("prompts") or {}).items()}
    if prompts:
        listed = ", ".join(f"{name} {digest}" for name, digest in sorted(prompts.items()))
        sentences.append(f"Prompts are those of moot with these digests (SHA-256): {listed}.")
    sentences.append(f"Scores have 95% intervals over groups of items, {INTERVALS}.")
    sentences += _test_words(compared, family)
    missing = sum(system.errors + system.not_run for system in systems)
    planned = sum(len(system.observations) + system.not_run for system in systems)
    unusable = sum(observation.unusable for system in systems for observation in system.answered)
    sentences.append(
        f"Of {planned:,} answers, {missing:,} are missing because a run failed or was stopped; they count neither as "
        f"right nor as wrong. In {unusable:,} cases no reply could be used; these count as wrong."
    )
    if versions := _listed(run.versions for run in runs if run.versions):
        sentences.append(f"Versions: {versions}.")
    return " ".join(filter(None, sentences))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(words))


def _benchmark_words(study: Study) -> str:
    [digest, *others] = {run.items for system in study.measured for run in system.runs}
    identity = f", digest {digest[:8]}" if digest and not others else ""
    return f"{study.benchmark.title} ({len(study.same_items)} items that all systems answered{identity})"


def _model_words(systems: Sequence[System]) -> Iterable[str]:
    reported: dict[str, set[str]] = {}
    for system in systems:
        for observation in system.observations:
            for model, name in observation.models:
                reported.setdefault(model, set()).update({name} - {""})
    for model, names in sorted(reported.items()):
        yield f"{model} (reported as {', '.join(sorted(names))})" if names else model


def _seed_words(systems: Sequence[System]) -> str:
    counts = Counter(len(system.runs) for system in systems)
    seeds = sorted({run.seed for system in systems for run in system.runs if run.seed is not None})
    named = f" with the sampling seeds {', '.join(map(str, seeds))}" if seeds else ""
    if len(counts) == 1:
        [n] = counts
        return f"Each system had {n} run{'s' * (n != 1)}{named}."
    return f"Systems had {min(counts)} to {max(counts)} runs{named}."


def _test_words(compared: Sequence[Comparison], family: Family) -> list[str]:
    made = [one for one in compared if one.p is not None]
    if not made:
        return ["No difference was tested."]
    names = Counter(one.test.name for one in made if one.bounds is None)
    margins = Counter((one.claim, one.bounds.margin) for one in made if one.bounds is not None)
    words = [f"{count} by {name}" for name, count in names.items()]
    for (claim, margin), count in margins.items():
        words.append(f"{count} of the claim {claim.replace('_', ' ')} with the margin {margin:g}")
    over = "all of them" if family == "report" else "those of each benchmark and model"
    return [
        f"{len(made)} tests were made on paired items ({'; '.join(words)}).",
        *([f"{len(compared) - len(made)} could not be computed."] * (len(made) < len(compared))),
        f"P-values were corrected by Holm's method over {over}, at the level {ALPHA:g}.",
    ]


def paper_files(studies: Sequence[Study], compared: Sequence[Comparison], methods: str) -> dict[str, str | bytes]:
    """The files for a paper, by their paths in the report's folder."""
    figures = finding_figures(compared)
    files: dict[str, str | bytes] = {
        "paper/systems.tex": paper_table(studies, compared),
        "paper/methods.tex": escape_latex(methods) + "\n",
    }
    if figures:
        files["paper/findings.tex"] = findings_tex(figures)
    return files | {f"paper/{name}.pdf": pdf for name, (pdf, _) in figures.items()}
