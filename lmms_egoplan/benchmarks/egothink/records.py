"""Define a question (secs. 3.1 and 3.2), and check all of them, from a folder or from the hub."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, dimension_of
from lmms_egoplan.benchmarks.file_kinds import EGOTHINK_ANNOTATIONS, check_kind
from lmms_egoplan.coverage import RENDERED_SCENES
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import resolve_inside
from lmms_egoplan.jsonl import check_record, read_json
from lmms_egoplan.media.image_files import check_image
from lmms_egoplan.media.layout import Layout, all_missing, no_folder
from lmms_egoplan.progress import track
from lmms_egoplan.storage import hub_files
from lmms_egoplan.validation import Checked, Text, listing, quoted

if TYPE_CHECKING:
    from datasets import Dataset

HUB_DATASET = "EgoThink/EgoThink"
REPOSITORY_URL = "https://github.com/AdaCheng/EgoThink"
_FIRST = DIMENSIONS[0].folder
_LAYOUT = (
    f"DIR must contain {_FIRST}/annotations.json, {_FIRST}/images/1.jpg and so on, as in "
    f"{REPOSITORY_URL}"
)


class _Texts(Checked):
    question: Text
    answer: Text
    origin: Text | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """An unchecked record from the source.

    Attributes:
        id: See `Record`.
        where: File or dataset and record number, for messages.
        fields: All fields of the record.
        read_image: Return the bytes of the image file. Raises LmmsEgoplanError, which names the
            field.
    """

    id: str
    where: str
    fields: dict[str, Any]
    read_image: Callable[[], bytes]


@dataclass(frozen=True)
class Record:
    """One checked question.

    Attributes:
        id: ``<dimension>/<n>``, with n from 1 in the published order.
        dimension: Name of the dimension.
        question: Question, verbatim.
        answer: Reference answer, verbatim.
        image: Bytes of the image file, which can be decoded.
        origin: Source of the question if it is not the benchmark's own, else None.
        image_name: Name of the image file in the repository, ``<n>.jpg``. Images of the hub get the
            same names.
    """

    id: str
    dimension: str
    question: str
    answer: str
    image: bytes
    origin: str | None = None
    image_name: str = ""


def read_folder(source: Path) -> list[Draft]:
    """Read all records of a folder in the official repository's layout.

    They are in the order of `DIMENSIONS` and of the files.

    Args:
        source: Folder with ``Object/existence/annotations.json``, ``Object/existence/images/1.jpg``
            and so on.

    Raises:
        LmmsEgoplanError: A folder or ``annotations.json`` is missing, or a file contains no list of
            records. The message lists all of them.
    """
    layout = Layout(
        option="",
        names=[dimension.folder for dimension in DIMENSIONS],
        item="folder",
        example=f"{_FIRST}/annotations.json",
        count=_count_dimensions,
        url=REPOSITORY_URL,
    )
    if not source.is_dir():
        raise LmmsEgoplanError(no_folder(source, layout))
    if not _count_dimensions(source):
        if list(source.glob("*/*.parquet")):
            raise LmmsEgoplanError(
                f"{source}: contains the dataset {HUB_DATASET} in Parquet files; to use it, pass "
                f"hub instead, or a clone of {REPOSITORY_URL}"
            )
        raise LmmsEgoplanError(all_missing(source, layout))
    _check_images(source)
    drafts: list[Draft] = []
    problems: list[str] = []
    for dimension in DIMENSIONS:
        folder = source / dimension.folder
        try:
            records = _load_list(folder)
        except LmmsEgoplanError as error:
            records = []
            problems.append(str(error))
        for number, raw in enumerate(records, 1):
            fields = raw if isinstance(raw, dict) else {}
            read_image = partial(_read_image_file, folder / "images", fields.get("image_path"))
            where = f"{folder / 'annotations.json'}, record {number}"
            drafts.append(Draft(f"{dimension.name}/{number}", where, fields, read_image))
    if problems:
        raise LmmsEgoplanError(f"{_listing(problems)}\n{_LAYOUT}")
    return drafts


def _count_dimensions(folder: Path) -> int:
    """Count the dimensions whose annotations are in a folder."""
    return sum(
        (folder / dimension.folder / "annotations.json").is_file() for dimension in DIMENSIONS
    )


def _check_images(source: Path) -> None:
    """Raise `LmmsEgoplanError` if all folders of images are missing."""
    folders = [f"{dimension.folder}/images" for dimension in DIMENSIONS]
    layout = Layout(
        option="",
        names=folders,
        item="folder",
        example=f"{folders[0]}/1.jpg",
        count=partial(_count_folders, names=folders),
        url=REPOSITORY_URL,
    )
    if not layout.count(source):
        raise LmmsEgoplanError(all_missing(source, layout))


def _count_folders(root: Path, names: Iterable[str]) -> int:
    return sum((root / name).is_dir() for name in names)


def read_hub() -> list[Draft]:
    """Read all records of the dataset `HUB_DATASET`, in the order of `DIMENSIONS` and of its rows.

    Like `datasets.load_dataset`, use a folder of that name in the working directory, if there is
    one, instead of the hub.

    Raises:
        LmmsEgoplanError: The dataset cannot be loaded, or a config is not one split with question,
            answer and image.
    """
    return [
        Draft(
            f"{dimension.name}/{number}", f"{where}, record {number}", row, partial(_read_cell, row)
        )
        for dimension in track(DIMENSIONS, "Loading dimensions from the hub")
        for where in [f"{HUB_DATASET}, config {dimension.hub_config}"]
        for number, row in enumerate(_load_config(where, dimension.hub_config), 1)
    ]


def check_records(drafts: Iterable[Draft]) -> list[Record]:
    """Read all images and check all records.

    Raises:
        LmmsEgoplanError: A question or an answer is not text, or an image is missing or cannot be
            decoded. The message has the number of problems, and the folder, record (from 1) and
            field of the first ones.
    """
    records: list[Record] = []
    problems: list[str] = []
    for draft in drafts:
        texts, flaws = check_record(_Texts, draft.fields)
        image = b""
        try:
            image = draft.read_image()
        except LmmsEgoplanError as error:
            flaws.append(str(error))
        if texts is None or flaws:
            check_kind(draft.where, [draft.fields], EGOTHINK_ANNOTATIONS)
            problems += [f"{draft.where}, {problem}" for problem in flaws]
        else:
            origin = (
                RENDERED_SCENES
                if draft.fields.get("source_dataset") == "rendered"
                else texts.origin
            )
            names = draft.fields.get("image_path")
            name = (
                names[0]
                if isinstance(names, list) and names
                else f"{draft.id.rpartition('/')[-1]}.jpg"
            )
            records.append(
                Record(
                    draft.id,
                    dimension_of(draft.id),
                    texts.question,
                    texts.answer,
                    image,
                    origin,
                    name,
                )
            )
    if problems:
        raise LmmsEgoplanError(
            f"{_listing(problems)}\nRecords are counted from 1. Published data: {REPOSITORY_URL}, "
            f"or the dataset {HUB_DATASET} on the hub"
        )
    return records


def _load_list(folder: Path) -> list[Any]:
    path = folder / "annotations.json"
    if not folder.is_dir():
        raise LmmsEgoplanError(f"{folder}: no such folder")
    content = read_json(path, "annotations")
    if not isinstance(content, list) or not content:
        raise LmmsEgoplanError(f"{path}: expected a list of records, found {quoted(content)}")
    return content


def _load_config(where: str, config: str) -> "Dataset":
    from datasets import DatasetDict, Image, load_dataset
    from datasets.exceptions import DatasetGenerationError

    try:
        with hub_files():
            splits: DatasetDict = load_dataset(HUB_DATASET, config)
    except Exception as error:
        # datasets, hub client, HTTP client and pyarrow have no common base class
        cause = f": {error.__cause__}" if isinstance(error, DatasetGenerationError) else ""
        raise LmmsEgoplanError(
            f"{where}: cannot load from the hub: {error}{cause}. "
            f"Without the hub: lmms-egoplan data prepare egothink DIR. {_LAYOUT}"
        ) from error
    if len(splits) != 1:
        raise LmmsEgoplanError(
            f"{where}: expected one split, found {len(splits)}: {', '.join(splits)}"
        )
    (dataset,) = splits.values()
    columns = dataset.column_names
    missing = {"question", "answer", "image"}.difference(columns)
    if missing:
        raise LmmsEgoplanError(
            f"{where}: missing columns {', '.join(sorted(missing))}; it has {', '.join(columns)}"
        )
    if not isinstance(dataset.features["image"], Image):
        raise LmmsEgoplanError(
            f"{where}: column image: expected images, found {dataset.features['image']}"
        )
    return dataset.cast_column("image", Image(decode=False))


def _read_image_file(folder: Path, names: Any) -> bytes:
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise LmmsEgoplanError(
            f"image_path: expected a list with one file name, found {quoted(names)}"
        )
    try:
        path = resolve_inside(folder, names[0])
    except LmmsEgoplanError as error:
        raise LmmsEgoplanError(f"image_path: {error}") from error
    try:
        if not path.is_file():
            raise LmmsEgoplanError(f"image_path: no such image: {path}")
        data = path.read_bytes()
    except OSError as error:
        raise LmmsEgoplanError(
            f"image_path: cannot read {folder / names[0]}: {error.strerror}"
        ) from error
    check_image(data, f"image_path: {path}")
    return data


def _read_cell(row: dict[str, Any]) -> bytes:
    data = row["image"] and row["image"]["bytes"]
    if data is None:
        raise LmmsEgoplanError("image: missing in the dataset")
    check_image(data, "image")
    return data


def _listing(problems: Sequence[str]) -> str:
    return f"EgoThink's data have {len(problems)} problem(s):\n{listing(problems)}"
