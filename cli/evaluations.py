"""The commands of ``moot eval``. Each command imports heavy modules only when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from moot.cli.attacking import eval_attack
from moot.cli.database import Database
from moot.cli.parameters import (
    AsJson,
    CallsAtOnce,
    CorpusOfAll,
    Logs,
    MaxSeconds,
    MostItems,
    SamplesAtOnce,
    SampleSeed,
    SettingsOfAll,
)

evaluations = typer.Typer(help="Evaluate debate systems and their parts.", no_args_is_help=True)


@evaluations.command("retrieval")
def eval_retrieval(
    data: Annotated[Path, typer.Option(help="A folder with corpus/*.jsonl and qrels/SPLIT/*.jsonl.")],
    source: Annotated[
        list[str] | None,
        typer.Option(help="A kind of source that searches a corpus. Repeatable.", show_default="all"),
    ] = None,
    qrels: Annotated[
        list[str] | None,
        typer.Option(help="The name of a qrels file, without .jsonl. Repeatable.", show_default="all of the split"),
    ] = None,
    split: Annotated[str, typer.Option(help="The folder in qrels/ with the qrels files.")] = "visible",
    union: Annotated[
        bool | None,
        typer.Option(
            "--union/--own",
            help="Search all corpus files together, or for each qrels file only those with its relevant passages.",
            show_default="both",
        ),
    ] = None,
    embedder: Annotated[str | None, typer.Option(help="Text encoder; see `moot settings tool_mad`.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare every source with this one.",
            show_default="only hybrid is compared, with the best other source",
        ),
    ] = None,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the JSON document, with each query's values, to this file.")
    ] = None,
) -> None:
    """Measure sources on queries with relevance judgements: recall@3, recall@10, nDCG@10 and MRR@10."""
    from moot.cli.evaluate import Options, evaluate_retrieval
    from moot.evals._benchmarks.qrels import SCOPES

    scopes = SCOPES if union is None else SCOPES[1:] if union else SCOPES[:1]
    options = Options(data, split, qrels or [], source or [], scopes, embedder, against)
    evaluate_retrieval(options, as_json=as_json, out=out)


@evaluations.command("tasks")
def eval_tasks(as_json: AsJson = False) -> None:
    """List the benchmarks: their licences, sources, and expected files."""
    from moot.cli.tables import print_listing

    print_listing("eval tasks", as_json=as_json)


@evaluations.command("run")
def eval_run(
    plan: Annotated[Path | None, typer.Argument(help="A plan in YAML: graphs, tasks, models, seeds.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="A debate system. Repeatable.")] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=PATH",
            help="A benchmark and its file or folder; NAME alone loads it from the Hugging Face Hub. Repeatable.",
        ),
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="Model of all roles, as provider:name. Repeatable.")] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of the models' sampling; each seed makes a separate run. Repeatable.")
    ] = None,
    settings: SettingsOfAll = None,
    corpus: CorpusOfAll = None,
    limit: MostItems = None,
    sample_seed: SampleSeed = None,
    judge: Annotated[
        str | None, typer.Option(help="A model that grades free-text answers, and AVeriTeC's evidence (Ev2R).")
    ] = None,
    judge_may_debate: Annotated[
        bool, typer.Option("--judge-may-debate", help="Allow a --judge that also debates in the runs that it grades.")
    ] = False,
    controls: Annotated[
        bool, typer.Option("--controls", help="Also run the controls of each debate, each at the cost of the debate.")
    ] = False,
    equal: Annotated[
        str | None,
        typer.Option(
            help="The measure in which a debate and its controls cost the same: tokens, usd or calls.",
            show_default="tokens",
        ),
    ] = None,
    logs: Logs = Path("logs"),
    at_once: SamplesAtOnce = 16,
    time_limit: Annotated[int | None, typer.Option(min=1, help="Seconds that a sample may take.")] = None,
    retry_on_error: Annotated[int, typer.Option(min=0, help="Immediate retries of a failed sample.")] = 0,
    fail_on_error: Annotated[
        float | None,
        typer.Option(min=0, help="Number of failed samples (or their share, if below 1) at which a run is aborted."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Maximum tokens for all debates, including earlier runs of the plan.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(min=0, help="Maximum USD for all debates, including earlier runs of the plan.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option(min=1, help="Maximum model calls for all debates, including earlier runs of the plan.")
    ] = None,
    max_seconds: MaxSeconds = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/OF",
            help="Run only this part of each benchmark's items, such as 3/16, into a folder of its own in --logs.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Call no model: print the calls, tokens, USD and hours to expect, from a rehearsal on some items.",
        ),
    ] = False,
    rehearsed: Annotated[int, typer.Option(min=1, help="Items of each benchmark that --dry-run rehearses.")] = 2,
    reply_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a reply, for --dry-run.")] = 110,
    tokens_per_second: Annotated[
        float, typer.Option(min=0.1, help="Tokens that an endpoint writes per second in each reply, for --dry-run.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Measure debate systems on benchmarks. After an interruption, run the same command again to continue."""
    from moot.cli.eval_run import evaluate, plan_of, settings_of
    from moot.evals._runs.run_plan import Limits
    from moot.evals._runs.shards import read_shard

    runs = {"models": tuple(model or ()), "seeds": tuple(seed or ()), "limit": limit, "sample_seed": sample_seed}
    grading = {"judge": judge, "judge_may_debate": judge_may_debate, "controls": controls, "equal": equal}
    wanted = plan_of(plan, graph or [], task or [], settings_of(settings or [], corpus, graph or []), **runs, **grading)
    limits = Limits(at_once, time_limit, retry_on_error, fail_on_error, budget, max_cost, max_calls, max_seconds)
    part = read_shard(shard) if shard else None
    if dry_run:
        from moot.cli.dry_run import print_expected
        from moot.evals._runs.dry_run import DryRun

        rehearsal = DryRun(wanted, rehearsed, reply_tokens, tokens_per_second, part)
        return print_expected(rehearsal, limits, as_json=as_json)
    raise SystemExit(evaluate(wanted, logs, limits, part, as_json=as_json))


