"""The options of ``moot verify``, in two groups. ``moot batch`` also takes the first group."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from moot.cli.completing import completion_for
from moot.cli.models import typed_model

# Options of `moot verify` and of every row of `moot batch`
GraphName = Annotated[
    str | None,
    typer.Option(
        help="The debate system; see `moot graphs`.  [default: tool_mad]", autocompletion=completion_for("graphs")
    ),
]
PresetName = Annotated[
    Literal["practical", "paper"] | None,
    typer.Option(
        help="The defaults of those settings that are not named: practical, as moot recommends for checks, or paper, "
        "as the system's source; `moot settings` lists both.  [default: practical]"
    ),
]
TaskName = Annotated[
    str | None, typer.Option(help="The kind of answer; see `moot tasks`.", autocompletion=completion_for("tasks"))
]
Labels = Annotated[
    str | None,
    typer.Option(
        help='The answers to choose from, as CSV ("true,false,unproven"; a label that contains a comma needs quotation '
        "marks), as a JSON list, or as a JSON object that explains each answer."
    ),
]
Choices = Annotated[list[str] | None, typer.Option(help="An option of a multiple-choice question. Repeatable.")]
GivenTexts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|URL",
        help="A text that comes with the claim: a PDF, HTML, .docx, .xlsx, .csv, .txt or .md file, a .jsonl file of "
        "objects with `text`, or a page's address. Repeatable.",
    ),
]
ClaimDate = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="When the claim was made: a year, a month or a day, such as 2020-10-25."),
]
Speaker = Annotated[str | None, typer.Option(metavar="NAME", help="Who made the claim.")]
AppearedAt = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The page on which the claim appeared. It, its site and near-copies are no evidence; see the setting "
        "`claim_page`.",
    ),
]
SitesOnly = Annotated[
    str | None,
    typer.Option(
        metavar="SITES",
        help="Use web results of these sites alone: domains with commas between them, or a file with one a line.",
    ),
]
SitesNever = Annotated[
    str | None, typer.Option(metavar="SITES", help="Leave out web results of these sites; written as --sites-only.")
]
SiteLabels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Your own labels of sites, for agents and readers: a CSV file with a domain and a label or weight a row.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        callback=typed_model,
        help="Model of all roles, as provider:name; see `moot models`. `auto` takes the first that can be used here: a "
        "server on this machine, else a key.",
        autocompletion=completion_for("models"),
    ),
]
SettingPairs = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting; VALUE is read as JSON if it parses, else as text. Repeatable.",
        autocompletion=completion_for("settings"),
    ),
]
Corpus = Annotated[
    str | None,
    typer.Option(
        help="The corpus to search; see `moot index`. Without a corpus, the sources that need one read Wikipedia. So "
        "does `web` if no web search is set up."
    ),
]
Evidence = Annotated[
    str | None,
    typer.Option(
        metavar="WORDS",
        help="What to search, separated by commas: web, documents (--corpus or --given), wikipedia, or names of "
        "sources, such as openalex.  [default: the system's]",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file of `moot calibrate`: adds a prediction set and a decision (act or escalate) to the verdict. "
        "The file is rejected if it was fitted on another graph, task or prompts, other sources, or other settings "
        "that affect verdicts.",
    ),
]
ReplyMode = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="record stores the replies to calls, so that a debate that was interrupted or failed does not pay for "
        "them again. reuse also uses replies of other debates. replay uses only stored replies and makes no calls. "
        "off stores nothing.  [default: record]",
    ),
]

# Options of `moot verify` alone
Claim = Annotated[
    str | None,
    typer.Argument(help="The claim to check, or the question to answer. Without it, a person at a terminal is asked."),
]
AskMoments = Annotated[
    str | None,
    typer.Option(
        metavar="MOMENTS",
        help="The moments at which moot asks you, separated by commas: queries, premises (only in proclaim), "
        "evidence, remark, verdict.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Resume the last unfinished debate on this input, with that debate's settings. You do not need this "
        "option if you repeat the same command.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Start a new debate, even if one is unfinished.")]
ControlName = Annotated[
    str | None,
    typer.Option(
        metavar="CONTROL",
        help="A control that runs after the debate, at the same cost, for comparison: self_consistency.",
    ),
]
EqualMeasure = Annotated[
    str | None,
    typer.Option(
        help="The measure in which the debate and its control cost the same: tokens, usd or calls.  [default: tokens]"
    ),
]
DocumentAsJson = Annotated[bool, typer.Option("--json", help="Print the result document and nothing else.")]
ReportLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="The report's language: en, de, es, fr or ar.  [default: the claim's; English if it is none of these]",
    ),
]
DebateOut = Annotated[
    Path | None,
    typer.Option(
        help="Write the result document to this file (.json), or a report if the file's name ends in .html or .md."
    ),
]
