"""Build instances from BDDL activities and tours (sec. 3.2 and 3.3).

They are built as far as people have answered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.actplan_circumstances import CIRCUMSTANCES, Circumstance
from lmms_egoplan.construction.actplan import layout
from lmms_egoplan.construction.actplan.activities import (
    Activity,
    describe,
    read_activities,
    read_examples,
    without_instruction,
)
from lmms_egoplan.construction.actplan.circumstances import (
    CATEGORIES,
    change,
    propose,
    read_verdicts,
)
from lmms_egoplan.construction.actplan.conditions import Advice, Description, advise
from lmms_egoplan.construction.actplan.prompts import object_names
from lmms_egoplan.construction.actplan.tours import find_tours
from lmms_egoplan.construction.actplan.views import choose_views, read_choices
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.printing import finish_estimate
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.rejections import Rejection, counted
from lmms_egoplan.report.actplan.figure_4 import write_figure_4
from lmms_egoplan.text import clean_text

# Output files.
INSTANCES = "instances.jsonl"
REJECTIONS = "rejections.jsonl"
COUNTERFACTUALS = "counterfactuals.jsonl"
ADVICE = "advice.jsonl"
FILES = (
    ADVICE,
    CIRCUMSTANCES,
    REJECTIONS,
    COUNTERFACTUALS,
    "figure_4.csv",
    "figure_4.png",
    "figure_4.svg",
)
"""The files that every run writes, except those in folders."""
NO_ACTIVITY = "tour of an activity without a description"


@dataclass(frozen=True)
class Built:
    """The output of a run.

    activities: Activities with a description, including changed problems.
    advice: The language model's advice on each description.
    waiting: Circumstances for people to choose from.
    instances: Instances with description and views.
    finished: Number of instances that also have gold plans.
    untoured: Keys of activities with a description, but without a tour.
    rejections: Rejected inputs and replies.
    """

    activities: Sequence[Activity]
    advice: Sequence[Advice]
    waiting: Sequence[Circumstance]
    instances: Sequence[layout.Instance]
    finished: int
    untoured: Sequence[str]
    rejections: Sequence[Rejection]


def build_instances(
    bddl: Path,
    out: Path,
    settings: JudgeSettings,
    images: Path | None,
    examples: Path | None,
    circumstances: Path | None,
    views: Path | None,
    plans: Path | None,
) -> Built:
    """Build everything that is possible so far, and write it.

    Without `images` or `plans`, earlier output is kept.

    Replies of the language model are cached like those of a judge, and views are stored in `out`.
    Later runs repeat no answered request, whether they resume an interrupted run or add new answers
    from people.

    Args:
        bddl: Passed to `read_activities`.
        out: Output folder.
        settings: Settings of the language model.
        images: Passed to `find_tours`; None builds no instance.
        examples: Passed to `read_examples`; None means `bddl`.
        circumstances: Export of the chosen circumstances, passed to `read_verdicts`.
        views: Passed to `read_choices`.
        plans: Export of the written plans, passed to `read_gold_plans`.

    Raises:
        LmmsEgoplanError: An input is invalid, or the language model is not set or cannot be asked.
        OSError: The folder cannot be written.
    """
    activities, rejections = read_activities(bddl)
    pairs = read_examples(examples or bddl)
    accepted, refused = read_verdicts(circumstances) if circumstances else ([], [])
    choices = read_choices(views) if views else {}
    gold = layout.read_gold_plans(plans) if plans else {}
    tours, strays = find_tours(images) if images else ([], [])
    unknown = sorted(choices.keys() - {str(tour.id) for tour in tours})
    if unknown:
        raise LmmsEgoplanError(
            f"{views}: {unknown[0]} has no tour; set --images to a folder with its tour"
        )
    texts, undescribed = describe(activities, pairs, settings)
    waiting, unproposed = propose(activities, texts, settings)
    rejections += [*undescribed, *unproposed]
    if circumstances is not None:
        changed, unchanged = change(activities, accepted, settings)
        changed_texts, undescribed = describe(changed, pairs, settings)
        activities = [*activities, *changed]
        texts = texts | changed_texts
        rejections += [*refused, *unchanged, *undescribed]
    described = {activity.key: activity for activity in activities if activity.key in texts}
    advice, unadvised = _advise(described, texts, settings)
    rejections += unadvised
    usable_tours = [
        (tour, described[tour.activity]) for tour in tours if tour.activity in described
    ]
    all_views, unchosen = choose_views(usable_tours, choices, out / "views", settings)
    finish_estimate(settings.usage)
    instances = [
        layout.Instance(
            described[tour_views.tour.activity], texts[tour_views.tour.activity], tour_views
        )
        for tour_views in all_views
    ]
    finished_instances, unused_plans = layout.finished(instances, gold)
    undescribed = [
        Rejection("tour", NO_ACTIVITY, str(tour.id))
        for tour in tours
        if tour.activity not in described
    ]
    rejections += [*strays, *undescribed, *unchosen, *unused_plans]
    toured = {tour.activity for tour in tours}
    built = Built(
        activities=list(described.values()),
        advice=advice,
        waiting=waiting,
        instances=instances,
        finished=len(finished_instances),
        untoured=[key for key in described if key not in toured],
        rejections=rejections,
    )
    _write(built, texts, out)
    if images is not None:
        write_whole(out / INSTANCES, clean_text(json_lines(_queue(instances, out))))
    if plans is not None:
        layout.write_annotation(finished_instances, out)
    return built


def _advise(
    activities: Mapping[str, Activity], texts: Mapping[str, str], settings: JudgeSettings
) -> tuple[list[Advice], list[Rejection]]:
    """Ask for advice on the descriptions of activities, by key."""
    descriptions = {}
    for key, activity in activities.items():
        text = without_instruction(texts[key])
        descriptions[key] = Description(activity.problem, text, activity.changes)
    return advise(descriptions, settings)


def summary_lines(
    built: Built,
    out: Path,
    *,
    are_circumstances_chosen: bool,
    are_tours_given: bool,
    are_plans_written: bool,
) -> Iterator[str]:
    """Yield the lines that the command prints: what was built, and what to do next.

    Args:
        built: The output of `build_instances`.
        out: Output folder.
        are_circumstances_chosen: Whether the run had people's choice of circumstances.
        are_tours_given: Whether the run had tours.
        are_plans_written: Whether the run had people's gold plans.
    """
    for reason, count in counted(built.rejections):
        yield f"Skipped: {count}: {reason}"
    yield f"Details: {out / REJECTIONS}"
    num_missing = sum(len(advice.missing) for advice in built.advice)
    num_contradicted = sum(len(advice.contradicted) for advice in built.advice)
    yield (
        f"Advice of the language model, whose accuracy was not measured: in "
        f"{sum(map(bool, built.advice))} of {len(built.advice)} descriptions, {num_missing} "
        f"conditions are missing and {num_contradicted} contradicted; see {out / ADVICE}"
    )
    if built.waiting and not are_circumstances_chosen:
        yield (
            f"Next: let people choose among {len(built.waiting)} circumstances: lmms-egoplan "
            f"annotate actplan-circumstances {out / CIRCUMSTANCES} --db circumstances.sqlite"
        )
    if not are_tours_given:
        yield f"Next: pass tours of the {len(built.activities)} activities with --images"
    elif built.untoured:
        yield f"Without a tour: {len(built.untoured)} activities, for example {built.untoured[0]}"
    if built.instances and not are_plans_written:
        yield (
            f"Next: let people write gold plans for {len(built.instances)} instances: "
            f"lmms-egoplan annotate actplan-plans {out / INSTANCES} --db plans.sqlite"
        )
    if built.finished:
        yield f"Next: lmms-egoplan data prepare actplan {out / layout.ANNOTATION}"
    changed = sum(bool(activity.circumstance) for activity in built.activities)
    yield (
        f"{len(built.activities)} activities described, {changed} of them changed by a "
        f"circumstance; {len(built.instances)} instances with views, {built.finished} with "
        f"gold plans; written to {out}"
    )


def _queue(instances: Sequence[layout.Instance], out: Path) -> Iterator[dict[str, Any]]:
    """Yield the items of the page for gold plans.

    Each is an instance with its images and the details of its views.
    """
    for instance in instances:
        yield {
            "id": instance.id,
            "description": instance.text,
            "objects": object_names(instance.activity.problem),
            "problem": str(instance.activity.problem),
            "images": [str(path.relative_to(out)) for path in instance.image_paths],
            "views": [asdict(view) for view in instance.views.views],
            "unseen": instance.views.unseen,
        }


def _write(built: Built, texts: Mapping[str, str], out: Path) -> None:
    """Write the files that every run writes, each atomically."""
    layout.write_activities(built.activities, texts, out / "activities")
    write_whole(out / ADVICE, clean_text(json_lines(map(vars, built.advice))))
    write_whole(out / CIRCUMSTANCES, clean_text(json_lines(map(vars, built.waiting))))
    names: dict[str, list[str]] = {category: [] for category in CATEGORIES}
    for activity in built.activities:
        if activity.category in names:
            names[activity.category].append(activity.name)
    write_figure_4(out, names)
    write_whole(out / REJECTIONS, clean_text(json_lines(map(asdict, built.rejections))))
    changed = (
        {
            "activity": activity.name,
            "circumstance": activity.circumstance,
            "category": activity.category,
            "problem": str(activity.problem),
        }
        for activity in built.activities
        if activity.circumstance
    )
    write_whole(out / COUNTERFACTUALS, clean_text(json_lines(changed)))
