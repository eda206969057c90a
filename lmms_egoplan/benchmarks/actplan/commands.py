"""ActPlan-1K's commands: ``data prepare``, ``score``, ``judge``, ``evaluate`` and ``metrics-path``."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks.actplan import bleurt, error_judge
from lmms_egoplan.benchmarks.actplan.goal_check import agreement, check_labelled
from lmms_egoplan.benchmarks.actplan.instances import (
    SETTINGS,
    activity_type,
    instances_of,
    parse_id,
)
from lmms_egoplan.benchmarks.actplan.metrics import BREAKDOWNS, by_group, length_bin
from lmms_egoplan.benchmarks.actplan.plans import (
    ERRORS,
    VERDICTS,
    StoredPlan,
    read_labelled_plans,
    read_plans,
)
from lmms_egoplan.benchmarks.actplan.prepare import LABELS, prepare_actplan
from lmms_egoplan.benchmarks.actplan.report import marks
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore, score_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.agreement import MIN_ITEMS
from lmms_egoplan.judging.asking import Asking, EstimateOnly, MaxCost, MaxRequests, Prices, Retry
from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
from lmms_egoplan.outputs import also_writes
from lmms_egoplan.paths import module_yaml
from lmms_egoplan.prepared_counts import SkipMissing, print_counts, print_question_sets
from lmms_egoplan.report.document import write_figure
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.samples import write_folder
from lmms_egoplan.storage import split_dir, summary_path
from lmms_egoplan.text import join_list

METRICS = Path(__file__).resolve().with_name("evaluate_metrics")
Instances = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help=(
            "The release's folder `annotation` with tasks and images (default: the prepared data)."
        ),
    ),
]
_TEXTS = module_yaml(__file__)
# Rows of Table 5 by classifier and the model that wrote the plans: MCC on val, accuracies in
# percent.
TABLE_5 = {
    classifier: {str(row["vlm"]): row for row in rows}
    for classifier, rows in groupby(load_table("actplan", "table5").rows, key=itemgetter("model"))
}
LabelledPlans = Annotated[Path, typer.Argument(metavar="PLANS", help=_TEXTS["labelled_plans"])]
Splits = Annotated[Path, typer.Argument(metavar="ACTIVITIES", help=_TEXTS["splits"])]
# Most instances or problems to list on one line.
_MOST_LISTED = 5


def prepare(
    source: Annotated[Path, typer.Argument(metavar="DIR", help=_TEXTS["prepare_source"])],
    skip_missing: SkipMissing = False,
    bddl: Annotated[Path | None, typer.Option(metavar="DIR", help=_TEXTS["prepare_bddl"])] = None,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The full release calls this folder `annotation`. Find the link to the release at
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    summary = prepare_actplan(source, skip_missing=skip_missing, bddl=bddl)
    print_counts(summary["counts"], LABELS, "source", "source")
    print_question_sets(summary)
    _print_gaps(summary)


def _print_gaps(summary: dict[str, Any]) -> None:
    texts, path = _TEXTS["gaps"], summary_path(summary["benchmark"], summary["split"])
    prepared, skipped = summary["questions"], summary["split_size"] - summary["questions"]
    typer.echo(texts["golds"].format(**summary))
    if folders := len(summary["missing"]):
        typer.echo(texts["skipped"].format(**summary, skipped=skipped, folders=folders, path=path))
    if differing := summary["images_outside"]:
        examples = ", ".join(
            f"{entry['folder']} ({entry['images']})" for entry in differing[:_MOST_LISTED]
        )
        num_more = len(differing) - _MOST_LISTED
        more = (
            f" and {num_more} more, all listed under images_outside in {path}"
            if num_more > 0
            else ""
        )
        typer.echo(
            texts["images"].format(
                **summary, differing=len(differing), examples=examples, more=more
            )
        )
    if count := summary["without_bddl"]:
        reasons = summary["bddl_missing"]
        more = (
            f" ({len(reasons)} reasons, all listed under bddl_missing in {path})"
            if len(reasons) > 1
            else ""
        )
        typer.echo(
            f"Without a goal check: {count} of {prepared} instances. First reason: "
            f"{reasons[0]}{more}"
        )
    typer.echo(
        f"Written to {split_dir(summary['benchmark'], summary['split'])}, with Fig. 4 "
        "(figure_4.png, .csv)"
    )


@also_writes("{stem}_figure_5.png", "{stem}_figure_5.svg")
def score(
    plans: Annotated[Path, typer.Argument(metavar="PLANS", help=_TEXTS["score_plans"])],
    out: Annotated[Path, typer.Option(metavar="FILE", help="JSON file for the scores.")],
) -> None:
    """Score plans for ActPlan-1K's activities against their gold plans.

    The model's thinking is removed first. A reply that ends inside a thought has no plan.

    If people labelled plans, their verdicts are also drawn by model and length next to FILE (Fig.
    5).

    An id such as Beechwood_0_int/making_tea/0/sample_0 determines the setting and the activity
    type. Set the sentence encoder with LMMS_EGOPLAN_ENCODER and a classifier with
    LMMS_EGOPLAN_BLEURT. By default, the classifier is the one that `train actplan-bleurt` wrote
    without --out, if any.

    Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """
    if out.is_dir() or out.resolve() == plans.resolve():
        raise LmmsEgoplanError(
            f"{out}: --out must be a new file, not a folder and not the file of plans"
        )
    scores = score_stored(read_plans(plans))
    write_whole(out, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
    _print_scores(scores["summary"])
    typer.echo(f"Written to {out}")
    for end in ("png", "svg"):  # Of an earlier run: `also_writes` refuses other files.
        out.with_name(f"{out.stem}_figure_5.{end}").unlink(missing_ok=True)
    labelled = [{"model": "plans", **sample} for sample in scores["samples"] if "correct" in sample]
    if figure := marks.length_figure(marks.correct_by_length(labelled)):
        write_figure(out.parent, replace(figure, key=f"{out.stem}_figure_5"))
        typer.echo(
            "Correctness by people and length (Fig. 5): "
            f"{out.with_name(f'{out.stem}_figure_5.png')}"
        )


def score_stored(stored: Sequence[StoredPlan]) -> dict[str, Any]:
    """Score plans with the configured encoder and classifier.

    Returns:
        ``samples`` and ``summary``. Undefined values are None.

        Each sample has:

        - `PlanScore.measures` and the fields of `PlanScore`
        - ``lengths``: steps in the official reading of ``candidate`` and of ``references``
        - ``length``: the bin of the first reference's length
        - setting, activity type, labels and model, if known

        The summary has:

        - ``plans``, ``encoder``, ``classifier``, and the means of all measures and labels
        - ``labelled``: number of plans with each label
        - ``repeated_ids``: plans whose id and model already occurred
        - ``empty``: plans without text; ``ends_in_thought``: those of them that end inside a
          thought
        - ``unparsed``: plans without a step in the parsed reading
        - ``by_...``: the same means by setting, length of the first reference, activity type and
          model

    Raises:
        LmmsEgoplanError: One of the two models cannot be loaded.
    """
    scores = score_plans([entry.plan for entry in stored], classifier=bleurt.classifier_path())
    samples = [_sample(entry, score) for entry, score in zip(stored, scores, strict=True)]
    names = (*scores[0].measures(), "bleurt_correct", *VERDICTS)
    summary = {
        **_summary(samples, names),
        "repeated_ids": len(stored) - len({(entry.plan.id, entry.model) for entry in stored}),
        "empty": sum(not score.official for score in scores),
        "ends_in_thought": sum(entry.ends_in_thought for entry in stored),
        "unparsed": sum(not score.parsed for score in scores),
        "encoder": scores[0].encoder,
        "classifier": scores[0].classifier
        and f"{scores[0].classifier}: {scores[0].classifier_name}",
    }
    for name in (*BREAKDOWNS, "model"):
        if groups := by_group([sample for sample in samples if name in sample], name):
            summary[f"by_{name}"] = {
                group: _summary(members, names) for group, members in groups.items()
            }
    return {"samples": samples, "summary": summary}


def _sample(stored: StoredPlan, score: PlanScore) -> dict[str, Any]:
    instance = parse_id(stored.plan.id)
    fields = asdict(score)
    lines, steps = fields.pop("reference_lines"), fields.pop("reference_lengths")
    return {
        "id": score.id,
        **({"model": stored.model} if stored.model is not None else {}),
        **score.measures(),
        "lengths": {"candidate": len(score.official), "references": lines or steps},
        **fields,
        **(
            {"setting": instance.setting, "activity_type": activity_type(instance.activity)}
            if instance
            else {}
        ),
        "length": length_bin(score.reference_lengths[0]),
        **{name: label for name, label in stored.labels.items() if label is not None},
    }


def _summary(samples: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Count plans and labels, and average each measure over the plans for which it is defined."""
    fields = {name: "bleurt" if name == "bleurt_correct" else name for name in names}
    values = {
        name: [float(value) for sample in samples if (value := sample.get(field)) is not None]
        for name, field in fields.items()
    }
    means = {name: fmean(defined) if defined else None for name, defined in values.items()}
    return {
        "plans": len(samples),
        **means,
        "labelled": {name: len(values[name]) for name in VERDICTS},
    }


