"""Two to five views of each instance, chosen by a vision-language model or by people, kept with their times (3.2)."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmms_egoplan.construction.actplan.folders import replacing
from lmms_egoplan.construction.actplan.prompts import object_names, seen_prompt
from lmms_egoplan.construction.actplan.sources import Activity
from lmms_egoplan.construction.actplan.tours import (
    Candidate,
    Tour,
    named_views,
    read_candidates,
    sharp_and_different,
    view_file,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode, read_json, read_text
from lmms_egoplan.judging import JudgeSettings
from lmms_egoplan.judging.json_replies import NO_REPLY, ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import cell_text
from lmms_egoplan.validation import is_text, shown

# Sec. 3.2: "Generally, 2 to 5 images are selected to cover the main contents".
FEWEST_VIEWS, MOST_VIEWS = 2, 5
# Candidates of a tour that a language model is shown, each in a request of its own; the project's.
_MOST_CANDIDATES = 12
# Tours whose candidates are in memory together.
_AT_ONCE = 32
_RECORD = "views.json"

TOO_FEW = f"tour with fewer than {FEWEST_VIEWS} sharp views that are not alike"


@dataclass(frozen=True)
class View:
    """One view of an instance.

    file: its name in the instance's folder.
    time: seconds in the touring video; None for an image of a folder.
    sharpness: see `tours.Candidate`.
    objects: that the language model saw in it; None where people chose.
    """

    file: str
    time: float | None
    sharpness: float
    objects: tuple[str, ...] | None


@dataclass(frozen=True)
class Views:
    """The views of an instance.

    folder: has their files.
    unseen: objects of the activity that the language model saw in none of them; None where people chose.
    """

    tour: Tour
    folder: Path
    views: tuple[View, ...]
    unseen: tuple[str, ...] | None


@dataclass(frozen=True)
class _Waiting:
    """A tour about which the language model is asked."""

    tour: Tour
    objects: list[str]
    mark: str
    candidates: list[Candidate]
    rejections: list[Rejection]


def read_choices(path: Path) -> dict[str, list[str]]:
    """Views that people chose, by instance: seconds in its video, or names of its images.

    Args:
        path: CSV with the columns ``id`` and ``view``, a row for each view; or a JSON object of lists.

    Raises:
        LmmsEgoplanError: the file cannot be read, or has not 2 to 5 views of an instance; names it.
    """
    choices: dict[str, list[str]] = {}
    if path.suffix.lower() == ".json":
        content = read_json(path, "views")
        if not isinstance(content, dict) or not all(isinstance(views, list) for views in content.values()):
            raise LmmsEgoplanError(
                f"{path}: expected an object with a list of views by instance, found {shown(content)}"
            )
        choices = {name: [str(view) for view in views] for name, views in content.items()}
    else:
        for number, row in enumerate(csv.DictReader(io.StringIO(read_text(path, "views"))), 2):
            name, view = row.get("id"), row.get("view")
            if not is_text(name) or not is_text(view):
                raise LmmsEgoplanError(f"{path}, line {number}: expected the columns id and view, found {shown(row)}")
            choices.setdefault(name, []).append(cell_text(view))
    for name, views in choices.items():
        if not FEWEST_VIEWS <= len(set(views)) <= MOST_VIEWS:
            raise LmmsEgoplanError(
                f"{path}: {name}: expected {FEWEST_VIEWS} to {MOST_VIEWS} different views, found {len(set(views))}"
            )
    return choices


def choose_views(
    tours: Sequence[tuple[Tour, Activity]],
    choices: Mapping[str, Sequence[str]],
    out: Path,
    settings: JudgeSettings,
) -> tuple[list[Views], list[Rejection]]:
    """Choose the views of tours, and keep them in ``out/<scene>/<activity>/<n>/sample_<k>``.

    Where people have not chosen, a vision-language model is asked about each sharp candidate which of the activity's
    objects it shows; taken is what shows most that no view before it does, then what is sharpest. Views that are kept
    of the same tour, for the same objects, model and choices, are not made again.

    Raises:
        LmmsEgoplanError: a view that people chose is not there.
        JudgeError: the model cannot be asked.
        OSError: the folder cannot be written.
    """
    kept: list[Views] = []
    rejections: list[Rejection] = []
    for start in range(0, len(tours), _AT_ONCE):
        waiting: list[_Waiting] = []
        for tour, activity in tours[start : start + _AT_ONCE]:
            key, objects = str(tour.id), object_names(activity.problem)
            by_hand = choices.get(key)
            mark = _mark(tour, by_hand, objects, settings)
            former = _kept(out, tour, mark)
            if former is not None and not (former[1] and settings.asking.retry_rejected):
                kept.append(former[0])
                rejections += former[1]
            elif by_hand is not None:
                kept.append(_keep(out, tour, mark, [(one, None) for one in named_views(tour, by_hand)], None, []))
            else:
                candidates, wrong = read_candidates(tour)
                left = sharp_and_different(candidates, _MOST_CANDIDATES)
                if len(left) < FEWEST_VIEWS:
                    told = f"{len(left)} of {len(candidates)} candidates"
                    rejections += [*wrong, Rejection("views", TOO_FEW, key, told)]
                else:
                    waiting.append(_Waiting(tour, objects, mark, left, wrong))
        if waiting:
            title = f"views of tours {start + 1} to {min(start + _AT_ONCE, len(tours))} of {len(tours)}"
            seen, wrong = _ask(waiting, settings, title)
            for one in waiting:
                found = _chosen(one, seen, wrong, out)
                kept += [found[0]] if found[0] is not None else []
                rejections += found[1]
    return sorted(kept, key=lambda views: views.tour.id), rejections


def cover(
    candidates: Sequence[tuple[Candidate, Sequence[str]]], objects: Sequence[str]
) -> tuple[list[tuple[Candidate, Sequence[str]]], list[str]]:
    """Two to five candidates that show the objects, in the tour's order, and the objects that none of them shows."""
    chosen: list[tuple[Candidate, Sequence[str]]] = []
    missing = set(objects)
    left = list(candidates)
    while left and len(chosen) < MOST_VIEWS:
        best = max(left, key=lambda one: (len(missing.intersection(one[1])), one[0].sharpness))
        if len(chosen) >= FEWEST_VIEWS and not missing.intersection(best[1]):
            break
        left.remove(best)
        chosen.append(best)
        missing.difference_update(best[1])
    return [one for one in candidates if one in chosen], [name for name in objects if name in missing]


