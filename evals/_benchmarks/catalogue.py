"""Moot's benchmarks: where each is published, under which licence, and how its records become items.

``read_benchmark("fever", Path("paper_dev.jsonl"))`` reads the items of a file. It can also read a folder or the Hub.
All records are read before a debate runs, and an invalid record raises an error. Notes count the records that are left
out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from moot.core.errors import UserError
from moot.core.installed import Plugins
from moot.evals._benchmarks import records_answers as answers
from moot.evals._benchmarks import records_choice as choices
from moot.evals._benchmarks import records_claims as claims
from moot.evals._benchmarks.claim_files import ClaimRow, ClaimsFile, read_all_rows
from moot.evals._benchmarks.records import Item, Reading, Record
from moot.evals._benchmarks.records_files import MOST_RECORDS, Expand, Hub, HubUnavailable, invalid, read_file, read_hub
from moot.evals._benchmarks.records_items import conflict_note, conflicting_items, conflicts_of, read_items
from moot.evals._stats.averitec import EV2R_MEASURES, METEOR_MEASURES
from moot.evals._stats.rationales import SCIFACT_MEASURES
from moot.graphs._registry import suggest
from moot.nodes._texts.task import TASKS

__all__ = ["BENCHMARKS", "Benchmark", "Item", "Reading", "read_benchmark"]

LABEL_METRICS = ("accuracy", "macro_f1")
"""Measures of answers that are labels."""
SHORT_ANSWER_METRICS = ("exact_match", "token_f1", "judged")
"""Measures of short answers. ``judged``: whether a model judges that the answer means the same as a gold answer."""
JUDGED_MEASURES = ("judged", *EV2R_MEASURES)
"""Measures that need a model."""


@dataclass(frozen=True)
class Benchmark:
    """A benchmark, and how its records are read."""

    name: str
    title: str
    task: str
    """A key of `moot.nodes._texts.task.TASKS`."""
    licence: str
    source: str
    """Where its files are published; for the user's own claims, the file that the user has to give."""
    files: tuple[str, ...]
    """File names or patterns to look for in a folder. All files of the first pattern that matches are read."""
    read: Callable[[Record], Item]
    """Makes an item from a record, or raises `InvalidRecord` or `SkippedRecord` (`moot.evals._benchmarks.records`)."""
    metrics: tuple[str, ...]
    hub: Hub | None = None
    together: bool = False
    """Whether to read the files of all patterns in ``files``, not only of the first pattern that matches."""
    columns: tuple[str, ...] = ()
    """Column names of a CSV file without a header."""
    expand: Expand | None = None
    """Splits an object that contains several records, such as an article with several questions."""
    uncomputed: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Official measures that are not computed here, each with the reason."""
    companion: Callable[[list[Record], Path], tuple[list[Record], str]] | None = None
    """Adds data from another file near the file of the records. Returns the records, and a note for users."""
    is_own: bool = False
    """Whether the records come from a file of the user's own claims (`claim_files`)."""

    @property
    def needs_judge(self) -> bool:
        """Whether some of its measures need a model."""
        return any(name in JUDGED_MEASURES for name in self.metrics)


def benchmark_names() -> list[str]:
    """The names of moot's benchmarks, then the names that installed packages declare."""
    return [*BENCHMARKS, *INSTALLED.names()]


def load_benchmark(name: str) -> Benchmark:
    """A benchmark by its name, from moot or from an installed package."""
    INSTALLED.check(name)
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    if name not in INSTALLED.names():
        raise UserError(f"There is no benchmark {name!r}. {suggest(name, benchmark_names())}", kind="invalid_setting")
    found = INSTALLED.load(name)
    if not isinstance(found, Benchmark):
        raise INSTALLED.error(name, f"it is of the type {type(found).__name__}, not a moot.evals.Benchmark")
    if found.name != name:
        raise INSTALLED.error(
            name, f"its `name` is {found.name!r}. Give the benchmark and its entry point the same name"
        )
    if found.task not in TASKS:
        raise INSTALLED.error(name, f"moot has no task {found.task!r}: `moot tasks` lists the tasks")
    return found


def installed_benchmarks() -> tuple[list[Benchmark], list[UserError]]:
    """Import the benchmarks of installed packages; return the usable ones, and an error for each unusable one."""
    found, errors = [], []
    for name in (*INSTALLED.conflicts(), *INSTALLED.names()):
        try:
            found.append(load_benchmark(name))
        except UserError as error:
            errors.append(error)
    return found, errors


