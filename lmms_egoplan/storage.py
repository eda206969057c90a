"""Store prepared data on disk: one folder per benchmark and split, written atomically."""

import errno
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder
from lmms_egoplan.jsonl import decode
from lmms_egoplan.paths import LMMS_EVAL_TASKS, data_root
from lmms_egoplan.validation import Checked, listing, read_as

if TYPE_CHECKING:
    from datasets import Dataset

_SUMMARY = "summary.json"
_UNWRITABLE = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS)


class _Summary(Checked):
    """The common fields of all summaries. A benchmark may add more."""

    prepared: str
    split_size: int
    questions: int
    fingerprint: str
    missing: list
    format: int = 1


class DataMissingError(LmmsEgoplanError, FileNotFoundError):
    """A split has not been prepared."""


def split_dir(benchmark: str, split: str) -> Path:
    """Return the folder of a split, even if it is not prepared.

    It is ``<data root>/<benchmark>/<split>``.
    """
    return data_root() / benchmark / split


def summary_path(benchmark: str, split: str) -> Path:
    """Return the path of a split's summary, even if it is not prepared."""
    return split_dir(benchmark, split) / _SUMMARY


@contextmanager
def without_bars() -> Iterator[None]:
    """Hide the per-file progress bars of ``datasets`` and of the hub's client."""
    import datasets
    from huggingface_hub import utils as hub

    libraries = [library for library in (datasets, hub) if not library.are_progress_bars_disabled()]
    for library in libraries:
        library.disable_progress_bars()
    try:
        yield
    finally:
        for library in libraries:
            library.enable_progress_bars()


@contextmanager
def hub_files() -> Iterator[None]:
    """Hide the bars of the hub's client. Name the variable if its folder cannot be written to.

    Raises:
        LmmsEgoplanError: The folder cannot be written to.
    """
    try:
        with without_bars():
            yield
    except OSError as error:
        if error.errno not in _UNWRITABLE:  # such as errors of the network
            raise
        where = f"{error.filename}: " if error.filename else ""
        raise LmmsEgoplanError(
            f"{where}{error.strerror}; set HF_HOME to a folder that you can write to"
        ) from error