def _ask(
    waiting: Sequence[_Waiting], settings: JudgeSettings, title: str
) -> tuple[dict[str, list[str]], list[Rejection]]:
    """The objects that each candidate shows, by its name."""
    asked: dict[str, list[str]] = {}
    prompts: dict[str, str | Prompt] = {}
    for one in waiting:
        for candidate in one.candidates:
            name = _name(one.tour, candidate)
            asked[name] = one.objects
            prompts[name] = Prompt(seen_prompt(one.objects), (jpeg_url(candidate.image, max(candidate.image.size)),))

    def read(name: str, reply: list[Any]) -> list[str]:
        if not all(shown_object in asked[name] for shown_object in reply):
            raise ValueError(f"expected some of the objects, found {shown(reply)}")
        return reply

    return ask_json("views", prompts, settings, title, kind=list, read=read)


def _chosen(
    one: _Waiting, seen: Mapping[str, list[str]], wrong: Sequence[Rejection], out: Path
) -> tuple[Views | None, list[Rejection]]:
    """The views of a tour, and what was left out."""
    own = [*one.rejections, *(left for left in wrong if left.where.startswith(f"{one.tour.id}, "))]
    known = [(it, seen[name]) for it in one.candidates if (name := _name(one.tour, it)) in seen]
    if len(known) < FEWEST_VIEWS:
        told = f"{len(known)} of {len(one.candidates)} candidates with a usable reply"
        return None, [*own, Rejection("views", TOO_FEW, str(one.tour.id), told)]
    chosen, unseen = cover(known, one.objects)
    # Where a reply did not come, the next run asks again.
    mark = "" if any(left.reason == NO_REPLY for left in own) else one.mark
    return _keep(out, one.tour, mark, chosen, unseen, own), own


def _name(tour: Tour, candidate: Candidate) -> str:
    return f"{tour.id}, {candidate.name}"


def _mark(tour: Tour, by_hand: Sequence[str] | None, objects: Sequence[str], settings: JudgeSettings) -> str:
    """What tells kept views from those of another tour or another choice."""
    model = None if by_hand is not None else settings.model
    told = json.dumps([tour.version(), by_hand, objects, model])
    return sha256(told.encode()).hexdigest()


def _keep(
    out: Path,
    tour: Tour,
    mark: str,
    chosen: Sequence[tuple[Candidate, Sequence[str] | None]],
    unseen: Sequence[str] | None,
    rejections: Sequence[Rejection],
) -> Views:
    """Write views in a folder that appears whole or not at all."""
    folder = out / str(tour.id)
    views = []
    with replacing(folder) as made:
        for one, objects in chosen:
            name, content = view_file(tour, one.name)
            (made / name).write_bytes(content)
            time = None if one.time is None else round(one.time, 3)
            views.append(View(name, time, round(one.sharpness, 2), _tuple(objects)))
        found = Views(tour, folder, tuple(views), _tuple(unseen))
        record = {"mark": mark, "views": [asdict(view) for view in views], "unseen": found.unseen}
        record["rejections"] = [vars(left) for left in rejections]
        (made / _RECORD).write_text(json.dumps(record, indent=1), encoding="utf-8")
    return found


def _kept(out: Path, tour: Tour, mark: str) -> tuple[Views, list[Rejection]] | None:
    """The views that an earlier run has kept, with what was left out of them; None where it has not, or of others."""
    folder = out / str(tour.id)
    try:
        record: Any = decode((folder / _RECORD).read_text(encoding="utf-8"))
        views = tuple(View(**view | {"objects": _tuple(view["objects"])}) for view in record["views"])
        rejections = [Rejection(**left) for left in record["rejections"]]
        unseen = _tuple(record["unseen"])
        if record["mark"] != mark or not all((folder / view.file).is_file() for view in views):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Views(tour, folder, views, unseen), rejections


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
