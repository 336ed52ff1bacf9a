"""The command line. Heavy imports are inside the commands, so that ``moot --help`` is fast."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from moot.cli import _verify_options as verify_options
from moot.cli.asking import check_given, with_options_of
from moot.cli.batch.command import ACTIONS, batch
from moot.cli.calibrate import calibrate
from moot.cli.claims.command import claims
from moot.cli.completing import completion_for
from moot.cli.config import config
from moot.cli.database import Database, using_database
from moot.cli.evaluations import evaluations
from moot.cli.history import corpora, delete_command, list_command, show_command
from moot.cli.models import ask_claim, models, name_for_server, typed_model, with_model
from moot.cli.parameters import AsJson, Yes
from moot.cli.replies import reply_commands
from moot.cli.review import review_command
from moot.service.queue.command import worker
from typer.core import TyperGroup

if TYPE_CHECKING:
    from moot.core.errors import MootError

EXTRAS = {"assistants": "server", "eval": "evals", "serve": "server", "service": "service"}
"""Commands that need an extra of moot, with the name of the extra. Other commands report a missing extra themselves."""


class Commands(TyperGroup):
    """moot's commands; if a package of an extra is missing, the error names the extra."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            command = str(ctx.invoked_subcommand)
            if command not in EXTRAS or find_spec(str(error.name).partition(".")[0]):
                raise
            from moot.core.lazy import missing_package

            raise missing_package(error, EXTRAS[command], f"moot {command}") from error


app = typer.Typer(
    cls=Commands,
    help="Check claims by letting language models argue over evidence.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


EXAMPLE = 'moot verify "The Suez Canal has locks."'
FIVE_COMMANDS = f"""\
moot checks claims by letting language models argue over evidence.

  moot serve --open                           the page: check a claim, an article or a list there
  {EXAMPLE}     check a claim
  moot index reports/ --corpus cases          read your own documents; use them with --corpus cases
  moot claims article.pdf --out claims.csv    find the claims of a text
  moot batch claims.csv --out verdicts        check every claim of a list

Which models you can use: moot models. All commands: moot --help"""


@app.callback(invoke_without_command=True)
def all_commands(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", "-V", is_eager=True, callback=show_version, help="Print the version.")
    ] = False,
    env_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Read environment variables, such as keys, from this file. Variables that are set already keep their "
            "values.",
        ),
    ] = None,
) -> None:
    """Check claims by letting language models argue over evidence."""
    from moot.core.config import load_env_file

    if context.invoked_subcommand is None:
        print(FIVE_COMMANDS)  # noqa: T201
        return
    load_env_file(env_file)
    servers = ("serve", "service")  # these commands start telemetry themselves
    if context.invoked_subcommand not in servers and any(name.startswith(("OTEL_", "LOG_JSON")) for name in os.environ):
        from moot.core.telemetry import begin_telemetry

        begin_telemetry(port=context.invoked_subcommand == "worker")


def run() -> None:
    """The entry point. A `MootError` becomes a message and an exit code: 2 for a UserError, 3 for others."""
    from moot.cli.signals import report_interrupts
    from moot.core.errors import MootError

    # Without `gc.freeze`, the last garbage collection takes a quarter of the time of a short command.
    atexit.register(gc.freeze)
    # langsmith would log each failure to send a trace; moot reports them once, at the end.
    logging.getLogger("langsmith").setLevel(logging.ERROR)
    try:
        with report_interrupts():
            app()
    except MootError as error:
        fail(error)


def show_version(wanted: bool) -> None:
    """Prints the version and exits, if ``wanted``."""
    if wanted:
        from importlib.metadata import version

        print(f"moot {version('moot')}")  # noqa: T201
        raise typer.Exit


def fail(error: MootError) -> NoReturn:
    """Prints an error's text on standard error and exits with the error's code."""
    print(f"moot: {error.detail}", file=sys.stderr)  # noqa: T201
    raise SystemExit(error.exit_code)