def load_summary(benchmark: str, split: str) -> dict[str, Any] | None:
    """Read the summary that `PreparedData.save` wrote; None if the split is not prepared.

    Returns:
        At least these fields:

        - ``prepared``: time, ISO 8601;
        - ``split_size``: number of questions in the official file;
        - ``questions``: number of prepared questions;
        - ``fingerprint``: differs for other data;
        - ``missing``: a list.

        `PreparedData.save` adds ``datasets``, the version of that library.

    Raises:
        LmmsEgoplanError: the summary cannot be read, or one of these fields is missing or of
            another type.
    """
    path = summary_path(benchmark, split)
    try:
        summary = decode(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(f"{path}: damaged; prepare the split again: {error}") from error
    read_as(_Summary, f"{path}: damaged; prepare the split again", summary)
    return summary


def table(rows: Sequence[Mapping[str, Any]], **features: Any) -> "Dataset":
    """Make a dataset with one column per value of the first row.

    A column contains bools or numbers, as this value, or otherwise texts.

    Args:
        features: features of further columns, by name.
    """
    from datasets import Dataset, Features, Value

    types = {bool: "bool", int: "int64", float: "float64"}
    columns = {name: Value(types.get(type(value), "string")) for name, value in rows[0].items()}
    return Dataset.from_list(list(rows), features=Features(columns | features))


def fingerprint(parts: Iterable[Any]) -> str:
    """Return the SHA-256 hash of JSON values."""
    digest = sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()


def records_digest(records: Iterable[Checked]) -> str:
    """Return the SHA-256 hash of all fields of records, in their order."""
    return fingerprint(record.model_dump() for record in records)


def compare_counts(
    prepared: Mapping[str, Any],
    counted: Mapping[str, Any],
    key: str,
    paper: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """Compare the counts of a summary, by name, for `prepared_counts.print_counts`.

    Args:
        prepared: counts of the prepared questions.
        counted: counts of the whole source.
        key: name of the source in the result.
        paper: counts that the paper prints. Other names get None in the result.
        ranges: lowest and highest count that agrees with the paper's. Default: only the printed
            count.
    """
    compared: dict[str, dict[str, Any]] = {}
    for name, number in counted.items():
        matches = None
        if name in paper:
            lowest, highest = ranges.get(name, (paper[name], paper[name]))
            matches = number is not None and lowest <= number <= highest
        compared[name] = {
            "prepared": prepared[name],
            key: number,
            "paper": paper.get(name),
            "matches": matches,
        }
    return compared


def refusal(
    overview: str, problems: Sequence[str], how: str, item: str, *, skip_missing: bool
) -> str:
    """Explain why a split is not prepared: an overview, at most 20 problems, and what to do.

    Args:
        overview: one or more lines.
        how: what to do, with skipping as the last alternative. ``: --skip-missing`` is appended.
        item: singular noun for the prepared items, such as ``question``.
        skip_missing: true if the option is set. Then no item is left.
    """
    end = f"no {item} is left to prepare" if skip_missing else f"{how}: --skip-missing"
    return f"{overview}\n{listing(problems)}\n{end}"


def prepared_splits() -> list[tuple[str, str]]:
    """List benchmark and split of all prepared data, sorted."""
    folders = (path.parent for path in data_root().glob(f"[!.]*/[!.]*/{_SUMMARY}"))
    return sorted((folder.parent.name, folder.name) for folder in folders)


@dataclass(frozen=True)
class PreparedData:
    """The prepared splits of a benchmark.

    `folder`, `fingerprint` and `load` raise `DataMissingError` if the split is missing, and
    `LmmsEgoplanError` if its summary is damaged or of another format. `folder` and `load` also
    raise it if the rows cannot be read.

    Attributes:
        benchmark: name of the benchmark.
        title: name of a split in messages; ``{}`` is the split's name.
        how: instructions to get the data and prepare a split. ``{split}``, ``{file}`` and
            ``{tasks}`` are the split's name, its entry in `files`, and the folder of lmms-eval's
            tasks.
        data_format: number of the format. Increase it when the prepared data change.
        official: number of questions of each split in the paper.
        digests: digest of the published records by split, as ``tools/record_digests.py`` prints it;
            without a split whose published records nobody has compared.
        oldest_format: oldest readable format. Older and newer formats are refused.
        files: names of the published files by split, without the suffix.
        substitutes: other data that a split may contain instead of the benchmark's own, by a name
            under ``counts`` in its summary.
        question_id: for compact runs, the column of a question's id; empty if the benchmark has no
            compact runs.
    """

    benchmark: str
    title: str
    how: str
    data_format: int = 1
    official: Mapping[str, int] = field(default_factory=dict, hash=False)
    digests: Mapping[str, str] = field(default_factory=dict, hash=False)
    oldest_format: int = 1
    files: Mapping[str, str] = field(default_factory=dict, hash=False)
    substitutes: Mapping[str, str] = field(default_factory=dict, hash=False)
    question_id: str = ""

    def substitute(self, summary: Mapping[str, Any]) -> str | None:
        """Return the name of the data that a split contains instead of the benchmark's own.

        Return None for its own data.
        """
        counts = summary.get("counts")
        if isinstance(counts, dict):
            for name, data in self.substitutes.items():
                if name in counts:
                    return data
        return None

    def check(self, split: str, summary: dict[str, Any]) -> None:
        """Check the format of a split with this summary, and the split from which it was made.

        Raises:
            LmmsEgoplanError: this version does not read the format, or the other split was prepared
                from other data. The message says how to prepare the split again.
        """
        if summary.get("made_from"):
            source_split, source_fingerprint = summary["made_from"]
            if self.fingerprint(source_split) != source_fingerprint:
                raise LmmsEgoplanError(
                    f"{split_dir(self.benchmark, split)}: made from other data than {source_split} "
                    f"now has; prepare it again, too. {self._how(split)}"
                )
        data_format = summary.get("format", 1)
        if self.oldest_format <= data_format <= self.data_format:
            return
        writer = "a newer" if data_format > self.data_format else "an earlier"
        source = summary.get("annotations") or summary.get("source") or "its files"
        raise LmmsEgoplanError(
            f"{self.title.format(split)} in {split_dir(self.benchmark, split)}: {writer} version "
            f"of lmms-egoplan prepared it from {source}, in format {data_format}; this version "
            f"reads format {self.data_format}. {self._how(split)}"
        )

    def folder(self, split: str) -> Path:
        """Return the folder of the split, for ``datasets.load_from_disk``."""
        self.load(split)
        return split_dir(self.benchmark, split)

    def fingerprint(self, split: str) -> str:
        """Return the fingerprint of the split's data."""
        return self._summary(split)["fingerprint"]

    def save(self, split: str, dataset: "Dataset", **summary: Any) -> dict[str, Any]:
        """Write a split with its summary, replace earlier data, and return the summary.

        The folder contains ``summary.json`` and a ``DatasetDict`` with the one split, for
        ``datasets.load_from_disk``. All files are first written next to the target, so a failure
        does not damage the earlier data.

        Args:
            summary: the fields of `load_summary` except ``prepared``, and the benchmark's own
                fields.
        """
        from datasets import DatasetDict, __version__

        fields: dict[str, Any] = {
            "benchmark": self.benchmark,
            "format": self.data_format,
            "split": split,
            "prepared": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "datasets": __version__,
        }
        fields |= summary
        text = json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
        with whole_folder(split_dir(self.benchmark, split)) as folder:
            with without_bars():
                DatasetDict({split: dataset}).save_to_disk(folder)
            (folder / _SUMMARY).write_text(text, encoding="utf-8")
        return fields

    def load(self, split: str) -> "Dataset":
        """Load the split's rows."""
        from datasets import __version__, load_from_disk

        writer = self._summary(split).get("datasets", __version__)
        folder = split_dir(self.benchmark, split)
        try:
            return load_from_disk(str(folder))[split]
        except (KeyError, OSError, TypeError, ValueError) as error:
            if writer == __version__:
                problem = "damaged"
            else:
                problem = (
                    f"datasets {writer} prepared it, and datasets {__version__} cannot read it"
                )
            raise LmmsEgoplanError(
                f"{folder}: {problem} ({type(error).__name__}: {error}); prepare the split again. "
                f"{self._how(split)}"
            ) from error

    def _how(self, split: str) -> str:
        return self.how.format(
            split=split, file=self.files.get(split, split), tasks=LMMS_EVAL_TASKS
        )

    def _summary(self, split: str) -> dict[str, Any]:
        summary = load_summary(self.benchmark, split)
        if summary is None:
            raise DataMissingError(
                f"{self.title.format(split)} is not prepared in {split_dir(self.benchmark, split)} "
                f"(LMMS_EGOPLAN_DATA sets the root). {self._how(split)}"
            )
        self.check(split, summary)
        return summary


def without_images(rows: "Dataset", column: str) -> "Dataset":
    """Replace a column of images with ``row``, the index of the row in the split.

    For lists of images, also add their number as ``num_images``.
    """
    from datasets import Image
    from pyarrow import compute

    is_list = not isinstance(rows.features[column], Image)
    numbers = compute.list_value_length(rows.data.column(column)).to_pylist() if is_list else []
    rows = rows.remove_columns(column).add_column("row", list(range(len(rows))))
    return rows.add_column("num_images", numbers) if is_list else rows