evaluations.command("attack")(eval_attack)


@evaluations.command("compare")
def eval_compare(
    logs: Annotated[list[Path], typer.Argument(help="Inspect's logs, and folders of them.")],
    out: Annotated[
        Path | None, typer.Option(help="Write Markdown, HTML, CSV files and pictures to this folder.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            help="A system: compare all others with it. Or a control: compare each system with its own control.",
            show_default="each system with its own controls and with the first system",
        ),
    ] = None,
    tests: Annotated[
        Path | None,
        typer.Option(
            help="A YAML file, such as a plan, with `tests`: only these are made.",
            show_default="those of the logs' plan",
        ),
    ] = None,
    prices: Annotated[Path | None, typer.Option(help="A file of prices by model; overrides moot's own prices.")] = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="A file of `moot eval audit` with decisions: right answers are also counted by them."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the systems in logs: scores with intervals, paired tests, costs, calibration, rounds, judges."""
    from moot.cli.compare import compare_logs

    compare_logs(logs, out=out, against=against, tests=tests, prices=prices, audit=audit, as_json=as_json)


@evaluations.command("audit")
def eval_audit(
    logs: Annotated[list[Path], typer.Argument(help="Inspect's logs of tasks with labels, and folders of them.")],
    out: Annotated[
        Path, typer.Option(help="The CSV file. If it exists, rows into which a person has written stay as they are.")
    ] = Path("audit.csv"),
    at_least: Annotated[int, typer.Option(min=1, help="Runs (systems or seeds) that must give the same answer.")] = 2,
    agreement: Annotated[
        str,
        typer.Option("--agree", help="all: no run gives another answer; majority: more than half give this one."),
    ] = "all",
    as_json: AsJson = False,
) -> None:
    """List the items on which runs agree against the label, with their quotes, for a person to decide on the label."""
    from moot.cli.auditing import audit_logs

    if agreement not in ("all", "majority"):
        raise typer.BadParameter(f"it must be all or majority, not {agreement[:40]!r}.", param_hint="--agree")
    audit_logs(logs, out, at_least, "all" if agreement == "all" else "majority", as_json=as_json)


@evaluations.command("archive")
def eval_archive(
    logs: Annotated[Path, typer.Argument(help="The folder of a study's logs.")],
    out: Annotated[Path, typer.Option(help="The zip file.")] = Path("study.zip"),
    database: Database = None,
) -> None:
    """Put a study's plans, logs and stored replies into one file, which others can replay without a key."""
    from moot.cli.study import archive

    archive(logs, out, database)


@evaluations.command("replay")
def eval_replay(
    file: Annotated[Path, typer.Argument(help="A file of `moot eval archive`.")],
    out: Annotated[Path, typer.Option(help="A new folder for the logs and the report.")] = Path("study"),
) -> None:
    """Run a study's debates again from their stored replies, and make its report from the logs. Calls no model."""
    from moot.cli.study import replay

    raise SystemExit(replay(file, out))


@evaluations.command("agreement")
def eval_agreement(
    logs: Annotated[list[Path], typer.Argument(help="Inspect's logs of free-text answers, and folders of them.")],
    grader: Annotated[
        list[str] | None,
        typer.Option(help="A model that grades every answer now, as provider:name. Repeatable.", show_default="none"),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(help="People's judgements: CSV or JSONL with id, right (yes or no) and, if ids repeat, system."),
    ] = None,
    at_once: CallsAtOnce = 16,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(help="Write every answer's grades to this file: CSV if it ends in .csv, else JSON.")
    ] = None,
) -> None:
    """Measure how far graders agree with each other, with people and with text comparison: Cohen's kappa."""
    from moot.cli.agreement import measure_agreement

    measure_agreement(logs, grader or [], gold, at_once, as_json=as_json, out=out)


