"""ActPlan-1K's commands: ``data prepare``, ``score``, ``judge`` and ``metrics-path``."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan.answer_files import read_plans, score_stored
from lmms_egoplan.benchmarks.actplan.bleurt import BLEURT_VARIABLE
from lmms_egoplan.benchmarks.actplan.error_judge import (
    DEFAULT_JUDGE,
    JUDGED_ERRORS,
    JudgedPlan,
    agreements,
    judge_errors,
    judged_lines,
)
from lmms_egoplan.benchmarks.actplan.labelled_plans import ERRORS
from lmms_egoplan.benchmarks.actplan.prepare import LABELS, prepare_actplan
from lmms_egoplan.benchmarks.actplan.records import instances_of
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.asking import Asking, EstimateOnly, Prices, RetryRejected
from lmms_egoplan.judging.json_replies import language_model
from lmms_egoplan.prepared_counts import SkipMissing, print_counts
from lmms_egoplan.report.labelled import write_folder
from lmms_egoplan.storage import split_dir, summary_path

METRICS = Path(__file__).resolve().with_name("evaluate_metrics")
Instances = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The folder `annotation` of the release, for tasks and images. Without it, the prepared data.",
    ),
]
_MEASURES = {
    "lcs": "LCS",
    "lcs_norm": "normalised",
    "lcs_parsed": "LCS, parsed",
    "lcs_norm_parsed": "normalised, parsed",
    "form_validity": "valid form",
    "plan_length": "steps",
    "bleurt_correct": "called correct",
    "correct": "correct (people)",
    "commonsense": "commonsense (people)",
}
# Of every group.
_COLUMNS = ("lcs", "lcs_norm", "lcs_norm_parsed", "correct")
_REMARKS = {
    "empty": "Empty plans, which score 0",
    "ends_in_thought": "Of these, replies that end inside a thought",
    "unparsed": "Plans without a step in the parsed reading",
    "repeated_ids": "Plans whose id was there before",
}
_BREAKDOWNS = {"model": "model", "setting": "setting", "length": "gold steps", "activity_type": "activity type"}
# Instances that a line names.
_NAMED = 5


def prepare(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with `<scene>/<activity>/<n>/sample_<k>/`.")],
    skip_missing: SkipMissing = False,
    bddl: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder with the activities' BDDL problems, for instances without `problem<n>.bddl` beside the task "
            "description: bddl/activity_definitions of ActPlan-1K's repository. The goal check needs them.",
        ),
    ] = None,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The folder is called `annotation` in the full release. The release is linked on
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    summary = prepare_actplan(source, skip_missing=skip_missing, bddl=bddl)
    print_counts(summary["counts"], LABELS, "source", "source")
    _print_gaps(summary)


def _print_gaps(summary: dict[str, Any]) -> None:
    prepared, size, missing = summary["questions"], summary["split_size"], len(summary["missing"])
    path = summary_path(summary["benchmark"], summary["split"])
    typer.echo(
        f"Gold plan 1 is missing in {summary['without_gold_plan_1']} of {prepared} prepared instances, gold plan 2 in "
        f"{summary['without_gold_plan_2']}; mean steps are gold plan 1's, the paper does not say which it counts."
    )
    if missing:
        typer.echo(
            f"Left out: {size - prepared} instances ({missing} folders, listed with reasons under missing in {path}). "
            f"Results will cover {prepared} of {size} instances."
        )
    if outside := summary["images_outside"]:
        named = ", ".join(f"{entry['folder']} ({entry['images']})" for entry in outside[:_NAMED])
        more = f" and {len(outside) - _NAMED} more, all listed under images_outside in {path}"
        typer.echo(
            f"Not 2 to 5 images, as the paper states for an instance: {len(outside)} of {size} instances: {named}"
            f"{more if len(outside) > _NAMED else ''}. They are prepared like the others."
        )
    if without := summary["without_bddl"]:
        reasons = summary["bddl_missing"]
        more = f"; {len(reasons)} reasons, all listed under bddl_missing in {path}" if len(reasons) > 1 else ""
        typer.echo(f"Without a BDDL problem, so without a goal check: {without} of {prepared}: {reasons[0]}{more}")
    typer.echo(f"Written to {split_dir(summary['benchmark'], summary['split'])}")


def score(
    plans: Annotated[
        Path,
        typer.Argument(
            metavar="PLANS",
            help='JSON lines: {"id": ..., "candidate": ..., "references": [...]}. Plans are texts, the references gold '
            'plans 1, 2, ... Where people have judged the plans: "correct" and "commonsense", too. Or the authors\' '
            "finetuning_data.jsonl.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The scores to write, JSON.")],
) -> None:
    """Score plans for ActPlan-1K's activities against their gold plans.

    A model's thinking is removed first. A reply that ends inside a thought has no plan.

    An id such as Beechwood_0_int/making_tea/0/sample_0 gives the setting and the type of the activity.
    LMMS_EGOPLAN_ENCODER sets the sentence encoder, LMMS_EGOPLAN_BLEURT a classifier.

    Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """
    if out.is_dir() or out.resolve() == plans.resolve():
        raise LmmsEgoplanError(f"{out}: --out must be a file of its own, not a folder and not the plans")
    scores = score_stored(read_plans(plans))
    write_whole(out, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    _print_scores(scores["summary"])
    typer.echo(f"Written to {out}")


def _print_scores(summary: dict[str, Any]) -> None:
    whole = Table("all plans", Column("", justify="right", no_wrap=True))
    whole.add_row("plans", str(summary["plans"]))
    for name, title in _MEASURES.items():
        if summary[name] is not None:
            labelled = f", of {summary['labelled'][name]}" if name in summary["labelled"] else ""
            whole.add_row(f"{title}{labelled}", _cell(summary[name]))
    columns = [name for name in _COLUMNS if summary[name] is not None]
    titles = (_MEASURES[name] for name in columns)
    parts = Table(Column("by", no_wrap=True), *(Column(title, justify="right") for title in ("plans", *titles)))
    for name, title in _BREAKDOWNS.items():
        groups = summary.get(f"by_{name}", {})
        if groups:
            parts.add_row(title)
        for group, values in groups.items():
            parts.add_row(f"  {group}", str(values["plans"]), *(_cell(values[name]) for name in columns))
        parts.add_section()
    Console().print(whole, parts)
    for name, what in _REMARKS.items():
        if summary[name]:
            typer.echo(f"{what}: {summary[name]}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or f'none, {BLEURT_VARIABLE} is not set'}")


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def judge(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help="Plans, as `score actplan` takes them. Those that people called correct are passed over. With "
            "`plans.jsonl` of `annotate export`, the judge is compared with people's types of errors.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for what the judge says; `report` takes it.")],
    instances: Instances = None,
    retry_rejected: RetryRejected = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
) -> None:
    """Have a judge mark the six types of errors in plans that people called wrong.

    LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY set the endpoint, LMMS_EGOPLAN_JUDGE_MODEL the model,
    which must read images (gpt-4o-2024-11-20 by default). Replies are stored as they come: after an interruption, the
    same command asks for the rest only.

    Example: `lmms-egoplan judge actplan labels/plans.jsonl --out judged-errors`
    """
    settings = language_model(DEFAULT_JUDGE, asking=Asking(retry_rejected, estimate, prices))
    stored = [(plan.model or path.stem, plan) for path in plans for plan in read_plans(path)]
    wrong = [(model, plan) for model, plan in stored if not plan.labels["correct"]]
    if not wrong:
        raise LmmsEgoplanError(f"people called all {len(stored)} plans correct; there is nothing to judge")
    judged = judge_errors(wrong, instances_of({plan.plan.id for _, plan in wrong}, instances), settings)
    settings.asking.finish_estimate()
    write_folder(out, "actplan", {JUDGED_ERRORS: judged_lines(judged)})
    _print_errors(judged)
    unjudged = [plan for plan in judged if plan.judge is None]
    typer.echo(f"Passed over, as people called them correct: {len(stored) - len(wrong)} of {len(stored)} plans")
    typer.echo(f"Written to {out / JUDGED_ERRORS}")
    if unjudged:
        raise LmmsEgoplanError(
            f"{len(unjudged)} of {len(judged)} plans are not judged, {unjudged[0].id} of {unjudged[0].model} for one: "
            f"{unjudged[0].error}. The same command asks again for what got no "
            "reply, --retry-rejected also for replies that cannot be used"
        )


def _print_errors(judged: list[JudgedPlan]) -> None:
    found = agreements(judged)
    heads = ("judge", "judge, of both", "people, of both", "same plans", "kappa", "95 %")
    table = Table("error", *(Column(head, justify="right") for head in heads[: 6 if found else 1]))
    for key, title in ERRORS.items():
        cells = [str(sum(key in plan.judge for plan in judged if plan.judge is not None))]
        if found:
            people, judge, same, agreement = found[key]
            kappa = agreement.kappa_unweighted
            cells += [str(judge), str(people), str(same)]
            cells += ["n/a", "n/a"] if kappa is None else [f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"]
        table.add_row(title, *cells)
    Console().print(table)
    both = sum(plan.people is not None and plan.judge is not None for plan in judged)
    rated = sum(plan.judge is not None for plan in judged)
    names = ", ".join(dict.fromkeys(plan.judge_model for plan in judged))
    if both:
        typer.echo(f"kappa n/a: fewer than {MIN_ITEMS} plans that both marked, or one of them marks all plans alike")
    typer.echo(f"Plans judged: {rated} of {len(judged)}; marked by people, too: {both}. Judge: {names}")


def metrics_path() -> None:
    """Print the folder of the metrics for Hugging Face's library evaluate: `actplan_lcs` and `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...], references=[...])`
    """
    typer.echo(METRICS)
