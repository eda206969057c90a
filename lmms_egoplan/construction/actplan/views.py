"""Two to five views of each instance, chosen by a vision-language model or by people, kept with their times (3.2)."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmms_egoplan.construction.actplan.activities import Activity
from lmms_egoplan.construction.actplan.folders import replacing
from lmms_egoplan.construction.actplan.prompts import object_names, seen_prompt
from lmms_egoplan.construction.actplan.tours import (
    Candidate,
    Tour,
    named_views,
    read_candidates,
    sharp_and_different,
    view_file,
)
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json, read_text
from lmms_egoplan.judging.json_replies import NO_REPLY, ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import cell_text
from lmms_egoplan.validation import is_text, shown

# Sec. 3.2: "Generally, 2 to 5 images are selected to cover the main contents".
FEWEST_VIEWS, MOST_VIEWS = 2, 5
# Candidates of a tour that a language model sees, each in its own request; the project's number.
_MOST_CANDIDATES = 12
# Tours whose candidates are in memory together.
_AT_ONCE = 32
_RECORD = "views.json"

TOO_FEW = f"tour with fewer than {FEWEST_VIEWS} sharp views that are not alike"


@dataclass(frozen=True)
class View:
    """One view of an instance.

    file: Its name in the instance's folder.
    time: Seconds in the touring video; None for an image of a folder.
    sharpness: As in `tours.Candidate`.
    objects: Objects that the language model saw in it; None if people chose.
    """

    file: str
    time: float | None
    sharpness: float
    objects: tuple[str, ...] | None


@dataclass(frozen=True)
class Views:
    """The views of an instance.

    folder: Has their files.
    unseen: Objects of the activity that the language model saw in none of them; None if people chose.
    """

    tour: Tour
    folder: Path
    views: tuple[View, ...]
    unseen: tuple[str, ...] | None


@dataclass(frozen=True)
class _Record:
    """The content of ``views.json``; `mark` changes with the tour and the choice."""

    mark: str
    views: tuple[View, ...]
    unseen: tuple[str, ...] | None
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True)
class _Waiting:
    """A tour about which the language model is asked."""

    tour: Tour
    objects: list[str]
    mark: str
    candidates: list[Candidate]
    rejections: list[Rejection]


def read_choices(path: Path) -> dict[str, list[str]]:
    """Read the views that people chose, by instance: seconds in its video, or names of its images.

    Args:
        path: CSV with the columns ``id`` and ``view``, a row for each view; or a JSON object of lists.

    Raises:
        LmmsEgoplanError: The file cannot be read, or does not have 2 to 5 views of an instance; names it.
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
    tours: Sequence[tuple[Tour, Activity]], choices: Mapping[str, Sequence[str]], out: Path, settings: JudgeSettings
) -> tuple[list[Views], list[Rejection]]:
    """Choose the views of tours, and keep them in ``out/<scene>/<activity>/<n>/sample_<k>``.

    If people have not chosen, a vision-language model is asked about each sharp candidate which of the activity's
    objects it shows. The best candidate shows most objects that no view before it does, then is the sharpest. Views
    that are kept for the same tour, objects, model and choices are not made again.

    Raises:
        LmmsEgoplanError: A view that people chose does not exist.
        JudgeError: The model cannot be asked.
        OSError: The folder cannot be written.
    """
    chosen: list[Views] = []
    rejections: list[Rejection] = []
    for start in range(0, len(tours), _AT_ONCE):
        waiting: list[_Waiting] = []
        for tour, activity in tours[start : start + _AT_ONCE]:
            folder, objects, by_hand = out / str(tour.id), object_names(activity.problem), choices.get(str(tour.id))
            mark = _mark(tour, by_hand, objects, settings)
            record = _read_record(folder, mark)
            if record is None or (record.rejections and settings.asking.retry_rejected):
                if by_hand is None:
                    candidates, wrong = read_candidates(tour)
                    sharp = sharp_and_different(candidates, _MOST_CANDIDATES)
                    if len(sharp) < FEWEST_VIEWS:
                        counts = f"{len(sharp)} of {len(candidates)} candidates"
                        rejections += [*wrong, Rejection("views", TOO_FEW, str(tour.id), counts)]
                    else:
                        waiting.append(_Waiting(tour, objects, mark, sharp, wrong))
                    continue
                record = _write_views(folder, tour, mark, [(each, None) for each in named_views(tour, by_hand)])
            chosen.append(Views(tour, folder, record.views, record.unseen))
            rejections += record.rejections
        if waiting:
            title = f"views of tours {start + 1} to {min(start + _AT_ONCE, len(tours))} of {len(tours)}"
            seen, wrong = _ask(waiting, settings, title)
            for each in waiting:
                own = [*each.rejections, *(left for left in wrong if left.where.startswith(f"{each.tour.id}, "))]
                known = [(one, seen[name]) for one in each.candidates if (name := _name(each.tour, one)) in seen]
                rejections += own
                if len(known) < FEWEST_VIEWS:
                    counts = f"{len(known)} of {len(each.candidates)} candidates with a usable reply"
                    rejections.append(Rejection("views", TOO_FEW, str(each.tour.id), counts))
                    continue
                best, unseen = cover(known, each.objects)
                # If a reply did not come, the next run asks again.
                mark = "" if any(left.reason == NO_REPLY for left in own) else each.mark
                folder = out / str(each.tour.id)
                record = _write_views(folder, each.tour, mark, best, unseen, own)
                chosen.append(Views(each.tour, folder, record.views, record.unseen))
    return sorted(chosen, key=lambda views: views.tour.id), rejections