def verify(
    context: typer.Context,
    claim: verify_options.Claim = None,
    graph: verify_options.GraphName = None,
    preset: verify_options.PresetName = None,
    task: verify_options.TaskName = None,
    labels: verify_options.Labels = None,
    option: verify_options.Choices = None,
    given: verify_options.GivenTexts = None,
    claim_date: verify_options.ClaimDate = None,
    speaker: verify_options.Speaker = None,
    appeared_at: verify_options.AppearedAt = None,
    sites_only: verify_options.SitesOnly = None,
    sites_never: verify_options.SitesNever = None,
    site_labels: verify_options.SiteLabels = None,
    model: verify_options.Model = None,
    settings: verify_options.SettingPairs = None,
    corpus: verify_options.Corpus = None,
    evidence: verify_options.Evidence = None,
    calibration: verify_options.CalibrationFile = None,
    ask: verify_options.AskMoments = None,
    resume: verify_options.Resume = False,
    fresh: verify_options.Fresh = False,
    replies: verify_options.ReplyMode = None,
    beside: verify_options.ControlName = None,
    equal: verify_options.EqualMeasure = None,
    as_json: verify_options.DocumentAsJson = False,
    out: verify_options.DebateOut = None,
    language: verify_options.ReportLanguage = None,
) -> None:
    """Debate a claim and print the verdict with its evidence."""
    options = locals()
    from moot.cli.signals import Stop

    if claim is None:
        check_given(given or [])
        claim = ask_claim() or context.fail(f"Missing argument 'claim', for example: {EXAMPLE}")
    with Stop() as stop:  # before the slow imports, so that `stop` also handles Ctrl-C during them
        from moot.cli.asking import input_from_options, named_settings
        from moot.cli.beside import parse_control
        from moot.cli.options import with_evidence
        from moot.cli.resuming import SettingSources, debate_setup, graph_to_resume
        from moot.cli.verify import debate_and_print
        from moot.core.config import usual_settings, value_of
        from moot.graphs import load_graph
        from moot.graphs._registry import DEFAULT_GRAPH

        named = named_settings(options)
        debate_input = {"claim": claim, **input_from_options(options)}
        if resume and graph is None:
            graph = graph_to_resume(debate_input, beside)
        system = load_graph(graph or value_of("graph") or DEFAULT_GRAPH)
        chosen = SettingSources(settings or [], named, {"preset": "practical", **usual_settings()})
        if evidence is not None:
            values = {**chosen.defaults, **named}
            named |= with_evidence(system, chosen.pairs, values, evidence, given=bool(debate_input["given"]))
        how: Any = {"resume": resume, "fresh": fresh, "control": beside}
        setup = with_model(lambda: debate_setup(system, debate_input, chosen, replies, **how), named, stop.ask)
        control = parse_control(beside, equal, setup.settings)
        written: Any = {"as_json": as_json, "out": out, "language": language}
        raise SystemExit(debate_and_print(system, debate_input, setup, stop, **written, control=control))


with_options_of(verify, left_out=("context", "claim", "ask", "resume", "fresh", "as_json", "out", "beside", "equal"))(
    batch
)


@with_options_of(batch, left_out=("run_on_queue",))
def batch_command(**options: Any) -> None:
    action, runner = str(options["file"]), None
    if options["queue"]:  # otherwise nothing of the extra `queue` is needed
        from moot.service.queue.command import manage_batches
        from moot.service.queue.runner import run_on_queue

        if action in ACTIONS:
            return manage_batches(action, options["id"], options["queue"])
        runner = run_on_queue
    return batch(**options, run_on_queue=runner)


batch_command.__doc__ = batch.__doc__


