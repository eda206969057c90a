"""Choose two to five views of each instance, and store them (sec. 3.2).

A vision-language model or people choose.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lmms_egoplan.construction.actplan import tours
from lmms_egoplan.construction.actplan.activities import Activity
from lmms_egoplan.construction.actplan.prompts import object_names, seen_prompt
from lmms_egoplan.construction.actplan.tours import Candidate, Tour
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder
from lmms_egoplan.jsonl import read_json, read_text
from lmms_egoplan.judging.json_replies import NO_REPLY, ask_json
from lmms_egoplan.judging.judgement import Prompt
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.media.image_files import jpeg_url
from lmms_egoplan.rejections import Rejection
from lmms_egoplan.text import cell_text
from lmms_egoplan.validation import is_text, quoted

# Sec. 3.2: "Generally, 2 to 5 images are selected to cover the main contents".
FEWEST_VIEWS = 2
MOST_VIEWS = 5
# Most candidates of a tour that a language model sees, one per request; the project's number.
_MOST_CANDIDATES = 12
# Number of tours whose candidates are in memory together.
_TOURS_PER_BATCH = 32
_RECORD = "views.json"

TOO_FEW = f"tour with fewer than {FEWEST_VIEWS} sharp, different views"


@dataclass(frozen=True)
class View:
    """One view of an instance.

    file: File name in the instance's folder.
    time: Seconds in the touring video; None for an image from a folder.
    sharpness: As in `Candidate`.
    objects: Objects that the language model saw in the view; None if people chose it.
    """

    file: str
    time: float | None
    sharpness: float
    objects: tuple[str, ...] | None


@dataclass(frozen=True)
class Views:
    """The views of an instance.

    tour: The tour of the instance.
    folder: Folder with the views' files.
    views: The views in the tour's order.
    unseen: Objects of the activity that the language model saw in no view; None if people chose the
    views.
    """

    tour: Tour
    folder: Path
    views: tuple[View, ...]
    unseen: tuple[str, ...] | None


@dataclass(frozen=True)
class _Record:
    """The content of ``views.json``; `mark` is a digest of the tour and the choice."""

    mark: str
    views: tuple[View, ...]
    unseen: tuple[str, ...] | None
    rejections: tuple[Rejection, ...]


@dataclass(frozen=True)
class _Waiting:
    """A tour with candidates that the language model will see."""

    tour: Tour
    objects: list[str]
    mark: str
    candidates: list[Candidate]
    rejections: list[Rejection]


def read_choices(path: Path) -> dict[str, list[str]]:
    """Read the views that people chose, by instance: seconds in the video, or names of images.

    Args:
        path: CSV with the columns ``id`` and ``view``, one row per view; or a JSON object of lists.

    Raises:
        LmmsEgoplanError: The file cannot be read, or an instance does not have 2 to 5 views; the
            error names it.
    """
    choices: dict[str, list[str]] = {}
    if path.suffix.lower() == ".json":
        content = read_json(path, "views")
        if not isinstance(content, dict) or not all(
            isinstance(views, list) for views in content.values()
        ):
            raise LmmsEgoplanError(
                f"{path}: expected an object with a list of views by instance, found "
                f"{quoted(content)}"
            )
        for name, views in content.items():
            choices[name] = [str(view) for view in views]
    else:
        for number, row in enumerate(csv.DictReader(io.StringIO(read_text(path, "views"))), 2):
            name = row.get("id")
            view = row.get("view")
            if not is_text(name) or not is_text(view):
                raise LmmsEgoplanError(
                    f"{path}, line {number}: expected the columns id and view, found {quoted(row)}"
                )
            choices.setdefault(name, []).append(cell_text(view))
    for name, views in choices.items():
        if not FEWEST_VIEWS <= len(set(views)) <= MOST_VIEWS:
            raise LmmsEgoplanError(
                f"{path}: {name}: expected {FEWEST_VIEWS} to {MOST_VIEWS} different "
                f"views, found {len(set(views))}"
            )
    return choices


def choose_views(
    toured: Sequence[tuple[Tour, Activity]],
    choices: Mapping[str, Sequence[str]],
    out: Path,
    settings: JudgeSettings,
) -> tuple[list[Views], list[Rejection]]:
    """Choose the views of tours, and store them in ``out/<scene>/<activity>/<n>/sample_<k>``.

    If people did not choose, a vision-language model says which of the activity's objects each
    sharp candidate shows. Views are then added one by one: the candidate with the most objects that
    no earlier view shows; in a tie, the sharpest. Stored views are reused if tour, objects, model
    and choices are the same.

    Raises:
        LmmsEgoplanError: A view that people chose does not exist.
        JudgeError: The model cannot be asked.
        OSError: The folder cannot be written.
    """
    chosen = _Chosen([], [])
    for start in range(0, len(toured), _TOURS_PER_BATCH):
        batch = toured[start : start + _TOURS_PER_BATCH]
        waiting: list[_Waiting] = []
        for tour, activity in batch:
            entry = _without_model(tour, activity, choices, out, settings, chosen)
            if entry is not None:
                waiting.append(entry)
        if waiting:
            title = f"views of tours {start + 1} to {start + len(batch)} of {len(toured)}"
            seen, failures = _ask(waiting, settings, title)
            for entry in waiting:
                prefix = f"{entry.tour.id}, "
                own = [failure for failure in failures if failure.where.startswith(prefix)]
                _from_replies(entry, seen, own, out, chosen)
    return sorted(chosen.views, key=lambda views: views.tour.id), chosen.rejections


@dataclass(frozen=True)
class _Chosen:
    """The views chosen so far, and everything that was rejected."""

    views: list[Views]
    rejections: list[Rejection]


def _without_model(
    tour: Tour,
    activity: Activity,
    choices: Mapping[str, Sequence[str]],
    out: Path,
    settings: JudgeSettings,
    chosen: _Chosen,
) -> _Waiting | None:
    """Add a tour's views to `chosen` if they are stored or people chose them.

    Otherwise, return the candidates to show to the model; None if there are too few.
    """
    folder = out / str(tour.id)
    objects = object_names(activity.problem)
    by_hand = choices.get(str(tour.id))
    mark = _mark(tour, by_hand, objects, settings)
    record = _read_record(folder, mark)
    if record is None or (record.rejections and settings.options.retry_rejected):
        if by_hand is None:
            candidates, unreadable = tours.read_candidates(tour)
            sharp = tours.sharp_and_different(candidates, _MOST_CANDIDATES)
            if len(sharp) >= FEWEST_VIEWS:
                return _Waiting(tour, objects, mark, sharp, unreadable)
            counts = f"{len(sharp)} of {len(candidates)} candidates"
            chosen.rejections.extend(unreadable)
            chosen.rejections.append(Rejection("views", TOO_FEW, str(tour.id), counts))
            return None
        named = [(view, None) for view in tours.named_views(tour, by_hand)]
        record = _write_views(folder, tour, mark, named)
    chosen.views.append(Views(tour, folder, record.views, record.unseen))
    chosen.rejections.extend(record.rejections)
    return None


def _from_replies(
    entry: _Waiting,
    seen: Mapping[str, Sequence[str]],
    failures: Sequence[Rejection],
    out: Path,
    chosen: _Chosen,
) -> None:
    """Add a tour's views to `chosen` by the model's replies, and store them.

    Args:
        entry: The tour and its candidates.
        seen: The objects that each candidate shows, by the candidate's name.
        failures: The tour's requests without a usable reply.
        out: Folder of all views.
        chosen: Receives the views and the rejections.
    """
    rejections = [*entry.rejections, *failures]
    answered = []
    for candidate in entry.candidates:
        name = _name(entry.tour, candidate)
        if name in seen:
            answered.append((candidate, seen[name]))
    chosen.rejections.extend(rejections)
    if len(answered) < FEWEST_VIEWS:
        counts = f"{len(answered)} of {len(entry.candidates)} candidates with a usable reply"
        chosen.rejections.append(Rejection("views", TOO_FEW, str(entry.tour.id), counts))
        return
    best, unseen = cover(answered, entry.objects)
    # An empty mark makes the next run ask again for missing replies.
    mark = entry.mark
    if any(rejection.reason == NO_REPLY for rejection in rejections):
        mark = ""
    folder = out / str(entry.tour.id)
    record = _write_views(folder, entry.tour, mark, best, unseen, rejections)
    chosen.views.append(Views(entry.tour, folder, record.views, record.unseen))


def cover(
    candidates: Sequence[tuple[Candidate, Sequence[str]]], objects: Sequence[str]
) -> tuple[list[tuple[Candidate, Sequence[str]]], list[str]]:
    """Choose two to five candidates that show the objects.

    Returns:
        The candidates in the tour's order, and the objects that none of them shows.
    """
    chosen: list[tuple[Candidate, Sequence[str]]] = []
    missing = set(objects)
    remaining = list(candidates)
    while remaining and len(chosen) < MOST_VIEWS:
        best = max(
            remaining, key=lambda pair: (len(missing.intersection(pair[1])), pair[0].sharpness)
        )
        if len(chosen) >= FEWEST_VIEWS and not missing.intersection(best[1]):
            break
        remaining.remove(best)
        chosen.append(best)
        missing.difference_update(best[1])
    return [pair for pair in candidates if pair in chosen], [
        name for name in objects if name in missing
    ]


def _ask(
    waiting: Sequence[_Waiting], settings: JudgeSettings, title: str
) -> tuple[dict[str, list[str]], list[Rejection]]:
    """Ask which objects each candidate shows; replies are by the candidate's name.

    Also return a rejection for each candidate without a usable reply.
    """
    objects: dict[str, Sequence[str]] = {}
    prompts: dict[str, Prompt] = {}
    for entry in waiting:
        for candidate in entry.candidates:
            name = _name(entry.tour, candidate)
            picture = jpeg_url(candidate.image, max(candidate.image.size))  # in full size
            objects[name] = entry.objects
            prompts[name] = Prompt(seen_prompt(entry.objects), (picture,))

    def read(name: str, reply: list[Any]) -> list[str]:
        if not all(item in objects[name] for item in reply):
            raise ValueError(f"expected some of the objects, found {quoted(reply)}")
        return reply

    replies = ask_json("views", prompts, settings, title, kind=list, read=read)
    return replies.values, replies.rejections


def _name(tour: Tour, candidate: Candidate) -> str:
    return f"{tour.id}, {candidate.name}"


def _mark(
    tour: Tour, by_hand: Sequence[str] | None, objects: Sequence[str], settings: JudgeSettings
) -> str:
    """Return a digest of the tour, the choice, the objects and the model."""
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
    """Write views atomically to a folder, and return its record."""
    views = []
    with whole_folder(folder) as scratch:
        for candidate, objects in chosen:
            name, content = tours.view_file(tour, candidate.name)
            (scratch / name).write_bytes(content)
            time = None if candidate.time is None else round(candidate.time, 3)
            views.append(
                View(
                    name,
                    time,
                    round(candidate.sharpness, 2),
                    None if objects is None else tuple(objects),
                )
            )
        record = _Record(
            mark, tuple(views), None if unseen is None else tuple(unseen), tuple(rejections)
        )
        (scratch / _RECORD).write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
    return record


def _read_record(folder: Path, mark: str) -> _Record | None:
    """Read the views of an earlier run.

    None if they do not exist or belong to another tour or choice.
    """
    try:
        record = TypeAdapter(_Record).validate_json((folder / _RECORD).read_bytes())
    except (OSError, ValueError):
        return None
    is_same = record.mark == mark and all((folder / view.file).is_file() for view in record.views)
    return record if is_same else None
