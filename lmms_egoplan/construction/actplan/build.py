"""From BDDL activities and tours to instances, as far as the answers of people reach (sec. 3.2 and 3.3)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.actplan_circumstances import (
    CIRCUMSTANCES,
    Circumstance,
)
from lmms_egoplan.benchmarks.actplan.activities import ACTIVITY_TYPES, activity_type
from lmms_egoplan.construction.actplan.circumstances import CATEGORIES, change, propose, read_verdicts
from lmms_egoplan.construction.actplan.folders import alone
from lmms_egoplan.construction.actplan.layout import (
    Instance,
    finished,
    read_gold_plans,
    write_activities,
    write_annotation,
)
from lmms_egoplan.construction.actplan.prompts import DEFAULT_MODEL, object_names
from lmms_egoplan.construction.actplan.soundness import unreached
from lmms_egoplan.construction.actplan.sources import Activity, read_activities, read_examples
from lmms_egoplan.construction.actplan.texts import describe
from lmms_egoplan.construction.actplan.tours import find_tours
from lmms_egoplan.construction.actplan.views import Views, choose_views, read_choices
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.judging.asking import Asking
from lmms_egoplan.judging.json_replies import language_model
from lmms_egoplan.rejections import Rejection, counted, rejection_lines
from lmms_egoplan.text import clean_text, csv_text

INSTANCES, VIEWS, ACTIVITIES, FIGURE_4, REJECTIONS = (
    "instances.jsonl",
    "views",
    "activities",
    "figure_4.csv",
    "rejections.jsonl",
)
NO_ACTIVITY = "tour of an activity that has no description"


@dataclass(frozen=True)
class Built:
    """What a run has made.

    activities: with a description; changed problems are among them. waiting: circumstances for people to choose from.
    instances: with description and views. finished: how many of them have their gold plans, too. untoured: keys of
    activities with a description, but without a tour. unreached: by key, goal conditions that `soundness.unreached` did
    not reach.
    """

    activities: Sequence[Activity]
    waiting: Sequence[Circumstance]
    instances: Sequence[Instance]
    finished: int
    untoured: Sequence[str]
    unreached: Mapping[str, Sequence[str]]
    rejections: Sequence[Rejection]

    def left_out(self) -> list[tuple[str, int]]:
        """How much was left out, by reason, in the order of the steps."""
        return counted(self.rejections)


def build(
    bddl: Path,
    out: Path,
    images: Path | None = None,
    examples: Path | None = None,
    model: str | None = None,
    circumstances: Path | None = None,
    views: Path | None = None,
    plans: Path | None = None,
    asking: Asking | None = None,
) -> Built:
    """Make what can be made so far, and write it; without `images`, or `plans`, what they gave before stays.

    What the language model replies is kept in the cache of judgements, and views in ``out``: a later run asks for
    nothing again, whether it was killed or has more answers of people.

    Args:
        bddl: see `read_activities`.
        images: see `find_tours`; None: no instance is made.
        examples: see `read_examples`; None for `bddl`.
        model: that is asked; see `language_model`.
        circumstances: export of what people chose; see `read_verdicts`.
        views: see `read_choices`.
        plans: export of what people wrote; see `read_gold_plans`.
        asking: how the language model is asked.

    Raises:
        LmmsEgoplanError: an input is wrong, the language model is not set or cannot be asked, or another process builds
            in ``out``.
        OSError: the folder cannot be written.
    """
    settings = language_model(DEFAULT_MODEL, model, asking)
    activities, rejections = read_activities(bddl)
    pairs = read_examples(examples or bddl)
    verdicts = None if circumstances is None else read_verdicts(circumstances)
    choices = {} if views is None else read_choices(views)
    gold = {} if plans is None else read_gold_plans(plans)
    tours, strays = ([], []) if images is None else find_tours(images)
    if unknown := sorted(choices.keys() - {str(tour.id) for tour in tours}):
        raise LmmsEgoplanError(f"{views}: views of {unknown[0]}, of which there is no tour in {images}")
    with alone(out):
        texts, undescribed = describe(activities, pairs, settings)
        rejections += undescribed
        proposed, unproposed = propose(activities, texts, settings)
        rejections += unproposed
        if verdicts is not None:
            changed, unchanged = change(activities, verdicts.accepted, settings)
            more, undescribed = describe(changed, pairs, settings)
            activities, texts = [*activities, *changed], texts | more
            rejections += [*verdicts.others, *unchanged, *undescribed]

        described = {activity.key: activity for activity in activities if activity.key in texts}
        wanted = [(tour, f"{tour.id.activity}/{tour.id.description}") for tour in tours]
        rejections += strays
        rejections += [Rejection("tour", NO_ACTIVITY, str(tour.id)) for tour, key in wanted if key not in described]
        chosen, unchosen = choose_views(
            [(tour, described[key]) for tour, key in wanted if key in described],
            choices,
            out / VIEWS,
            settings,
        )
        rejections += unchosen
        settings.asking.finish_estimate()
        instances = [_instance(found, described, texts) for found in chosen]
        done, unused = finished(instances, gold)
        rejections += unused
        toured = {key for _, key in wanted}
        built = Built(
            list(described.values()),
            proposed,
            instances,
            len(done),
            [key for key in described if key not in toured],
            {key: missed for key, activity in described.items() if (missed := unreached(activity.problem))},
            rejections,
        )
        _write(built, texts, out)
        if images is not None:
            write_whole(out / INSTANCES, clean_text(json_lines(_queue(instances, out))))
        if plans is not None:
            write_annotation(done, out)
        return built


def _instance(views: Views, activities: dict[str, Activity], texts: dict[str, str]) -> Instance:
    key = f"{views.tour.id.activity}/{views.tour.id.description}"
    return Instance(activities[key], texts[key], views)


def _queue(instances: Sequence[Instance], out: Path) -> Iterator[dict[str, Any]]:
    """What people who write gold plans are shown, and what else is known of an instance's views."""
    for one in instances:
        yield {
            "id": one.id,
            "description": one.text,
            "objects": object_names(one.activity.problem),
            "problem": str(one.activity.problem),
            "images": [str(path.relative_to(out)) for path in one.image_paths()],
            "views": [asdict(view) for view in one.views.views],
            "unseen": one.views.unseen,
        }


def _write(built: Built, texts: dict[str, str], out: Path) -> None:
    """What hangs on neither tours nor gold plans, each file whole or not at all."""
    write_activities(built.activities, texts, out / ACTIVITIES)
    write_whole(out / CIRCUMSTANCES, clean_text(json_lines(map(vars, built.waiting))))
    write_whole(out / FIGURE_4, csv_text(_figure_4(built.activities)))
    write_whole(out / REJECTIONS, clean_text(rejection_lines(built.rejections)))
    made = [
        {"activity": one.name, "circumstance": one.circumstance, "category": one.category, "problem": str(one.problem)}
        for one in built.activities
        if one.circumstance
    ]
    write_whole(out / "counterfactuals.jsonl", clean_text(json_lines(made)))


def _figure_4(activities: Sequence[Activity]) -> list[list[str | int]]:
    """Counterfactual activities by category and type of activity, as Fig. 4 counts them."""
    counts = Counter((one.category, activity_type(one.name)) for one in activities if one.category)
    rows: list[list[str | int]] = [["category", *ACTIVITY_TYPES]]
    return rows + [[category, *(counts[category, kind] for kind in ACTIVITY_TYPES)] for category in CATEGORIES]