def read_benchmark(
    name: str, path: Path | None = None, *, limit: int | None = None, seed: int | None = None
) -> Reading:
    """Read the items of a benchmark, with notes for users, for example about records that are left out.

    Without a path, the Hub is read. A seed shuffles the items before the limit applies, so that a larger limit only
    adds items.
    """
    benchmark = load_benchmark(name)
    if limit is not None and limit < 1:
        raise UserError(f"A limit must be at least 1, not {limit}.", kind="invalid_setting")
    records, notes = (_read_from_hub(benchmark), []) if path is None else _read_from_path(benchmark, path)
    reading = read_items(records, benchmark.read, benchmark.task, benchmark.title)
    if not reading.items:
        raise invalid(str(path or benchmark.hub), "; ".join(("no usable record", *reading.notes)) + ".")
    items = list(reading.items)
    if seed is not None:
        random.Random(seed).shuffle(items)
    chosen = tuple(items[:limit])
    conflicts = conflicts_of(chosen, conflicting_items(items))
    notes = list(filter(None, (conflict_note(chosen, conflicts), *reading.notes, *dict.fromkeys(notes))))
    return Reading(chosen, tuple(notes), conflicts)


def _read_from_hub(benchmark: Benchmark) -> list[Record]:
    if benchmark.hub is None:
        raise _missing_data(benchmark, "it is not read from the Hub")
    try:
        return read_hub(benchmark.hub)
    except HubUnavailable as error:
        raise _missing_data(benchmark, f"{benchmark.hub}: {error}") from error


def _read_from_path(benchmark: Benchmark, path: Path) -> tuple[list[Record], list[str]]:
    """The records of a file or a folder, and notes about them."""
    if path.is_file():
        return _read_from_file(benchmark, path, path.name)
    if not path.is_dir():
        raise _missing_data(benchmark, f"there is no file or folder {path}")
    found: dict[Path, None] = {}
    for pattern in benchmark.files:
        if benchmark.together or not found:
            found |= dict.fromkeys(sorted(file for file in path.glob(pattern) if _is_records_file(file)))
    if not found:
        raise _missing_data(benchmark, f"the folder {path} contains none of its files")
    records: list[Record] = []
    notes: list[str] = []
    for file in found:
        read, file_notes = _read_from_file(benchmark, file, file.relative_to(path).as_posix())
        records, notes = records + read, notes + file_notes
        if len(records) > MOST_RECORDS:
            raise invalid(str(path), f"more than {MOST_RECORDS:,} records.")
    return records, notes


def _read_from_file(benchmark: Benchmark, file: Path, name: str) -> tuple[list[Record], list[str]]:
    if benchmark.is_own:
        return own_records(file)
    records = read_file(file, name, columns=benchmark.columns, expand=benchmark.expand)
    if benchmark.companion is None:
        return records, []
    records, note = benchmark.companion(records, file)
    return records, [note]


def _is_records_file(file: Path) -> bool:
    return file.is_file() and not file.name.endswith(".ids.json")


def own_records(path: Path) -> tuple[list[Record], list[str]]:
    """The rows of a file of claims for an evaluation. If columns are not read, a note names them."""

    def check(row: ClaimRow) -> str:
        if row.graph or row.settings or row.task or row.options:
            return (
                "the columns `graph`, `settings`, `task` and `options` are only for `moot batch`: an evaluation sets "
                "them for all rows"
            )
        return ""

    file = ClaimsFile(path)
    rows = read_all_rows(file, check)
    if len({row.labels for row in rows if row.label}) > 1:
        problem = (
            "its labelled rows have different `labels`; an evaluation needs the same labels in all rows with a label."
        )
        raise invalid(path.name, problem)
    return [
        Record(vars(replace(row, written=())), f"{path.name}, line {row.line}", row.number - 1, path.stem, row.id)
        for row in rows
    ], file.notes