def cover(
    candidates: Sequence[tuple[Candidate, Sequence[str]]], objects: Sequence[str]
) -> tuple[list[tuple[Candidate, Sequence[str]]], list[str]]:
    """Choose two to five candidates that show the objects, in the tour's order, and the objects that none shows."""
    chosen: list[tuple[Candidate, Sequence[str]]] = []
    missing = set(objects)
    left = list(candidates)
    while left and len(chosen) < MOST_VIEWS:
        best = max(left, key=lambda each: (len(missing.intersection(each[1])), each[0].sharpness))
        if len(chosen) >= FEWEST_VIEWS and not missing.intersection(best[1]):
            break
        left.remove(best)
        chosen.append(best)
        missing.difference_update(best[1])
    return [each for each in candidates if each in chosen], [name for name in objects if name in missing]


def _ask(
    waiting: Sequence[_Waiting], settings: JudgeSettings, title: str
) -> tuple[dict[str, list[str]], list[Rejection]]:
    """Ask which objects each candidate shows, by its name."""
    asked: dict[str, list[str]] = {}
    prompts: dict[str, str | Prompt] = {}
    for each in waiting:
        for candidate in each.candidates:
            name = _name(each.tour, candidate)
            asked[name] = each.objects
            prompts[name] = Prompt(seen_prompt(each.objects), (jpeg_url(candidate.image, max(candidate.image.size)),))

    def read(name: str, reply: list[Any]) -> list[str]:
        if not all(shown_object in asked[name] for shown_object in reply):
            raise ValueError(f"expected some of the objects, found {shown(reply)}")
        return reply

    return ask_json("views", prompts, settings, title, kind=list, read=read)


def _name(tour: Tour, candidate: Candidate) -> str:
    return f"{tour.id}, {candidate.name}"


def _mark(tour: Tour, by_hand: Sequence[str] | None, objects: Sequence[str], settings: JudgeSettings) -> str:
    """Return a digest that changes with the tour and the choice."""
    model = None if by_hand is not None else settings.model
    return sha256(json.dumps([tour.version(), by_hand, objects, model]).encode()).hexdigest()


def _write_views(
    folder: Path,
    tour: Tour,
    mark: str,
    chosen: Sequence[tuple[Candidate, Sequence[str] | None]],
    unseen: Sequence[str] | None = None,
    rejections: Sequence[Rejection] = (),
) -> _Record:
    """Write views in a folder that appears whole or not at all."""
    views = []
    with replacing(folder) as made:
        for candidate, objects in chosen:
            name, content = view_file(tour, candidate.name)
            (made / name).write_bytes(content)
            time = None if candidate.time is None else round(candidate.time, 3)
            views.append(View(name, time, round(candidate.sharpness, 2), None if objects is None else tuple(objects)))
        record = _Record(mark, tuple(views), None if unseen is None else tuple(unseen), tuple(rejections))
        (made / _RECORD).write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    return record


def _read_record(folder: Path, mark: str) -> _Record | None:
    """Read the views of an earlier run; None if there are none, or others."""
    try:
        record = TypeAdapter(_Record).validate_json((folder / _RECORD).read_bytes())
    except (OSError, ValueError):
        return None
    is_same = record.mark == mark and all((folder / view.file).is_file() for view in record.views)
    return record if is_same else None