@evaluations.command("experiment")
def eval_experiment(
    log: Annotated[Path, typer.Argument(help="One of Inspect's .eval logs.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print LangSmith's answer and nothing else.")] = False,
) -> None:
    """Send a log to LangSmith as an experiment, shown next to other experiments on the same items."""
    from moot.cli.output import write_document
    from moot.core.words import count_with_noun
    from moot.evals._runs.experiment import experiment_of, send_experiment

    experiment = experiment_of(log)
    answer = send_experiment(experiment)
    write_document(answer, as_json=as_json, out=None)
    if not as_json:
        sent = f"Sent {count_with_noun(len(experiment['results']), 'sample')} of {experiment['dataset_name']!r}"
        typer.echo(f"{sent} as the experiment {experiment['experiment_name']!r}.")


@evaluations.command("ragas")
def eval_ragas(
    log: Annotated[
        Path, typer.Argument(help="An Inspect log, a folder of logs, or a document of `moot verify --out`.")
    ],
    model: Annotated[str, typer.Option(help="The model that RAGAS asks, as provider:name.")],
    embedder: Annotated[
        str | None, typer.Option(help="Text encoder of answer relevancy; see `moot settings tool_mad`.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of samples from each log.")] = None,
    at_once: CallsAtOnce = 16,
    as_json: AsJson = False,
    out: Annotated[
        Path | None, typer.Option(help="Write each sample's figures to this file: CSV if it ends in .csv, else JSON.")
    ] = None,
) -> None:
    """Measure verdicts with RAGAS's own faithfulness and answer relevancy. Needs the extra `ragas`."""
    from moot.cli.ragas import Options, measure_log
    from moot.retrievers._encoders import DEFAULT_ENCODER

    options = Options(log, model, embedder or DEFAULT_ENCODER, limit, at_once)
    raise SystemExit(measure_log(options, as_json=as_json, out=out))


@evaluations.command("warrants")
def eval_warrants(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="JSON Lines with claim, passage and label (SUPPORTS, REFUTES, NOT ENOUGH INFO), or SciFact's claims; "
            "or result documents (.json) whose verdicts are right, for planted swaps."
        ),
    ],
    model: Annotated[str, typer.Option(help="The model that assesses, as provider:name.")],
    corpus: Annotated[
        Path | None, typer.Option(help="SciFact's corpus.jsonl, for SciFact's claims.", show_default="none")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of pairs, and of answers to swap.")] = 100,
    seed: Annotated[int, typer.Option(help="The seed that draws and orders the cases.")] = 1,
    at_once: CallsAtOnce = 16,
    as_json: AsJson = False,
    out: Annotated[Path | None, typer.Option(help="Write each case with its result to this file, as JSON.")] = None,
) -> None:
    """Measure how well a model tells which quotes bear an answer out (the setting assess), on labelled passages."""
    from moot.cli.warrants import measure_warrants

    cases = (files, corpus, limit, seed)
    measure_warrants(*cases, model, at_once, as_json=as_json, out=out)


@evaluations.command("power")
def eval_power(
    first: Annotated[float, typer.Argument(metavar="ACCURACY", help="One system's accuracy, from 0 to 1.")],
    second: Annotated[float, typer.Argument(metavar="ACCURACY", help="The other system's accuracy, from 0 to 1.")],
    n: Annotated[int, typer.Option("--items", min=1, help="Number of items.")] = 200,
    discordant: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="The share of items that only one system gets right, if known."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the number of items needed to tell two systems apart, and the power of a given number of items."""
    from moot.cli.power import print_power

    print_power(first, second, n, discordant, as_json=as_json)
