"""Prepared data on disk: one folder per benchmark and split, written whole or not at all."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import decode
from lmms_egoplan.paths import data_root
from lmms_egoplan.validation import Checked, listing, problems_in, validate

if TYPE_CHECKING:
    from datasets import Dataset

_SUMMARY = "summary.json"


class _Summary(Checked):
    """What every benchmark's summary tells; more is its own affair."""

    prepared: str
    split_size: int
    questions: int
    fingerprint: str
    missing: list
    format: int = 1


class DataMissingError(LmmsEgoplanError, FileNotFoundError):
    """A split has not been prepared."""


def split_dir(benchmark: str, split: str) -> Path:
    """Folder of a prepared split, whether or not it is there: ``<data root>/<benchmark>/<split>``."""
    return data_root() / benchmark / split


def summary_path(benchmark: str, split: str) -> Path:
    """File with the summary of a split, whether or not it is there."""
    return split_dir(benchmark, split) / _SUMMARY


def save_split(dataset: "Dataset", benchmark: str, split: str, summary: dict[str, Any]) -> Path:
    """Write a split with its summary and put it in place of an older one; returns the folder.

    The folder holds a ``DatasetDict`` with the one split, for ``datasets.load_from_disk``, and
    ``summary.json``. Everything is written beside the target first, so a failure leaves the older data as
    they were. `summary` must have what `load_summary` promises.
    """
    from datasets import DatasetDict

    target = split_dir(benchmark, split)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{split}.", dir=target.parent) as scratch:
        fresh, old = Path(scratch) / "new", Path(scratch) / "old"
        with without_bars():
            DatasetDict({split: dataset}).save_to_disk(fresh)
        (fresh / _SUMMARY).write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        if target.exists():
            target.replace(old)
        try:
            fresh.replace(target)
        except OSError:
            if old.exists() and not target.exists():
                old.replace(target)
            raise
    return target


@contextmanager
def without_bars() -> Iterator[None]:
    """Without the progress bars of ``datasets`` and of the hub's client, one for each file."""
    import datasets
    from huggingface_hub import utils as hub

    shown = [library for library in (datasets, hub) if not library.are_progress_bars_disabled()]
    for library in shown:
        library.disable_progress_bars()
    try:
        yield
    finally:
        for library in shown:
            library.enable_progress_bars()


