"""What is written of every database, whichever benchmark it is of."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, astuple, fields
from pathlib import Path
from tempfile import TemporaryDirectory

from lmms_egoplan.annotation.agreement import Agreement, agreements
from lmms_egoplan.annotation.flow import ExportedFile, Flow, Labelled
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.labelled import MARK, read_mark
from lmms_egoplan.storage import write_whole
from lmms_egoplan.text import csv_text

_UNFINISHED = ".export."


def export(flow: Flow, labelled: Labelled, out: Path) -> list[str]:
    """Write a database's labels into a folder: the benchmark's own files, ``labels.jsonl`` and ``agreement.csv``.

    What an earlier export wrote there goes.

    Returns:
        Lines that tell what was written and what was left out.

    Raises:
        LmmsEgoplanError: there is no label yet, or the folder holds something else.
        OSError: the folder cannot be written.
    """
    if not labelled.labels:
        raise LmmsEgoplanError("there are no labels yet")
    check_folder(out, flow.name)
    made = flow.export(labelled)
    files = {
        **made.files,
        "labels.jsonl": ExportedFile(_label_lines(labelled), "every label that counts"),
        "agreement.csv": ExportedFile(_agreement_rows(flow, labelled), "agreement"),
    }
    write_folder(out, flow.name, {name: file.text for name, file in files.items()})
    return [*made.lines, *(f"{out / name}: {file.purpose}" for name, file in files.items())]


def _label_lines(labelled: Labelled) -> str:
    lines = [asdict(label) | {"about": item.hidden} for item in labelled.items for label in labelled.counting(item)]
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)


def _agreement_rows(flow: Flow, labelled: Labelled) -> str:
    header = [field.name for field in fields(Agreement)]
    rows = [["n/a" if value is None else value for value in astuple(found)] for found in agreements(flow, labelled)]
    return csv_text([header, *rows])


def check_folder(out: Path, benchmark: str) -> tuple[str, ...]:
    """What an earlier export into the folder has written there.

    Raises:
        LmmsEgoplanError: the folder holds something else.
    """
    if out.exists() and not out.is_dir():
        raise LmmsEgoplanError(f"--out {out}: a file is there; name a folder")
    mark = read_mark(out)
    if mark is None:
        if out.is_dir() and any(not path.name.startswith(_UNFINISHED) for path in out.iterdir()):
            raise LmmsEgoplanError(f"--out {out}: holds other files, and no export of labels; name a new folder")
        return ()
    if mark.benchmark != benchmark:
        raise LmmsEgoplanError(f"--out {out}: holds labels of {mark.benchmark}, not of {benchmark}; name a new folder")
    if mark.files is None:
        raise LmmsEgoplanError(f"--out {out}: holds an export of an earlier version; name a new folder, or delete it")
    return mark.files


def write_folder(out: Path, benchmark: str, texts: Mapping[str, str]) -> None:
    """Write files into a folder that a report knows as the benchmark's, in place of what an earlier export wrote.

    Killed on its way, the folder tells that it is not finished.

    Raises:
        LmmsEgoplanError: as `check_folder`.
        OSError: the folder cannot be written.
    """
    former = check_folder(out, benchmark)
    out.mkdir(parents=True, exist_ok=True)
    for left in out.glob(f"{_UNFINISHED}*"):  # by a process that was killed
        shutil.rmtree(left)
    with TemporaryDirectory(prefix=_UNFINISHED, dir=out) as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_bytes(text.encode())
        # Tells the report whose labels the folder holds.
        mark = {"benchmark": benchmark, "files": sorted({*texts, *former}), "finished": False}
        write_whole(out / MARK, json.dumps(mark) + "\n")
        for name in {*former} - texts.keys():
            (out / name).unlink(missing_ok=True)
        for name in texts:
            (Path(folder) / name).replace(out / name)
    write_whole(out / MARK, json.dumps(mark | {"files": sorted(texts), "finished": True}) + "\n")
