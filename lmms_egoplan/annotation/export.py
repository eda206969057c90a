"""Write the exports that all benchmarks share: labels, and tasks for Label Studio."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from lmms_egoplan.annotation.agreement import (
    Agreement,
    PeopleAgreement,
    agreements,
    people_agreements,
)
from lmms_egoplan.annotation.clips import Cut, Media, MediaFolder
from lmms_egoplan.annotation.flow import Export, ExportedFile, Flow, Item, Labelled
from lmms_egoplan.annotation.forms import (
    Choice,
    Field,
    Film,
    Form,
    FormPart,
    Moment,
    Picture,
    Steps,
    Words,
)
from lmms_egoplan.annotation.label_studio import CONFIG, MEDIA, TASKS, media_address
from lmms_egoplan.annotation.pages import environment, field_keys
from lmms_egoplan.annotation.study import GOLD, TRAINING
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.outputs import results_of
from lmms_egoplan.report.samples import read_mark, write_folder
from lmms_egoplan.text import csv_text, numbered

# Files that do not depend on the flow.
_SHARED_FILES = {"labels.jsonl", "skipped.jsonl", "agreement.csv", "agreement-people.csv"}


def export(flow: Flow, labelled: Labelled, out: Path) -> list[str]:
    """Write a database's labels into a folder.

    Writes the benchmark's files and `_SHARED_FILES`. Replaces the files of an earlier export.

    Returns:
        Messages about what was written and what was not exported.

    Raises:
        LmmsEgoplanError: There are neither labels nor skipped items yet, or the folder contains
            other files.
        OSError: The folder cannot be written.
    """
    if not (labelled.labels or labelled.skips):
        raise LmmsEgoplanError("there are no labels yet")
    skips = [skip for skip in labelled.skips if skip.stage not in (TRAINING, GOLD)]
    counted = replace(labelled, skips=skips)
    exported = flow.export(counted)
    files = {**exported.files, **_shared_files(flow, counted)}
    _check_folder(out, exported)
    write_folder(out, flow.mark or flow.name, {name: file.text for name, file in files.items()})
    lines = [*exported.lines]
    if skips:
        skipped = len({skip.item for skip in skips})
        lines.append(f"Skipped by annotators: {skipped} items, {len(skips)} times")
    return [*lines, *(f"{out / name}: {file.purpose}" for name, file in files.items())]


def _shared_files(flow: Flow, labelled: Labelled) -> dict[str, ExportedFile]:
    """Return the files that every export has, `_SHARED_FILES`, except those without contents."""
    labels = []
    for item in labelled.items:
        labels += [asdict(label) | {"about": item.hidden} for label in labelled.counting(item)]
    files = {"labels.jsonl": ExportedFile(json_lines(labels), "all labels that count")}
    if labelled.skips:
        skips = [asdict(skip) for skip in labelled.skips]
        files["skipped.jsonl"] = ExportedFile(json_lines(skips), "skipped items")
    people = people_agreements(flow, labelled)
    scales = agreements(flow, labelled, people)
    files["agreement.csv"] = ExportedFile(_table(Agreement, scales), "agreement")
    if people:
        files["agreement-people.csv"] = ExportedFile(
            _table(PeopleAgreement, people), "agreement of each annotator and pair"
        )
    return files


def _check_folder(out: Path, exported: Export) -> None:
    """Check that a folder has no labels of another page.

    Raises:
        LmmsEgoplanError: It has files of an export, but none of those that this flow writes.
    """
    mark = read_mark(out)
    earlier = {*mark.files} if mark and mark.files else set()
    earlier -= _SHARED_FILES
    if exported.files and earlier and earlier.isdisjoint(exported.files):
        raise LmmsEgoplanError(f"--out {out}: contains labels of another page; use a new folder")


def _table(
    row_type: type[Agreement | PeopleAgreement], rows: Iterable[Agreement | PeopleAgreement]
) -> str:
    """Return rows as CSV, with the names of the fields as header."""
    lines: list[list[Any]] = [[field.name for field in fields(row_type)]]
    for row in rows:
        lines.append(["n/a" if value is None else value for value in astuple(row)])
    return csv_text(lines)


def write_label_studio(
    flow: Flow, items: Sequence[Item], folder: MediaFolder, out: Path
) -> list[str]:
    """Write ``config.xml``, ``tasks.json`` and the media into the folder `out`.

    Tasks contain nothing that annotators must not see. ``number`` in a task's data is the item's
    position in the database. Options have the same order for all annotators.

    Returns:
        Messages about what was written.

    Raises:
        FrameError: A clip or image cannot be created.
        OSError: The folder cannot be written.
    """
    forms = [flow.form(item.contents) for item in items]
    # Every task needs all variables of the interface, so missing ones are empty.
    blank: dict[str, str] = {}
    for form in forms:
        for name, part in _named(form):
            blank[name] = ""
            blank[f"{name}_title"] = ""
            if isinstance(part, Film):
                blank[f"{name}_fps"] = ""
    guide: dict[str, None] = {}
    for item in items:
        guide |= dict.fromkeys(flow.guide_to(item.contents))
    with results_of(out) as results:
        copies = results / MEDIA
        copies.mkdir()

        def show(media: Media) -> str:
            return media_address(out, _copy(folder.file(media), copies))

        tasks = []
        for number, form in enumerate(forms):
            data = task_data(form, show)
            tasks.append({"data": {"number": number} | blank | data})
        write_whole(results / TASKS, json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")
        write_whole(results / CONFIG, _configuration(flow.title, guide, forms) + "\n")
    return [
        f"{out / CONFIG}: the labelling interface",
        f"{out / TASKS}: {len(tasks)} tasks",
        f"{out / MEDIA}: pictures and clips",
    ]


def _copy(file: Path, copies: Path) -> str:
    """Copy a picture or clip, and return its name."""
    shutil.copyfile(file, copies / file.name)
    return file.name


def task_data(form: Form, show: Callable[[Media], str] | None = None) -> dict[str, Any]:
    """Return the contents of a task by the names of the tags' variables.

    Args:
        show: Returns the address of a picture or clip; None without them.
    """
    data: dict[str, Any] = {}
    keys = field_keys(form)
    for name, part in _named(form):
        if not isinstance(part, Picture):
            data[name] = numbered(part.steps) if isinstance(part, Steps) else part.text
        elif show:
            data[name] = show(part.media)
        data[f"{name}_title"] = part.title
        if isinstance(part, Film) and isinstance(part.media, Cut):
            data[f"{name}_fps"] = part.media.fps
    for field in form.fields:
        if isinstance(field, Choice) and _varies(field):
            data[field.name] = _options(field, keys.get(field.name, {}))
        elif isinstance(field, Words):
            data[field.name] = field.initial
        elif isinstance(field, Moment):
            data |= _moment_data(field)
        if field.help:
            data[f"{field.name}_help"] = field.help
    return data


def _options(field: Choice, keys: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the options of a field for Label Studio, with their keys."""
    options = []
    for option in field.options:
        attributes = {"value": option.text, "alias": option.value}
        if option.value in keys:
            attributes["hotkey"] = keys[option.value]
        options.append(attributes)
    return options