def report_command(
    documents: Annotated[
        list[Path],
        typer.Argument(metavar="DOC...", help="Result documents (.json), folders of them, and ids of `moot list`."),
    ],
    html: Annotated[
        bool, typer.Option("--html", help="A self-contained HTML page; the default, unless --out ends in .md.")
    ] = False,
    md: Annotated[bool, typer.Option("--md", help="Markdown.")] = False,
    claimreview: Annotated[
        bool, typer.Option("--claimreview", help="ClaimReview (JSON-LD); needs --publisher and --url.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The folder; or, if there is one report, a file name with a suffix.",
            show_default="next to each document",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            callback=typed_model,
            help="Model, as provider:name or `auto`, that writes the missing summaries, with one call for each debate. "
            "A summary is added to the debate's document.",
            show_default=False,
        ),
    ] = None,
    language: verify_options.ReportLanguage = None,
    publisher: Annotated[str, typer.Option(help="Publisher of the claim reviews.", show_default=False)] = "",
    unreviewed: Annotated[
        bool,
        typer.Option(
            "--unreviewed",
            help="Also claim reviews of checks that nobody approved (`moot review`): they name the software as author.",
        ),
    ] = False,
    url: Annotated[
        str,
        typer.Option(
            help="Address of the page with the review. The name of the document's file, without suffix, replaces {id}.",
            show_default=False,
        ),
    ] = "",
) -> None:
    """Write reports of debates."""
    from moot.cli.report import Publisher, write_reports

    wanted = {"html": html, "md": md, "claimreview": claimreview}
    kinds = [kind for kind, is_wanted in wanted.items() if is_wanted]
    kinds = kinds or (["md"] if out and out.suffix.lower() == ".md" else ["html"])
    raise SystemExit(write_reports(documents, kinds, out, Publisher(publisher, url, unreviewed), model, language))


def recheck_command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID...", help="Ids of checks, or their beginnings; see `moot list`.")
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="All checks to look at again by today (`moot review`).")] = False,
    debate: Annotated[
        bool,
        typer.Option(
            "--debate/--no-debate", help="Debate a check anew if a passage on which its verdict rests changed."
        ),
    ] = True,
    look_again: Annotated[
        str | None, typer.Option(metavar="DAY", help="The next day to look at the checks again.", show_default=False)
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="Who looks again.", show_default="the configuration's `editor`, or moot")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Read the pages that checks cite again, say what changed, and debate anew what rests on a changed passage."""
    from moot.cli.recheck import recheck

    options: Any = {"all_due": due, "debates_anew": debate, "yes": yes, "person": person, "next_day": look_again}
    raise SystemExit(recheck(ids or [], **options, as_json=as_json))


def export_command(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID|FOLDER...", help="Ids of checks (`moot list`), or folders of `moot batch`."),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE.zip", help="The archive.")] = Path("checks.zip"),
    of_list: Annotated[
        str | None, typer.Option("--list", metavar="ID", help="A list of the page; its address has the id.")
    ] = None,
    database: Database = None,
) -> None:
    """Write checks with all versions, pages, decisions and notes into one archive for another moot (`moot import`)."""
    from moot.cli.hand_over import export

    with using_database(database):
        code = export(ids or [], out, of_list)
    raise SystemExit(code)


def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE.zip", help="An archive that `moot export` wrote.")],
) -> None:
    """Add the checks in an archive of `moot export` to those of this machine. Nothing here is ever changed."""
    from moot.cli.hand_over import import_

    raise SystemExit(import_(file))


def graphs(as_json: AsJson = False) -> None:
    """List the debate systems."""
    from moot.cli.tables import print_listing

    print_listing("graphs", as_json=as_json)


def tasks(as_json: AsJson = False) -> None:
    """List the tasks: the kinds of answers."""
    from moot.cli.tables import print_listing

    print_listing("tasks", as_json=as_json)


def settings_command(
    graph: Annotated[
        str, typer.Argument(help="The debate system, or find_claims.", autocompletion=completion_for("all graphs"))
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List a debate system's settings: name, default, range, meaning."""
    from moot.cli.tables import print_listing

    print_listing(f"settings {graph}", as_json=as_json)


def index(
    context: typer.Context,
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH|URL",
            help="A PDF, HTML, .docx, .xlsx, .csv, .txt, .md or .jsonl file, a folder of them, or a page's address.",
        ),
    ],
    corpus: Annotated[str, typer.Option(help="The corpus's name.")],
    embedder: Annotated[
        str | None, typer.Option(help="Text encoder; see `moot settings tool_mad`. `none`: no vectors, for BM25 alone.")
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            envvar="MOOT_QUEUE",
            show_envvar=False,
            metavar="postgresql://...",
            help="A queue whose workers (`moot worker`) encode and store passages on a Chroma server.",
        ),
    ] = None,
) -> None:
    """Add files to a corpus. After an interruption, run the same command again to continue."""
    from moot.cli.index import index_path, queue_of
    from moot.core.config import value_of

    named = (source := context.get_parameter_source("queue")) is not None and source.name == "COMMANDLINE"
    fill = None
    if address := queue_of(queue, named=named):
        from moot.service.queue.indexing import FillByQueue

        fill = FillByQueue(address)
    index_path(path, corpus, embedder or value_of("embedder"), fill)


