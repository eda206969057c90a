"""Define ActPlan-1K's commands: data prepare, score, judge, evaluate and metrics-path."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Column, Table

from lmms_egoplan.benchmarks import actplan
from lmms_egoplan.benchmarks.actplan.classifier import (
    NO_CLASSIFIER,
    classifier_path,
    load_classifier,
)
from lmms_egoplan.benchmarks.actplan.classifier_agreement import SourceScores, evaluate_bleurt
from lmms_egoplan.benchmarks.actplan.instances import (
    activity_type,
    instances_of,
    parse_id,
)
from lmms_egoplan.benchmarks.actplan.metrics import BREAKDOWNS, by_group, length_bin
from lmms_egoplan.benchmarks.actplan.plans import (
    ERRORS,
    VERDICTS,
    StoredPlan,
    read_plans,
)
from lmms_egoplan.benchmarks.actplan.prepare import LABELS, prepare_actplan
from lmms_egoplan.benchmarks.actplan.scoring import PlanScore, score_plans
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.asking import EstimateOnly, LlmUsage, MaxCost, MaxRequests, Prices, Retry
from lmms_egoplan.judging.settings import DEFAULT_MODEL, language_model
from lmms_egoplan.options import Instances, LabelledPlans, OutFile, OutFolder, Overwrite, Splits
from lmms_egoplan.outputs import output_file, output_folder
from lmms_egoplan.prepared_counts import SkipMissing, print_counts, print_question_sets
from lmms_egoplan.report.actplan import error_judge, marks
from lmms_egoplan.report.actplan.figure_4 import described_activities, write_prepared_figure_4
from lmms_egoplan.report.document import write_figure
from lmms_egoplan.report.published import load_table
from lmms_egoplan.report.samples import MARK, write_folder
from lmms_egoplan.stats.agreement import MIN_ITEMS
from lmms_egoplan.storage import split_dir, summary_path

METRICS = Path(actplan.__file__).resolve().with_name("evaluate_metrics")
# Most instances or problems to list on one line.
_MOST_LISTED = 5


# Titles of the measures, in the order in which they are printed.
_MEASURES = {
    "lcs": "LCS",
    "lcs_norm": "normalised",
    "lcs_norm_gold_2": "normalised, gold plan 2",
    "lcs_norm_best": "normalised, better of the two",
    "lcs_parsed": "LCS, parsed",
    "lcs_norm_parsed": "normalised, parsed",
    "form_validity": "valid form",
    "plan_length": "steps",
    "bleurt_correct": "called correct",
    "correct": "correct (people)",
    "commonsense": "commonsense (people)",
}
# Measures that are also printed for every group.
_MEASURES_BY_GROUP = (
    "lcs",
    "lcs_norm",
    "lcs_norm_gold_2",
    "lcs_norm_best",
    "lcs_norm_parsed",
    "correct",
)
# Titles of the groupings, in the order in which they are printed.
_GROUPINGS = {
    "model": "model",
    "setting": "setting",
    "length": "gold steps",
    "activity_type": "activity type",
}
# Remarks on numbers of plans. Each is printed if its number is not 0.
_REMARKS = {
    "empty": "Empty plans, which score 0",
    "ends_in_thought": "Empty because the reply ends inside a thought",
    "unparsed": "Plans without a step in the parsed reading",
    "repeated_ids": "Plans with a duplicate id",
}


def _table_5() -> dict[str, dict[str, Mapping[str, Any]]]:
    """Read Table 5: the rows of each classifier by the model that wrote the plans.

    A row has Matthews' correlation on val, and accuracies in percent.
    """
    table: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in load_table("actplan", "table5").rows:
        table.setdefault(str(row["model"]), {})[str(row["vlm"])] = row
    return table


TABLE_5 = _table_5()


def prepare(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder that contains `<scene>/<activity>/<n>/sample_<k>/`."
        ),
    ],
    skip_missing: SkipMissing = False,
    bddl: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help=(
                "Folder of activities (bddl/activity_definitions in ActPlan-1K's repository), "
                "whose counterfactual ones Fig. 4 shows, too."
            ),
        ),
    ] = None,
) -> None:
    """Prepare ActPlan-1K from its full release.

    Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`

    - The full release calls this folder `annotation`. Find the link to the release at
      https://github.com/HKUST-KnowComp/ActPlan-1K
    """
    described = None if bddl is None else described_activities(bddl)
    summary = prepare_actplan(source, skip_missing=skip_missing)
    write_prepared_figure_4(described)
    print_counts(summary["counts"], LABELS, "source", "source")
    print_question_sets(summary)
    _print_gaps(summary)


def _print_gaps(summary: Mapping[str, Any]) -> None:
    """Print what prepared data lack, and where they are."""
    path = summary_path(summary["benchmark"], summary["split"])
    typer.echo(
        f"Gold plan 1 is missing in {summary['without_gold_plan_1']} of {summary['questions']} "
        f"prepared instances, gold plan 2 in {summary['without_gold_plan_2']}. Mean steps count "
        "gold plan 1; the paper does not say which one it counts."
    )
    if summary["missing"]:
        skipped = summary["split_size"] - summary["questions"]
        typer.echo(
            f"Skipped: {skipped} instances ({len(summary['missing'])} folders; {path} lists the "
            f"reasons under missing). Results will cover {summary['questions']} of "
            f"{summary['split_size']} instances."
        )
    if summary["images_outside"]:
        _print_unusual_images(summary, path)
    folder = split_dir(summary["benchmark"], summary["split"])
    typer.echo(f"Written to {folder}, with Fig. 4 (figure_4.png, .csv)")


def _print_unusual_images(summary: Mapping[str, Any], path: Path) -> None:
    """Print the instances with another number of images than the paper states."""
    instances = summary["images_outside"]
    examples = ", ".join(
        f"{instance['folder']} ({instance['images']})" for instance in instances[:_MOST_LISTED]
    )
    num_more = len(instances) - _MOST_LISTED
    if num_more > 0:
        examples += f" and {num_more} more, all listed under images_outside in {path}"
    typer.echo(
        f"The paper states 2 to 5 images per instance. {len(instances)} of {summary['split_size']} "
        f"instances differ: {examples}. Only instances without any image are skipped for this."
    )


def score(
    plans: Annotated[
        Path,
        typer.Argument(
            metavar="PLANS",
            help=(
                'JSON lines: {"id": ..., "candidate": ..., "references": [...]}. Each plan is a '
                "text; references are gold plans 1, 2, ... Optional human labels: "
                '"correct" and "commonsense". The authors\' finetuning_data.jsonl also works.'
            ),
        ),
    ],
    out: OutFile,
    overwrite: Overwrite = False,
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
    with output_file(out, [plans], overwrite=overwrite, also=_figure_5_paths(out)):
        scores = score_stored(read_plans(plans))
        write_whole(out, json.dumps(scores, indent=1, ensure_ascii=False) + "\n")
        _print_scores(scores["summary"])
        typer.echo(f"Written to {out}")
        _write_figure_5(out, scores["samples"])


def _figure_5_paths(out: Path) -> tuple[Path, Path]:
    """Return the paths of the figure, next to the file of scores: PNG and SVG."""
    key = f"{out.stem}_figure_5"
    return out.with_name(f"{key}.png"), out.with_name(f"{key}.svg")


def _write_figure_5(out: Path, samples: Sequence[Mapping[str, Any]]) -> None:
    """Draw people's verdicts by length next to the file of scores; nothing without verdicts."""
    labelled = [{"model": "plans", **sample} for sample in samples if "correct" in sample]
    figure = marks.length_figure(marks.correct_by_length(labelled))
    picture, drawing = _figure_5_paths(out)
    if figure is not None:
        write_figure(out.parent, replace(figure, key=picture.stem))
        typer.echo(f"Correctness by people and length (Fig. 5): {picture}")
    else:  # Delete the figure of earlier scores, which --overwrite allows.
        picture.unlink(missing_ok=True)
        drawing.unlink(missing_ok=True)


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
    scores = score_plans([entry.plan for entry in stored], classifier=classifier_path())
    samples = [_sample(entry, score) for entry, score in zip(stored, scores, strict=True)]
    names = (*scores[0].measures(), "bleurt_correct", *VERDICTS)
    classifier = scores[0].classifier
    if classifier:
        classifier = f"{classifier}: {scores[0].classifier_name}"
    summary = {
        **_summary(samples, names),
        "repeated_ids": len(stored) - len({(entry.plan.id, entry.model) for entry in stored}),
        "empty": sum(not score.official for score in scores),
        "ends_in_thought": sum(entry.ends_in_thought for entry in stored),
        "unparsed": sum(not score.parsed for score in scores),
        "encoder": scores[0].encoder,
        "classifier": classifier,
    }
    for name in (*BREAKDOWNS, "model"):
        groups = by_group([sample for sample in samples if name in sample], name)
        if groups:
            summary[f"by_{name}"] = {
                group: _summary(members, names) for group, members in groups.items()
            }
    return {"samples": samples, "summary": summary}


def _sample(stored: StoredPlan, score: PlanScore) -> dict[str, Any]:
    """Return the record of one plan in the file of scores; the order of its fields is fixed."""
    fields = asdict(score)
    lines = fields.pop("reference_lines")
    steps = fields.pop("reference_lengths")
    sample: dict[str, Any] = {"id": score.id}
    if stored.model is not None:
        sample["model"] = stored.model
    sample |= score.measures()
    sample["lengths"] = {"candidate": len(score.official), "references": lines or steps}
    sample |= fields
    instance = parse_id(stored.plan.id)
    if instance is not None:
        sample["setting"] = instance.setting
        sample["activity_type"] = activity_type(instance.activity)
    sample["length"] = length_bin(score.reference_lengths[0])
    for name, label in stored.labels.items():
        if label is not None:
            sample[name] = label
    return sample


def _summary(samples: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Count plans and labels, and average each measure over the plans for which it is defined."""
    summary: dict[str, Any] = {"plans": len(samples)}
    num_defined: dict[str, int] = {}
    for name in names:
        field = "bleurt" if name == "bleurt_correct" else name
        values = [sample.get(field) for sample in samples]
        defined = [float(value) for value in values if value is not None]
        summary[name] = fmean(defined) if defined else None
        num_defined[name] = len(defined)
    summary["labelled"] = {name: num_defined[name] for name in VERDICTS}
    return summary


def _print_scores(summary: dict[str, Any]) -> None:
    """Print the table of all plans, the table of groups, remarks, and the two models."""
    Console().print(_table_of_all(summary), _table_of_groups(summary))
    for name, remark in _REMARKS.items():
        if summary[name]:
            typer.echo(f"{remark}: {summary[name]}")
    typer.echo(f"Encoder: {summary['encoder']}")
    typer.echo(f"Classifier: {summary['classifier'] or NO_CLASSIFIER}")


def _table_of_all(summary: Mapping[str, Any]) -> Table:
    """List every measure that is defined for some plan."""
    table = Table("all plans", Column("", justify="right", no_wrap=True))
    table.add_row("plans", str(summary["plans"]))
    for name, title in _MEASURES.items():
        if summary[name] is None:
            continue
        if name in summary["labelled"]:
            title = f"{title}, of {summary['labelled'][name]}"
        table.add_row(title, _cell(summary[name]))
    return table


def _table_of_groups(summary: Mapping[str, Any]) -> Table:
    """List the main measures of every group of plans."""
    measures = [name for name in _MEASURES_BY_GROUP if summary[name] is not None]
    titles = ["plans", *(_MEASURES[name] for name in measures)]
    table = Table(Column("by", no_wrap=True), *(Column(title, justify="right") for title in titles))
    for grouping, title in _GROUPINGS.items():
        groups = summary.get(f"by_{grouping}", {})
        if groups:
            table.add_row(title)
        for group, values in groups.items():
            cells = [_cell(values[name]) for name in measures]
            table.add_row(f"  {group}", str(values["plans"]), *cells)
        table.add_section()
    return table


def judge(
    plans: Annotated[
        list[Path],
        typer.Argument(
            metavar="PLANS",
            help=(
                "Plans in the format of `score actplan`. Plans that people called correct are "
                "skipped. If you pass `plans.jsonl` from `annotate export`, the judge is compared "
                "with the annotators' error types."
            ),
        ),
    ],
    out: OutFolder,
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
    with output_folder(out, "judge actplan", [MARK, error_judge.JUDGED_ERRORS]):
        asking = LlmUsage(
            retry_rejected,
            estimate,
            prices,
            probes=True,
            max_requests=max_requests,
            max_cost=max_cost,
        )
        settings = language_model(DEFAULT_MODEL, asking=asking)
        stored = [(plan.model or path.stem, plan) for path in plans for plan in read_plans(path)]
        wrong = [(model, plan) for model, plan in stored if not plan.labels["correct"]]
        if not wrong:
            raise LmmsEgoplanError(
                f"people called all {len(stored)} plans correct; nothing to judge"
            )
        judged = error_judge.judge_errors(
            wrong, instances_of({plan.plan.id for _, plan in wrong}, instances), settings
        )
        settings.asking.finish_estimate()
        lines = json_lines(plan.model_dump() for plan in judged)
        write_folder(out, "actplan", {error_judge.JUDGED_ERRORS: lines})
        _print_errors(judged)
        typer.echo(
            f"Skipped because people called them correct: {len(stored) - len(wrong)} of "
            f"{len(stored)} plans"
        )
        typer.echo(f"Written to {out / error_judge.JUDGED_ERRORS}")
        settings.asking.print_cost()
        unjudged = [plan for plan in judged if plan.judge is None]
        if unjudged:
            raise LmmsEgoplanError(
                f"{len(unjudged)} of {len(judged)} plans are not judged, for example "
                f"{unjudged[0].id} of {unjudged[0].model}: {unjudged[0].error}. Repeat the command "
                "to retry plans without a reply; add --retry-rejected to also retry unusable "
                "replies"
            )


def _print_errors(judged: list[error_judge.JudgedPlan]) -> None:
    """Print the number of plans with each type of error, and the judge's agreement with people."""
    agreements = error_judge.agreements(judged)
    titles = ["judge"]
    if agreements:
        titles += ["judge, shared", "people, shared", "both, shared", "kappa", "95 %"]
    table = Table("error", *(Column(title, justify="right") for title in titles))
    for key, title in ERRORS.items():
        cells = [str(sum(key in plan.judge for plan in judged if plan.judge is not None))]
        if agreements:
            num_people, num_judge, num_both, shared = agreements[key]
            cells += [str(num_judge), str(num_people), str(num_both)]
            kappa = shared.kappa_unweighted
            if kappa is None:
                cells += ["n/a", "n/a"]
            else:
                cells += [f"{kappa.value:.2f}", f"{kappa.low:.2f} to {kappa.high:.2f}"]
        table.add_row(title, *cells)
    Console().print(table)
    num_shared = sum(plan.people is not None and plan.judge is not None for plan in judged)
    num_judged = sum(plan.judge is not None for plan in judged)
    names = ", ".join(dict.fromkeys(plan.judge_model for plan in judged))
    if num_shared:
        typer.echo(
            f"kappa n/a: fewer than {MIN_ITEMS} plans marked by both, or one side marks "
            "all plans the same"
        )
    typer.echo(
        f"Plans judged: {num_judged} of {len(judged)}; shared, also marked by people: "
        f"{num_shared}. Judge: {names}"
    )


def evaluate_classifier(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Classifier folder written by `lmms-egoplan train actplan-bleurt`.",
        ),
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
    classifier = load_classifier(model)
    scores, unknown = evaluate_bleurt(classifier, plans, activities, split)
    for activity, count in unknown.items():
        typer.echo(
            f"Skipped: {count} instances of {activity}, which is not listed in {activities}",
            err=True,
        )
    _print_table(classifier.name, scores, split)
    typer.echo(f"Trained with {classifier.pairs}")


def _print_table(
    name: str, by_model: dict[str, SourceScores], split: Literal["val", "test"]
) -> None:
    """Print a classifier's scores on each model's plans, above the paper's."""
    scores = by_model.values()
    table = Table(Column("", no_wrap=True), *by_model)
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
        accuracies = [f"{row[f'{split}_acc']}%" for row in published]
        table.add_row(f"paper's {paper}: accuracy", *accuracies)
        if split == "val":
            table.add_row(f"paper's {paper}: MCC", *(f"{row['mcc']:.3f}" for row in published))
    Console().print(table)
    if any(score.mcc is None for score in scores):
        typer.echo("MCC n/a: all labels or all verdicts are the same")


def metrics_path() -> None:
    """Print the folder that contains the Hugging Face evaluate metrics `actplan_lcs` and
    `actplan_classifier`.

    Example: `METRICS=$(lmms-egoplan metrics-path actplan)`

    In Python: `evaluate.load(f"{METRICS}/actplan_lcs").compute(predictions=[...],
    references=[...])`
    """
    typer.echo(METRICS)


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    return f"{value:.3f}"