def _moment_data(field: Moment) -> dict[str, Any]:
    """Return the current time in seconds of the clip, and the clip's start in the video.

    Label Studio's player starts at 0.
    """
    times = field.clip_times
    current = times[field.times.index(field.initial)]
    return {
        field.name: current,
        f"{field.name}_start": field.start,
        f"{field.name}_clip": (
            f"Enter seconds of the clip, from {times[0]:.3f} to {times[-1]:.3f}: the number of "
            f"frames before the end, times {field.step:.3f}. The end is at {current:.3f} s now. "
            f"The clip starts at {field.start:.3f} s of the video."
        ),
    }


def _configuration(title: str, guide: Iterable[str], forms: Sequence[Form]) -> str:
    """Return one interface for all tasks, with the maximum number of pictures.

    Label Studio leaves extra ones empty.
    """
    parts: dict[str, FormPart] = {}
    fields_by_name: dict[str, Field] = {}
    for form in forms:
        parts |= dict(_named(form))
        fields_by_name |= {field.name: field for field in form.fields}
    escaping = environment().overlay(autoescape=False, finalize=_in_attribute)
    template = escaping.get_template("label_studio.xml.jinja")
    return template.render(
        title=title,
        guide=guide,
        parts=parts,
        target=next(iter(parts)),
        fields=fields_by_name.values(),
        keys=field_keys(Form((), tuple(fields_by_name.values()))),
        varies=_varies,
    )


def _in_attribute(value: object) -> str:
    """Escape a value, including its line breaks, for an XML attribute."""
    return escape(str(value), {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#09;"})


def _varies(field: Choice) -> bool:
    """Return whether the texts of the options vary between tasks.

    The values of such options are letters.
    """
    return any(option.value in "ABCD" for option in field.options)


def _named(form: Form) -> Iterator[tuple[str, FormPart]]:
    """Name the parts by kind and number, consistently for all forms."""
    counts: Counter[str] = Counter()
    for part in form.parts:
        counts[part.KIND] += 1
        yield f"{part.KIND}_{counts[part.KIND]}", part
