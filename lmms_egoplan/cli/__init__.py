"""The ``lmms-egoplan`` command."""

import typer

from lmms_egoplan.cli import (
    agreement,
    data,
    demo,
    evaluate,
    heatmap,
    judge,
    lm_eval,
    metrics_path,
    report,
    score,
    submit,
    tasks_path,
    train,
)

app = typer.Typer(
    name="lmms-egoplan",
    help="Egocentric planning benchmarks for lmms-eval and lm-eval.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)
app.command("tasks-path")(tasks_path.tasks_path)
app.command("metrics-path")(metrics_path.metrics_path)
app.command(
    "lm-eval",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)(lm_eval.lm_eval)
app.command("report")(report.report)
app.add_typer(data.app, name="data")
app.add_typer(submit.app, name="submit")
app.add_typer(judge.app, name="judge")
app.command("agreement")(agreement.agreement)
app.add_typer(heatmap.app, name="heatmap")
app.add_typer(score.app, name="score")
app.add_typer(train.app, name="train")
app.add_typer(evaluate.app, name="evaluate")