def _missing_data(benchmark: Benchmark, problem: str) -> UserError:
    if benchmark.is_own:
        problem = f"{benchmark.title}: {problem}. Give {benchmark.source}, as in claims=my.csv."
        return UserError(problem, kind="missing_file")
    return UserError(
        f"{benchmark.title}: {problem}. Download it from {benchmark.source} (licence: {benchmark.licence}), and give a "
        f"file, or a folder with {'some' if benchmark.together else 'one'} of these: {', '.join(benchmark.files)}.",
        kind="missing_file",
    )


_ALL = [
    # --- claims
    Benchmark(
        *("claims", "Your own claims", "labels", "yours", "a .csv or .jsonl file with the columns claim and label"),
        ("claims.csv", "claims.jsonl"),
        claims.own_claim,
        (*LABEL_METRICS, "balanced_accuracy"),
        is_own=True,
    ),
    Benchmark(
        *("fever", "FEVER", "fever", "CC BY-SA 3.0", "https://fever.ai/dataset/fever.html"),
        ("fever.jsonl", "paper_dev.jsonl", "shared_task_dev.jsonl"),
        claims.fever,
        (*LABEL_METRICS, "fever_score"),
        Hub("fever/fever", "v1.0", "labelled_dev", converted=True, gather=claims.fever_rows),
    ),
    Benchmark(
        *(
            "fever_symmetric",
            "FEVER-Symmetric",
            "fever",
            "CC BY-SA 3.0",
            "https://github.com/TalSchuster/FeverSymmetric",
        ),
        ("fever_symmetric.jsonl", "symmetric_v0.2/fever_symmetric_test.jsonl", "fever_symmetric_test.jsonl"),
        claims.fever_symmetric,
        LABEL_METRICS,
    ),
    Benchmark(
        *("feverous", "FEVEROUS", "feverous", "CC BY-SA 3.0", "https://fever.ai/dataset/feverous.html"),
        ("feverous.jsonl", "feverous_dev_challenges.jsonl", "dev.json"),
        claims.feverous,
        (*LABEL_METRICS, "feverous_score"),
        Hub("fever/feverous", "default", "validation", converted=True),
    ),
    Benchmark(
        *("faviq", "FaVIQ", "faviq", "none stated with the data", "https://github.com/faviq/faviq"),
        ("faviq.jsonl", "test.jsonl", "dev.jsonl"),
        claims.faviq,
        LABEL_METRICS,
    ),
    Benchmark(
        *("averitec", "AVeriTeC", "averitec", "CC BY-NC 4.0: not for commercial use"),
        "https://github.com/MichSchli/AVeriTeC",
        ("averitec.jsonl", "dev.json", "data/dev.json"),
        claims.averitec,
        (*LABEL_METRICS, *METEOR_MEASURES, *EV2R_MEASURES),
    ),
    Benchmark(
        *("hover", "HoVer", "hover", "MIT; text of Wikipedia CC BY-SA 4.0", "https://github.com/hover-nlp/hover"),
        ("hover.jsonl", "hover_dev_release_v1.1.json", "data/hover/hover_dev_release_v1.1.json"),
        claims.hover,
        (*LABEL_METRICS, "hover_score"),
        Hub("hover-nlp/hover", "default", "validation", converted=True),
    ),
    Benchmark(
        *("scifact", "SciFact", "scifact", "claims CC BY 4.0, abstracts ODC-By 1.0"),
        "https://github.com/allenai/scifact",
        ("scifact.jsonl", "claims_dev.jsonl", "data/claims_dev.jsonl"),
        claims.scifact,
        (*LABEL_METRICS, *SCIFACT_MEASURES),
        Hub("allenai/scifact", "claims", "validation", converted=True, gather=claims.scifact_rows),
    ),
    *(
        Benchmark(
            *(f"check_covid{end}", f"Check-COVID{about}", f"check_covid{end}"),
            "MIT; abstracts of CORD-19 under their publishers' terms",
            "https://github.com/posuer/Check-COVID",
            ("check_covid.jsonl", "covidCheck_test_*.json", "test/covidCheck_test_*.json", "covidCheck_test.json"),
            claims.with_two_labels(claims.check_covid, "check_covid_binary") if end else claims.check_covid,
            (*LABEL_METRICS, "balanced_accuracy", "rationale_f1"),
            companion=None if end else claims.with_sentences,
        )
        for end, about in {"": "", "_binary": " (two labels)"}.items()
    ),
    *(
        Benchmark(
            *(f"healthver{end}", f"HealthVer{about}", f"healthver{end}", "none stated"),
            "https://github.com/sarrouti/HealthVer",
            ("healthver.csv", "healthver_test.csv", "data/healthver_test.csv"),
            claims.with_two_labels(claims.healthver, "healthver_binary") if end else claims.healthver,
            (*LABEL_METRICS, "balanced_accuracy"),
        )
        for end, about in {"": "", "_binary": " (two labels)"}.items()
    ),
    Benchmark(
        *("pubmedqa", "PubMedQA", "pubmedqa", "MIT; abstracts under their publishers' terms"),
        "https://github.com/pubmedqa/pubmedqa",
        ("pubmedqa.json", "test_set.json", "ori_pqal.json", "data/ori_pqal.json"),
        claims.pubmedqa,
        LABEL_METRICS,
        Hub("qiaojin/PubMedQA", "pqa_labeled", "train"),
    ),
    Benchmark(
        *("llm_aggrefact", "LLM-AggreFact", "llm_aggrefact"),
        "CC BY-ND 4.0, for evaluation only; each data set in it keeps its own licence",
        "https://huggingface.co/datasets/lytang/LLM-AggreFact",
        ("llm_aggrefact.jsonl", "test-*.parquet", "data/test-*.parquet"),
        claims.llm_aggrefact,
        (*LABEL_METRICS, "balanced_accuracy"),
        Hub("lytang/LLM-AggreFact", "default", "test"),
        uncomputed={
            "balanced accuracy, averaged over the data sets": "measures are over all items. The table of classes has "
            "the accuracy on each data set"
        },
    ),
    Benchmark(
        *("quantemp", "QuanTemp", "quantemp"),
        "none stated; its claims are of fact-checking websites",
        "https://github.com/factiverse/QuanTemp",
        ("quantemp.json", "test_claims_quantemp.json", "data/raw_data/test_claims_quantemp.json"),
        claims.quantemp,
        LABEL_METRICS,
    ),
    Benchmark(
        *("claimreview2024plus", "ClaimReview2024+ (claims without images)", "claimreview2024plus"),
        "Apache-2.0; access for non-commercial research and education only",
        "https://huggingface.co/datasets/MAI-Lab/ClaimReview2024plus",
        ("claimreview2024plus.json", "test.json"),
        claims.claimreview2024plus,
        LABEL_METRICS,
        Hub("MAI-Lab/ClaimReview2024plus", "default", "test"),
    ),
    Benchmark(
        *("veritas", "VeriTaS (claims without images and videos)", "veritas"),
        "see its website",
        "https://veritas.mai.informatik.tu-darmstadt.de",
        ("veritas.json", "claims.json", "*/claims.json"),
        claims.veritas,
        LABEL_METRICS,
        expand=claims.veritas_claims,
        uncomputed={"error of the integrity score": "debates end with a label, not with a score"},
    ),
    # --- multiple choice
    Benchmark(
        *("medqa_4opt", "MedQA (4 options)", "medqa", "MIT", "https://github.com/jind11/MedQA"),
        ("medqa_4opt.jsonl", "phrases_no_exclude_test.jsonl", "questions/US/4_options/phrases_no_exclude_test.jsonl"),
        choices.medqa(4),
        ("accuracy",),
        Hub("GBaker/MedQA-USMLE-4-options", "default", "test"),
    ),
    Benchmark(
        *("medqa_5opt", "MedQA (5 options)", "medqa", "MIT", "https://github.com/jind11/MedQA"),
        ("medqa_5opt.jsonl", "questions/US/test.jsonl", "test.jsonl"),
        choices.medqa(5),
        ("accuracy",),
        Hub("bigbio/med_qa", "med_qa_en_source", "test", converted=True),
    ),
    Benchmark(
        *("medmcqa", "MedMCQA", "medmcqa", "MIT", "https://github.com/medmcqa/medmcqa"),
        ("medmcqa.jsonl", "dev.json", "data/dev.json"),
        choices.medmcqa,
        ("accuracy",),
        Hub("openlifescienceai/medmcqa", "default", "validation"),
    ),
    Benchmark(
        *("mmlu", "MMLU", "mmlu", "MIT", "https://github.com/hendrycks/test"),
        ("mmlu.csv", "*_test.csv", "test/*_test.csv", "data/test/*_test.csv"),
        choices.mmlu,
        ("accuracy",),
        Hub("cais/mmlu", "all", "test"),
        columns=choices.MMLU_COLUMNS,
    ),
    Benchmark(
        *("mmlu_med", "MMLU-Med", "mmlu", "MIT", "https://github.com/hendrycks/test"),
        ("mmlu_med.csv", *(f"{folder}{name}_test.csv" for folder in ("", "test/") for name in choices.MEDICAL)),
        choices.mmlu_med,
        ("accuracy",),
        Hub("cais/mmlu", "all", "test"),
        together=True,
        columns=choices.MMLU_COLUMNS,
    ),
    Benchmark(
        *("mmlu_pro", "MMLU-Pro", "mmlu_pro", "MIT", "https://huggingface.co/datasets/TIGER-Lab/MMLU-Pro"),
        ("mmlu_pro.jsonl", "test-*.parquet", "data/test-*.parquet"),
        choices.mmlu_pro,
        ("accuracy",),
        Hub("TIGER-Lab/MMLU-Pro", "default", "test"),
    ),
    Benchmark(
        *("gpqa", "GPQA (Diamond)", "gpqa"),
        "CC BY 4.0; its authors ask that no example be shown in plain text online",
        "https://github.com/idavidrein/gpqa",
        ("gpqa_diamond.csv", "dataset/gpqa_diamond.csv", "gpqa.csv"),
        choices.gpqa,
        ("accuracy",),
        Hub("Idavidrein/gpqa", "gpqa_diamond", "train"),
    ),
    Benchmark(
        *("arc_challenge", "ARC-Challenge", "arc_challenge", "CC BY-SA 4.0", "https://allenai.org/data/arc"),
        ("arc_challenge.jsonl", "ARC-Challenge-Test.jsonl", "ARC-Challenge/ARC-Challenge-Test.jsonl"),
        choices.arc,
        ("accuracy",),
        Hub("allenai/ai2_arc", "ARC-Challenge", "test"),
    ),
    Benchmark(
        *("faitheval_counterfactual", "FaithEval (counterfactual contexts)", "faitheval_counterfactual"),
        "none stated with the data; Apache-2.0 for its repository",
        "https://huggingface.co/datasets/Salesforce/FaithEval-counterfactual-v1.0",
        ("faitheval_counterfactual.jsonl", "test-*.parquet", "data/test-*.parquet"),
        choices.faitheval_counterfactual,
        ("accuracy",),
        Hub("Salesforce/FaithEval-counterfactual-v1.0", "default", "test"),
    ),
    # --- short answers
    Benchmark(
        *("triviaqa", "TriviaQA", "triviaqa", "Apache-2.0", "https://nlp.cs.washington.edu/triviaqa"),
        ("triviaqa.jsonl", "unfiltered-web-dev.json", "wikipedia-dev.json", "qa/wikipedia-dev.json"),
        answers.triviaqa,
        SHORT_ANSWER_METRICS,
        Hub("mandarjoshi/trivia_qa", "unfiltered.nocontext", "validation"),
    ),
    Benchmark(
        *("nq_open", "NQ-open", "nq_open", "CC BY-SA 3.0"),
        "https://github.com/google-research-datasets/natural-questions",
        ("nq_open.jsonl", "NQ-open.dev.jsonl", "nq_open/NQ-open.dev.jsonl"),
        answers.nq_open,
        SHORT_ANSWER_METRICS,
        Hub("google-research-datasets/nq_open", "nq_open", "validation"),
    ),
    Benchmark(
        *("hotpotqa", "HotpotQA", "hotpotqa", "CC BY-SA 4.0", "https://hotpotqa.github.io"),
        ("hotpotqa.jsonl", "hotpot_dev_fullwiki_v1.json", "hotpot_dev_v1_simplified.json"),
        answers.hotpotqa,
        SHORT_ANSWER_METRICS,
        Hub("hotpotqa/hotpot_qa", "fullwiki", "validation"),
        uncomputed={"joint EM, joint F1": "only the distractor file has numbered sentences: use hotpotqa_distractor"},
    ),
    Benchmark(
        *("hotpotqa_distractor", "HotpotQA (distractor setting)", "hotpotqa", "CC BY-SA 4.0"),
        "https://hotpotqa.github.io",
        ("hotpotqa_distractor.jsonl", "hotpot_dev_distractor_v1.json"),
        answers.hotpotqa_distractor,
        (*SHORT_ANSWER_METRICS, "support_em", "support_f1", "joint_em", "joint_f1"),
        Hub("hotpotqa/hotpot_qa", "distractor", "validation"),
    ),
    Benchmark(
        *("2wikimultihopqa", "2WikiMultiHopQA", "2wikimultihopqa", "Apache-2.0; text of Wikipedia CC BY-SA"),
        "https://github.com/Alab-NII/2wikimultihop",
        ("2wikimultihopqa.jsonl", "dev.json", "data/dev.json"),
        answers.with_paragraphs,
        SHORT_ANSWER_METRICS,
        Hub("framolfese/2WikiMultihopQA", "default", "validation"),
        uncomputed={"joint EM, joint F1": "they need triples of evidence, which debates do not write"},
    ),
    Benchmark(
        *("squad", "SQuAD 1.1", "squad", "CC BY-SA 4.0", "https://rajpurkar.github.io/SQuAD-explorer"),
        ("squad_v1.1.json", "dev-v1.1.json"),
        answers.squad,
        SHORT_ANSWER_METRICS,
        Hub("rajpurkar/squad", "plain_text", "validation"),
        expand=answers.squad_questions,
    ),
    Benchmark(
        *("longbench", "LongBench (question answering)", "longbench"),
        "MIT; each subset keeps its own licence",
        "https://huggingface.co/datasets/zai-org/LongBench/resolve/main/data.zip",
        tuple(f"{folder}{name}.jsonl" for folder in ("", "data/") for name in answers.LONGBENCH),
        answers.longbench,
        SHORT_ANSWER_METRICS,
        together=True,
        uncomputed={
            "F1 and ROUGE-L of the Chinese subsets": "they compare words, but Chinese has no spaces between words"
        },
    ),
    Benchmark(
        *("ramdocs", "RAMDocs", "ramdocs", "MIT; text of Wikipedia CC BY-SA"),
        "https://huggingface.co/datasets/HanNight/RAMDocs",
        ("ramdocs.jsonl", "RAMDocs_test.jsonl"),
        answers.ramdocs,
        (*SHORT_ANSWER_METRICS, "all_answers"),
        Hub("HanNight/RAMDocs", "default", "test"),
    ),
    Benchmark(
        *("faitheval_unanswerable", "FaithEval (unanswerable contexts)", "faitheval_unanswerable"),
        "none stated with the data; Apache-2.0 for its repository",
        "https://huggingface.co/datasets/Salesforce/FaithEval-unanswerable-v1.0",
        ("faitheval_unanswerable.jsonl", "test-*.parquet", "data/test-*.parquet"),
        answers.faitheval_unanswerable,
        ("exact_match",),
        Hub("Salesforce/FaithEval-unanswerable-v1.0", "default", "test"),
        uncomputed={
            "inconsistent contexts": "the right answer is that the texts contradict each other, which is no answer "
            "that debates give"
        },
    ),
    # --- numbers and expressions
    Benchmark(
        *("gsm8k", "GSM8K", "gsm8k", "MIT", "https://github.com/openai/grade-school-math"),
        ("gsm8k.jsonl", "test.jsonl", "grade_school_math/data/test.jsonl"),
        answers.gsm8k,
        ("numeric_match",),
        Hub("openai/gsm8k", "main", "test"),
    ),
    Benchmark(
        *("gsm_ic", "GSM-IC", "gsm_ic", "none stated", "https://github.com/google-research-datasets/GSM-IC"),
        ("gsm_ic.json", "GSM-IC_2step.json", "GSM-IC_mstep.json"),
        answers.gsm_ic,
        ("numeric_match",),
        together=True,
    ),
    Benchmark(
        *("math", "MATH", "math", "MIT; a takedown of its copy on the Hub was reported"),
        "https://github.com/hendrycks/math",
        ("math.jsonl", "test/*/*.json", "MATH/test/*/*.json", "test.jsonl"),
        answers.math,
        ("exact_match", "judged"),
    ),
]
BENCHMARKS: dict[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
"""Moot's benchmarks by name."""
INSTALLED = Plugins("benchmark", BENCHMARKS, "invalid_setting")
"""Benchmarks that installed packages declare as entry points of the group ``moot.benchmarks``."""