def _print_scores(summary: dict[str, Any]) -> None:
    whole = Table("all plans", Column("", justify="right", no_wrap=True))
    whole.add_row("plans", str(summary["plans"]))
    for name, title in _TEXTS["measures"].items():
        if summary[name] is not None:
            labelled = f", of {summary['labelled'][name]}" if name in summary["labelled"] else ""
            whole.add_row(f"{title}{labelled}", _cell(summary[name]))
    columns = [name for name in _TEXTS["columns"] if summary[name] is not None]
    titles = (_TEXTS["measures"][name] for name in columns)
    parts = Table(
        Column("by", no_wrap=True),
        *(Column(title, justify="right") for title in ("plans", *titles)),
    )
    for name, title in _TEXTS["groups"].items():
        groups = summary.get(f"by_{name}", {})
        if groups:
            parts.add_row(title)
        for group, values in groups.items():
            parts.add_row(
                f"  {group}", str(values["plans"]), *(_cell(values[name]) for name in columns)
            )
        parts.add_section()
    Console().print(whole, parts)
    for name, title in _TEXTS["remarks"].items():
        if summary[name]:
            typer.echo(f"{title}: {summary[name]}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or bleurt.NO_CLASSIFIER}")


def judge(
    plans: Annotated[list[Path], typer.Argument(metavar="PLANS", help=_TEXTS["judge_plans"])],
    out: Annotated[Path, typer.Option(metavar="DIR", help=_TEXTS["judge_out"])],
    instances: Instances = None,
    retry_rejected: Retry = False,
    estimate: EstimateOnly = False,
    prices: Prices = None,
    max_requests: MaxRequests = None,
    max_cost: MaxCost = None,
) -> None:
    """Have a judge mark the six types of errors in plans, except those that people called correct.

    Set the endpoint with LMMS_EGOPLAN_JUDGE_BASE_URL and LMMS_EGOPLAN_JUDGE_API_KEY, and the model
    with LMMS_EGOPLAN_JUDGE_MODEL. It must read images (default: gpt-4o-2024-11-20). Replies are
    stored as they arrive: to resume an interrupted run, repeat the command.

    Example: `lmms-egoplan judge actplan labels/plans.jsonl --out judged-errors`
    """
    asking = Asking(
        retry_rejected, estimate, prices, probes=True, max_requests=max_requests, max_cost=max_cost
    )
    settings = language_model(DEFAULT_MODEL, asking=asking)
    stored = [(plan.model or path.stem, plan) for path in plans for plan in read_plans(path)]
    wrong = [(model, plan) for model, plan in stored if not plan.labels["correct"]]
    if not wrong:
        raise LmmsEgoplanError(f"people called all {len(stored)} plans correct; nothing to judge")
    judged = error_judge.judge_errors(
        wrong, instances_of({plan.plan.id for _, plan in wrong}, instances), settings
    )
    settings.asking.finish_estimate()
    write_folder(
        out,
        "actplan",
        {error_judge.JUDGED_ERRORS: json_lines(plan.model_dump() for plan in judged)},
    )
    _print_errors(judged)
    unjudged = [plan for plan in judged if plan.judge is None]
    typer.echo(
        f"Skipped because people called them correct: {len(stored) - len(wrong)} of "
        f"{len(stored)} plans"
    )
    typer.echo(f"Written to {out / error_judge.JUDGED_ERRORS}")
    settings.asking.print_cost()
    if unjudged:
        raise LmmsEgoplanError(
            f"{len(unjudged)} of {len(judged)} plans are not judged, for example {unjudged[0].id} "
            "of "
            f"{unjudged[0].model}: {unjudged[0].error}. Repeat the command to retry plans without "
            "a reply; add "
            "--retry-rejected to also retry unusable replies"
        )


