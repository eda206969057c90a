"""Write the exports that all benchmarks share: labels, and tasks for Label Studio."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from lmms_egoplan.annotation.clips import Media, MediaFolder
from lmms_egoplan.annotation.flow import ExportedFile, Flow, Item, Labelled
from lmms_egoplan.annotation.forms import Choice, Form, Part, Picture, Steps, Words
from lmms_egoplan.annotation.pages import environment
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import write_whole
from lmms_egoplan.jsonl import json_lines
from lmms_egoplan.report.samples import read_mark, write_folder
from lmms_egoplan.text import csv_text, numbered

# Label Studio serves local files under this address, below LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT.
_LOCAL = "/data/local-files/?d="


def export(flow: Flow, labelled: Labelled, out: Path) -> list[str]:
    """Write a database's labels into a folder: the benchmark's files, ``labels.jsonl`` and
    ``agreement.csv``.

    Replaces the files of an earlier export.

    Returns:
        Messages about what was written and what was not exported.

    Raises:
        LmmsEgoplanError: There are no labels yet, or the folder contains other files.
        OSError: The folder cannot be written.
    """
    if not (labelled.labels or labelled.skips):
        raise LmmsEgoplanError("there are no labels yet")
    labelled = replace(
        labelled, skips=[skip for skip in labelled.skips if skip.stage not in ("training", "gold")]
    )
    exported = flow.export(labelled)
    lines, files = [*exported.lines], {**exported.files}
    labels = [
        asdict(label) | {"about": item.hidden}
        for item in labelled.items
        for label in labelled.counting(item)
    ]
    files["labels.jsonl"] = ExportedFile(json_lines(labels), "all labels that count")
    if labelled.skips:
        files["skipped.jsonl"] = ExportedFile(
            json_lines(map(asdict, labelled.skips)), "skipped items"
        )
        skipped = len({skip.item for skip in labelled.skips})
        lines.append(f"Skipped by annotators: {skipped} items, {len(labelled.skips)} times")
    people = people_agreements(flow, labelled)
    files["agreement.csv"] = ExportedFile(
        _table(Agreement, agreements(flow, labelled, people)), "agreement"
    )
    if people:
        files["agreement-people.csv"] = ExportedFile(
            _table(PeopleAgreement, people), "agreement of each annotator and pair"
        )
    shared = {"labels.jsonl", "skipped.jsonl", "agreement.csv", "agreement-people.csv"}
    earlier = {*(((mark := read_mark(out)) and mark.files) or ())} - shared
    if (
        exported.files and earlier and not earlier & {*exported.files}
    ):  # A folder has the labels of one page.
        raise LmmsEgoplanError(f"--out {out}: contains labels of another page; use a new folder")
    write_folder(out, flow.mark or flow.name, {name: file.text for name, file in files.items()})
    return [*lines, *(f"{out / name}: {file.purpose}" for name, file in files.items())]


def _table(
    kind: type[Agreement | PeopleAgreement], rows: Iterable[Agreement | PeopleAgreement]
) -> str:
    cells = (["n/a" if value is None else value for value in astuple(row)] for row in rows)
    return csv_text([[field.name for field in fields(kind)], *cells])


def write_label_studio(
    flow: Flow, items: Sequence[Item], folder: MediaFolder, out: Path
) -> list[str]:
    """Write ``config.xml``, ``tasks.json`` and the media into the folder `out`.

    Tasks contain nothing that annotators must not see. ``number`` in a task's data is the item's
    position in the database. Options have the same order for all annotators.

    Returns:
        Messages about what was written and how to use it.

    Raises:
        FrameError: A clip or image cannot be created.
        OSError: The folder cannot be written.
    """

    def show(media: Media) -> str:
        file = folder.file(media)
        (out / "media").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, out / "media" / file.name)
        return f"{_LOCAL}media/{file.name}"

    forms = [flow.form(item.contents) for item in items]
    # Every task needs all variables of the interface, so missing ones are empty.
    blank = {
        name: "" for form in forms for part, _ in _named(form) for name in (part, f"{part}_title")
    }
    tasks = [
        {"data": {"number": number} | blank | task_data(form, show)}
        for number, form in enumerate(forms)
    ]
    write_whole(out / "tasks.json", json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")
    guide = dict.fromkeys(paragraph for item in items for paragraph in flow.guide_to(item.contents))
    write_whole(out / "config.xml", _configuration(flow.title, guide, forms) + "\n")
    return [
        f"{out / 'config.xml'}: the labelling interface",
        f"{out / 'tasks.json'}: {len(tasks)} tasks",
        f"{out / 'media'}: pictures and clips. Start Label Studio with "
        "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={out.resolve()}",
    ]


def task_data(form: Form, show: Callable[[Media], str] | None = None) -> dict[str, Any]:
    """Return the contents of a task by the names of the tags' variables.

    Args:
        show: Returns the address of a picture or clip; None without them.
    """
    data: dict[str, Any] = {}
    for name, part in _named(form):
        if not isinstance(part, Picture):
            data[name] = numbered(part.steps) if isinstance(part, Steps) else part.text
        elif show:
            data[name] = show(part.media)
        data[f"{name}_title"] = part.title
    for field in form.fields:
        if isinstance(field, Choice) and _varies(field):
            data[field.name] = [
                {"value": option.text, "alias": option.value} for option in field.options
            ]
        elif isinstance(field, Words):
            data[field.name] = field.initial
        if field.help:
            data[f"{field.name}_help"] = field.help
    return data


def _configuration(title: str, guide: Iterable[str], forms: Sequence[Form]) -> str:
    """Return one interface for all tasks, with the maximum number of pictures.

    Label Studio leaves extra ones empty.
    """
    parts = {name: part for form in forms for name, part in _named(form)}
    fields = {field.name: field for form in forms for field in form.fields}.values()
    escaping = environment().overlay(autoescape=False, finalize=_in_attribute)
    template = escaping.get_template("label_studio.xml.jinja")
    return template.render(
        title=title,
        guide=guide,
        parts=parts,
        target=next(iter(parts)),
        fields=fields,
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


def _named(form: Form) -> Iterator[tuple[str, Part]]:
    """Name the parts by kind and number, consistently for all forms."""
    counts: Counter[str] = Counter()
    for part in form.parts:
        kind = type(part).__name__.lower()
        counts[kind] += 1
        yield f"{kind}_{counts[kind]}", part
