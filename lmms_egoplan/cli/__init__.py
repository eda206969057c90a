"""The ``lmms-egoplan`` command: it joins the commands of all rooms.

The modules of this package import other rooms only inside their functions: help and completion load
all of them.
"""

from importlib.machinery import PathFinder
from typing import Annotated

import typer

from lmms_egoplan import __path__ as package_path
from lmms_egoplan import __version__
from lmms_egoplan.cli import (
    actplan,
    annotate,
    audit,
    build,
    data,
    demo,
    egointent,
    egoplan,
    egothink,
    ledger,
    lm_eval,
    plan,
    report,
    run,
    sensitivity,
    train,
)
from lmms_egoplan.cli.errors import EvaluateGroup, RootGroup

app = typer.Typer(
    name="lmms-egoplan",
    cls=RootGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"lmms-egoplan {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Egocentric planning benchmarks for lmms-eval and lm-eval.

    Start runs with `lmms-eval` or `lmms-egoplan lm-eval`.

    Example: `lmms-egoplan demo` runs everything on small rendered sets; `lmms-egoplan show runs`
    prints the scores in the folder `runs`
    """


# Commands and groups that few users need are below the others in the help.
_MORE = "More"

app.command("demo")(demo.demo)
app.command(
    "run",
    cls=run.RunCommand,
    context_settings={"allow_extra_args": True},  # the harness's options
)(run.run)
app.command("show")(report.show)
app.command("report")(report.report)
app.command("compare")(report.compare)
app.command("ledger", rich_help_panel=_MORE)(ledger.ledger)
app.command("sensitivity", rich_help_panel=_MORE)(sensitivity.sensitivity)
app.command(
    "lm-eval",
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)(lm_eval.lm_eval)
app.command("tasks-path", rich_help_panel=_MORE)(data.tasks_path)


def _group(parent: typer.Typer, name: str, help_text: str, panel: str | None = None) -> typer.Typer:
    """Add a group of commands, which prints its help if no command follows."""
    group = typer.Typer(help=help_text, no_args_is_help=True)
    parent.add_typer(group, name=name, rich_help_panel=panel)
    return group


data_group = _group(
    app,
    "data",
    """
    Prepare the benchmarks' data, and list the prepared splits.

    Example: `lmms-egoplan data prepare egothink hub`, then `lmms-egoplan data status`
    """,
)
data_group.command("status")(data.status)

prepare_group = _group(
    data_group,
    "prepare",
    """
    Check the files of a benchmark and convert them to a dataset.

    The dataset is written to `$LMMS_EGOPLAN_DATA` (by default `~/.cache/lmms_egoplan`).

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`
    """,
)
prepare_group.command("egoplan")(egoplan.prepare)
prepare_group.command("egoplan_bench2")(egoplan.prepare_bench2)
prepare_group.command("egothink")(egothink.prepare)
prepare_group.command("egointent")(egointent.prepare)
prepare_group.command("actplan")(actplan.prepare)

list_videos_group = _group(
    data_group,
    "list",
    """
    List the videos that a benchmark needs, as input for the publishers' downloaders.

    Example: `lmms-egoplan data list egoplan EgoPlan_validation.json --out ids.txt`
    """,
)
list_videos_group.command("egoplan")(egoplan.list_videos)
list_videos_group.command("egoplan_bench2")(egoplan.list_bench2_videos)
list_videos_group.command("egointent")(egointent.list_videos)

cut_group = _group(
    data_group,
    "cut",
    """
    Cut the parts of videos that the tasks read. You can then store or move them without the full
    videos.

    Example: `lmms-egoplan data cut egoplan EgoPlan_validation.json --split val --epic-kitchens
    EPIC-KITCHENS --ego4d ego4d/video_288p --out clips`
    """,
)
cut_group.command("egoplan")(egoplan.cut)
cut_group.command("egoplan_bench2")(egoplan.cut_bench2)

judge_group = _group(
    app,
    "judge",
    """
    Judge stored answers.

    LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and LMMS_EGOPLAN_JUDGE_MODEL set the
    judge for all benchmarks. Without LMMS_EGOPLAN_JUDGE_MODEL, each benchmark uses its default
    judge: EgoThink gpt-4o-2024-11-20, EgoIntent Qwen/Qwen3-32B, egointent_v1 Qwen/Qwen3-32B,
    EgoIntent's diagnostics Qwen/Qwen3-VL-32B-Instruct.

    Example: `lmms-egoplan judge egothink runs/my-model --out judged.jsonl`
    """,
)
judge_group.command("egoplan")(egoplan.judge)
judge_group.command("egothink")(egothink.judge)
judge_group.command("egointent")(egointent.judge)
judge_group.command("actplan")(actplan.judge)

agreement_group = _group(
    app,
    "agreement",
    """
    Measure the agreement between judges and people.

    Example: `lmms-egoplan agreement egothink gpt-4o.jsonl qwen.jsonl --human annotators.csv --out
    agreement.csv`
    """,
    _MORE,
)
agreement_group.command("egothink")(egothink.agreement)

score_group = _group(
    app,
    "score",
    """
    Score plans from any source.

    Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """,
    _MORE,
)
score_group.command("actplan")(actplan.score)

submit_group = _group(
    app,
    "submit",
    """
    Create a submission file from the samples of a run.

    Example: `lmms-egoplan submit egoplan runs/model/20250101_120000_samples_egoplan_test.jsonl
    --out submission.json`
    """,
)
submit_group.command("egoplan")(egoplan.submit)

evaluate_group = typer.Typer(
    cls=EvaluateGroup,
    help="""
    Evaluate the models and checks used by a benchmark's metrics.

    Example: `lmms-egoplan evaluate actplan-bleurt classifier finetuning_data.jsonl activities.txt
    --split val`
    """,
    no_args_is_help=True,
)
app.add_typer(evaluate_group, name="evaluate", rich_help_panel=_MORE)
evaluate_group.command("actplan-bleurt")(actplan.evaluate_classifier)

metrics_path_group = _group(
    app,
    "metrics-path",
    """
    Print the folder of a benchmark's metrics, for Hugging Face's evaluate library.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`
    """,
    _MORE,
)
metrics_path_group.command("actplan")(actplan.metrics_path)


def _has_room(name: str) -> bool:
    """Return whether this copy of the package has a room, even if another copy is installed."""
    return PathFinder.find_spec(f"lmms_egoplan.{name}", package_path) is not None


# The rooms that make questions, labels, models and plans. One that is absent is skipped.
audit_group = typer.Typer(
    help="""
    Compare a benchmark's questions with a model's training data, or your annotations with a paper's
    figures.

    Example: `lmms-egoplan audit egoplan --training EPIC_100_train.csv --out audit`
    """,
    no_args_is_help=True,
)

if _has_room("construction"):
    data_group.add_typer(build.build, name="build")

if _has_room("training"):
    data_group.add_typer(train.export, name="export")
    app.add_typer(train.train, name="train", rich_help_panel=_MORE)
    app.add_typer(train.merge, name="merge", rich_help_panel=_MORE)

if _has_room("annotation"):
    app.add_typer(annotate.annotate, name="annotate")
    audit_group.add_typer(annotate.audit_labels)

if _has_room("overlap"):
    audit_group.add_typer(audit.audit_questions)

if audit_group.registered_groups:
    app.add_typer(audit_group, name="audit", rich_help_panel=_MORE)

if _has_room("planner"):
    app.add_typer(plan.plan, name="plan", rich_help_panel=_MORE)