def _print_errors(judged: list[error_judge.JudgedPlan]) -> None:
    agreements = error_judge.agreements(judged)
    heads = ("judge", "judge, shared", "people, shared", "both, shared", "kappa", "95 %")
    table = Table(
        "error", *(Column(head, justify="right") for head in heads[: 6 if agreements else 1])
    )
    for key, title in ERRORS.items():
        cells = [str(sum(key in plan.judge for plan in judged if plan.judge is not None))]
        if agreements:
            people, judge, in_both, agreement = agreements[key]
            kappa = agreement.kappa_unweighted
            cells += [str(judge), str(people), str(in_both)]
            cells += (
                ["n/a", "n/a"]
                if kappa is None
                else [f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"]
            )
        table.add_row(title, *cells)
    Console().print(table)
    shared = sum(plan.people is not None and plan.judge is not None for plan in judged)
    rated = sum(plan.judge is not None for plan in judged)
    names = ", ".join(dict.fromkeys(plan.judge_model for plan in judged))
    if shared:
        typer.echo(
            f"kappa n/a: fewer than {MIN_ITEMS} plans marked by both, or one side marks "
            "all plans the same"
        )
    typer.echo(
        f"Plans judged: {rated} of {len(judged)}; shared, also marked by people: "
        f"{shared}. Judge: {names}"
    )


def evaluate_classifier(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help=_TEXTS["evaluate_classifier_model"])
    ],
    plans: LabelledPlans,
    activities: Splits,
    split: Annotated[Literal["val", "test"], typer.Option(help="Split to evaluate.")],
) -> None:
    """Measure a classifier's agreement with people on ActPlan-1K's plans, next to the paper's Table
    5.

    Compare each accuracy with those of the rules that need no classifier: "majority" always gives
    the more frequent label, and "right if equal to a gold plan" calls exactly the plans correct
    that equal a gold plan of their instance. The pair's gold plan is the one that the classifier
    sees; the authors pair a plan with the other model's gold plan.

    Example: `lmms-egoplan evaluate actplan-bleurt classifier finetuning_data.jsonl activities.txt
    --split val`
    """
    classifier = bleurt.load_classifier(model)
    scores, unknown = bleurt.evaluate_bleurt(classifier, plans, activities, split)
    for activity, count in unknown.items():
        typer.echo(
            f"Skipped: {count} instances of {activity}, which is not listed in {activities}",
            err=True,
        )
    _print_table(classifier.name, scores, split)
    typer.echo(f"Trained with {classifier.pairs}")