def load_summary(benchmark: str, split: str) -> dict[str, Any] | None:
    """The summary that `save_split` wrote; None if the split is not prepared.

    Returns:
        At least ``prepared`` (time, ISO 8601), ``split_size`` (questions in the official file), ``questions``
        (prepared), ``fingerprint`` (another text for other data) and ``missing`` (a list of what is missing). With
        ``format``, a whole number, except where an early version of the package prepared the split.

    Raises:
        LmmsEgoplanError: the summary cannot be read, or one of these is absent or of another type.
    """
    path = summary_path(benchmark, split)
    try:
        summary = decode(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise LmmsEgoplanError(f"{path}: damaged, prepare the split again: {error}") from error
    try:
        validate(_Summary, summary)
    except ValidationError as error:
        problems = "; ".join(problems_in(error))
        raise LmmsEgoplanError(f"{path}: damaged, prepare the split again: {problems}") from error
    return summary


def fingerprint(parts: Iterable[Any]) -> str:
    """A digest of JSON values, which is another one if one of them has changed."""
    digest = sha256()
    for part in parts:
        digest.update(json.dumps(part, sort_keys=True).encode())
    return digest.hexdigest()


def compare_counts(
    prepared: Mapping[str, Any],
    counted: Mapping[str, Any],
    key: str,
    paper: Mapping[str, Any],
    ranges: Mapping[str, tuple[float, float]] = MappingProxyType({}),
) -> dict[str, dict[str, Any]]:
    """The numbers of a summary by name, for `prepared_counts.print_counts`.

    Args:
        prepared: of what is prepared.
        counted: of the whole origin, which `key` names.
        paper: as printed; what it does not tell is None in the summary.
        ranges: first and last number that agrees with the paper's; without one, only the same does.
    """

    def agrees(name: str, number: float | None) -> bool:
        low, high = ranges.get(name, (paper[name], paper[name]))
        return number is not None and low <= number <= high

    return {
        name: {
            "prepared": prepared[name],
            key: number,
            "paper": paper.get(name),
            "matches": agrees(name, number) if name in paper else None,
        }
        for name, number in counted.items()
    }


def refusal(found: str, problems: Sequence[str], how: str, one: str, *, skip_missing: bool) -> str:
    """Why a split is not prepared: what is wrong, at most 20 problems, and what to do.

    Args:
        found: what is wrong with how much; a line or more.
        how: to mend it, or to go on with ``--skip-missing``.
        one: of what is prepared, such as ``question``.
        skip_missing: whether that was asked for, and nothing is left.
    """
    end = f"no {one} is left to prepare" if skip_missing else f"{how}: --skip-missing"
    return f"{found}\n{listing(problems)}\n{end}"


def prepared_splits() -> list[tuple[str, str]]:
    """Benchmark and split of everything that is prepared, sorted."""
    found = (path.parent for path in data_root().glob(f"[!.]*/[!.]*/{_SUMMARY}"))
    return sorted((folder.parent.name, folder.name) for folder in found)


def _no_substitute(summary: dict[str, Any]) -> None:
    """A function with a name: lm-eval sends tasks from process to process."""


@dataclass(frozen=True)
class PreparedData:
    """The prepared splits of a benchmark.

    title: names a split in messages, where ``{}`` is its name.
    how: says, for a split's name, how to prepare it and where the data are to be had.
    data_format: number of the format that this version of the package reads; a summary without one is of format 1.
    official: how many questions each split has in the paper.
    substitute: what a split with this summary holds in place of the benchmark's own data; None where it holds these.

    All methods but `check` raise `DataMissingError` where the split is not there, and `LmmsEgoplanError` where its
    summary is damaged or of another format.
    """

    benchmark: str
    title: str
    how: Callable[[str], str]
    data_format: int = 1
    official: Mapping[str, int] = field(default_factory=dict, hash=False)
    substitute: Callable[[dict[str, Any]], str | None] = _no_substitute

    def check(self, split: str, summary: dict[str, Any]) -> None:
        """Check that a split with this summary is of the format that is read here.

        Raises:
            LmmsEgoplanError: it is not; says how to prepare it again.
        """
        found = summary.get("format", 1)
        if found == self.data_format:
            return
        writer = "a newer" if found > self.data_format else "an earlier"
        source = summary.get("annotations") or summary.get("source") or "its files"
        raise LmmsEgoplanError(
            f"{self.title.format(split)} in {split_dir(self.benchmark, split)}: {writer} version of lmms-egoplan "
            f"prepared it from {source}, in format {found}; this version reads format {self.data_format}. "
            f"{self.how(split)}"
        )

    def folder(self, split: str) -> Path:
        """Where the split is, for ``datasets.load_from_disk``."""
        self._summary(split)
        return split_dir(self.benchmark, split)

    def fingerprint(self, split: str) -> str:
        """What tells the split's data from any other."""
        return self._summary(split)["fingerprint"]

    def save(self, split: str, dataset: "Dataset", **summary: Any) -> dict[str, Any]:
        """Write a split as `save_split` does; returns its summary.

        Args:
            summary: what `load_summary` promises and more, but for what all have alike.
        """
        prepared = datetime.now(timezone.utc).isoformat(timespec="seconds")
        common = {"benchmark": self.benchmark, "format": self.data_format, "split": split, "prepared": prepared}
        save_split(dataset, self.benchmark, split, common | summary)
        return common | summary

    def load(self, split: str) -> "Dataset":
        """The split's rows."""
        from datasets import load_from_disk

        return load_from_disk(str(self.folder(split)))[split]

    def _summary(self, split: str) -> dict[str, Any]:
        summary = load_summary(self.benchmark, split)
        if summary is None:
            raise DataMissingError(
                f"{self.title.format(split)} is not prepared in {split_dir(self.benchmark, split)} (LMMS_EGOPLAN_DATA "
                f"sets the root). {self.how(split)}"
            )
        self.check(split, summary)
        return summary