def serve_command(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 2024,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Addresses other than loopback need MOOT_TOKEN.")
    ] = "127.0.0.1",
    at_once: Annotated[int, typer.Option(min=1, max=1000, help="Debates that run at the same time.")] = 10,
    studio: Annotated[
        bool, typer.Option("--studio", help="Allow LangGraph Studio, a website, to use the server.")
    ] = False,
    opened: Annotated[bool, typer.Option("--open", help="Open the local page in a browser.")] = False,
    model: Annotated[
        str | None,
        typer.Option(
            callback=typed_model,
            help="Model of debates that name none, as provider:name or `auto`; it overrides MOOT_MODEL.",
            autocompletion=completion_for("models"),
        ),
    ] = None,
) -> None:
    """Serve the page, the LangGraph API and MCP on this machine."""
    from moot.web.serve import serve

    name_for_server(model)
    serve(host, port, at_once, studio=studio, open_browser=opened)


def service_command(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 2024,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Addresses other than loopback need MOOT_USERS or MOOT_TOKEN.")
    ] = "127.0.0.1",
    at_once: Annotated[
        int, typer.Option(min=0, max=1000, help="Debates that this process runs at the same time; 0 to run none.")
    ] = 10,
    config: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write Aegra's configuration to this folder; start no server.")
    ] = None,
) -> None:
    """Serve the page and the API. Several processes, each started by this command, can share the work.

    They share the debates in Postgres (MOOT_DATABASE) and the run queue in Redis.
    """
    from moot.cli.signals import end_now
    from moot.service.config import write_config
    from moot.service.service import run_service

    if config:
        print(write_config(config))  # noqa: T201
    else:
        try:
            run_service(host, port, at_once)
        except SystemExit as ended:  # after SIGTERM or a failed start
            end_now(int(ended.code or 0))  # because a normal exit would take seconds
        end_now(0)


def demo_command(
    out: Annotated[Path, typer.Option(help="The folder for the reports.")] = Path("moot-demo"),
) -> None:
    """Debate three claims with recorded replies: no model, no key, no network."""
    from moot.cli.demo import demo

    demo(out)


def assistants_command(
    url: Annotated[str, typer.Option(help="The server's address.")] = "http://127.0.0.1:2024",
) -> None:
    """On a running server, create an assistant for each preset without a task. Safe to run again."""
    from moot.web.assistants import create_assistants

    for name, became in create_assistants(url).items():
        print(f"{name}: {became}")  # noqa: T201


def schema() -> None:
    """Print the JSON Schema of the result document."""
    print(json.dumps(result_schema(), indent=2))  # noqa: T201


def result_schema() -> dict[str, Any]:
    """The JSON Schema of the result document."""
    from moot.nodes._runtime.state import ResultDocument
    from pydantic import TypeAdapter

    return TypeAdapter(ResultDocument).json_schema()


COMMANDS: dict[str, dict[str, Any]] = {
    "Check claims": {
        "verify": verify,
        "claims": claims,
        "batch": batch_command,
        "serve": serve_command,
        "service": service_command,
        "report": report_command,
        "demo": demo_command,
    },
    "Stored debates": {
        "list": list_command,
        "show": show_command,
        "review": review_command,
        "recheck": recheck_command,
        "export": export_command,
        "import": import_command,
        "delete": delete_command,
    },
    "Configure and look up": {
        "config": config,
        "models": models,
        "index": index,
        "corpora": corpora,
        "graphs": graphs,
        "tasks": tasks,
        "settings": settings_command,
    },
    "Measure and operate": {
        "eval": evaluations,
        "calibrate": calibrate,
        "replies": reply_commands,
        "worker": worker,
        "assistants": assistants_command,
        "schema": schema,
    },
}
"""The commands by heading, in the order of help."""
for panel, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, rich_help_panel=panel)(command)