def _print_table(
    name: str, by_model: dict[str, bleurt.SourceScores], split: Literal["val", "test"]
) -> None:
    table = Table(Column("", no_wrap=True), *by_model)
    scores = by_model.values()
    table.add_row("plans", *(str(score.plans) for score in scores))
    table.add_row(f"{name}: accuracy", *(f"{score.accuracy:.1%}" for score in scores))
    table.add_row("majority", *(f"{score.majority:.1%}" for score in scores))
    table.add_row(
        "right if equal to a gold plan", *(f"{score.equal_to_gold:.1%}" for score in scores)
    )
    table.add_row(
        "right if equal to the pair's gold plan",
        *(f"{score.equal_to_paired_gold:.1%}" for score in scores),
    )
    table.add_row(
        f"{name}: MCC", *("n/a" if score.mcc is None else f"{score.mcc:.3f}" for score in scores)
    )
    table.add_row(
        "called correct: right, wrong",
        *(f"{score.true_correct}, {score.false_correct}" for score in scores),
    )
    table.add_row(
        "called wrong: right, wrong",
        *(f"{score.true_wrong}, {score.false_wrong}" for score in scores),
    )
    table.add_row("pairs cut", *(str(score.truncated) for score in scores), end_section=True)
    for paper, rows in TABLE_5.items():
        published = [rows[source] for source in by_model]
        table.add_row(
            f"paper's {paper}: accuracy", *(f"{row[f'{split}_acc']}%" for row in published)
        )
        if split == "val":
            table.add_row(f"paper's {paper}: MCC", *(f"{row['mcc']:.3f}" for row in published))
    Console().print(table)
    if any(score.mcc is None for score in scores):
        typer.echo("MCC n/a: all labels or all verdicts are the same")


def goal_check(
    plans: LabelledPlans,
    bddl: Annotated[Path, typer.Option(metavar="DIR", help=_TEXTS["goal_check_bddl"])],
) -> None:
    """Compare ActPlan-1K's goal check with people's verdicts on published plans.

    The check executes a plan on its activity's BDDL problem. It calls a plan correct if the plan
    reaches all goal conditions that can be checked. A plan has no value if the check finds no such
    condition, understands no step, or matches no name in the problem.

    The check's vocabulary comes from the plans of the train and val activities, so results on these
    are in-sample.

    Example: `lmms-egoplan evaluate actplan-goal-check finetuning_data.jsonl --bddl
    bddl/activity_definitions`
    """
    checked, reasons = check_labelled(read_labelled_plans(plans), bddl)
    groups = {"all plans": checked} | {
        name: [plan for plan in checked if plan.setting == name] for name in SETTINGS
    }
    figures = {name: agreement(members) for name, members in groups.items() if members}
    table = Table(Column("", no_wrap=True), *(Column(name, justify="right") for name in figures))
    for field, title in _TEXTS["agreement"].items():
        table.add_row(title, *(_cell(group_figures[field]) for group_figures in figures.values()))
    Console().print(table)
    if reasons:
        count = sum(plan.check is None for plan in checked)
        typer.echo(f"Without a BDDL problem: {count} plans: {join_list(reasons, _MOST_LISTED)}")


def metrics_path() -> None:
    """Print the folder that contains the Hugging Face evaluate metrics `actplan_lcs` and
    `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...],
    references=[...])`
    """
    typer.echo(METRICS)


def _cell(value: float | None) -> str:
    return "" if value is None else str(value) if isinstance(value, int) else f"{value:.3f}"
