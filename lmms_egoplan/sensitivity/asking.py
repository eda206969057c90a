"""Ask a model the questions of a sensitivity run.

The media of a question are decoded once per distinct frame set.
"""

import json
import math
import sqlite3
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from huggingface_hub import try_to_load_from_cache

from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_prompts, prompt_of, rotated
from lmms_egoplan.benchmarks.egoplan.prompts import choices_with_end
from lmms_egoplan.benchmarks.egoplan.visuals import FrameReader, num_images
from lmms_egoplan.benchmarks.presets import FIELDS, Preset
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.checkpoints import folder_version
from lmms_egoplan.harnesses.lmms_eval.direct import Request, load_model, replies_to
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.sensitivity.conditions import PromptVariant, Reply
from lmms_egoplan.storage import fingerprint

_SPLITS = {"egoplan": (EGOPLAN, "val"), "egoplan_bench2": (EGOPLAN_BENCH2, "test")}
# What determines how a preset's questions are asked, and what its report says. Stored replies are
# bound to these fields.
_PRESET_FIELDS = ("name", "benchmark", "source", *FIELDS, "unknown", "gaps", "pixels")
# Arguments of backends that change no reply. A key must not be stored.
_HARMLESS = (
    "api_key",
    "workers",
    "num_cpus",
    "num_concurrent",
    "timeout",
    "max_retries",
    "retry_backoff_s",
)
# Questions per call of the backend. Their media are in memory together.
_AT_ONCE = 4

# Key of the run's settings in the database.
_SETTINGS_KEY = "{}"

Key = tuple[PromptVariant, str]
"""A way to ask, and the sample id of a question."""
FrameSet = tuple[str, str, str]
"""The sample id of a question, and the presets of its media and of its observation."""


class ReplyStore:
    """The questions of a run and the replies to them.

    Args:
        plan: The backend, the model and the folder.
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        count: Number of questions: a random sample, which is part of each larger one.
        is_check: Whether nothing is asked. No file is created in the folder then.

    Attributes:
        docs: Questions by sample id.
        total: Number of questions in the split.
        replies: All known replies.
        truncated: Whether the limit on new tokens ended a reply; None if unknown.
        failures: Errors of requests without a reply.

    Raises:
        LmmsEgoplanError: The stored replies have other settings, or are damaged.
    """

    def __init__(self, plan: Plan, benchmark: str, count: int, *, is_check: bool) -> None:
        data, split = _SPLITS[benchmark]
        rows = data.load(split)
        digests = [sha256(str(sample_id).encode()).digest() for sample_id in rows["sample_id"]]
        sample = sorted(range(len(rows)), key=digests.__getitem__)[:count]
        self.docs = {str(doc["sample_id"]): doc for doc in rows.select(sample)}
        self.total = len(rows)
        self.failures: list[LmmsEgoplanError] = []
        self._plan = plan
        self._is_check = is_check
        self._presets = load_prompts(benchmark)
        self._visuals = FrameReader(benchmark)
        self._media: dict[FrameSet, VisualInput] = {}
        self._num_decoded = 0
        self._settings = {
            **_model_settings(plan),
            "data": [benchmark, data.fingerprint(split)],
            "presets": fingerprint(map(_preset_fields, self._presets.values())),
            "version": __version__,
        }
        self._path = plan.out / "replies.sqlite"
        self._database = self._open()
        self.replies: dict[Key, Reply] = {}
        self.truncated: dict[Key, bool | None] = {}
        self._read()

    def ask(self, variants: Collection[PromptVariant]) -> None:
        """Print the counts. Unless this is a check, ask what has no stored reply, and sum it up.

        Args:
            variants: The ways to ask each question.

        Raises:
            LmmsEgoplanError: A question cannot be loaded or asked, or a whole batch of requests
                failed. Earlier replies are stored.
        """
        in_order = sorted(variants, key=_order)
        keys = [(variant, sample_id) for sample_id in self.docs for variant in in_order]
        missing = [key for key in keys if key not in self.replies]
        num_stored = len(keys) - len(missing)
        typer.echo(
            f"{len(self.docs):,} of {self.total:,} questions: {len(keys):,} passes, "
            f"{num_stored:,} of them stored"
        )
        batches = self._batches(missing)
        if batches:
            self._print_cost(missing)
        if not self._is_check:
            self._ask(batches, num_stored)

    def _batches(self, keys: Sequence[Key]) -> list[list[Key]]:
        """Group keys by their questions: the first one alone, then `_AT_ONCE` at a time."""
        batch_numbers = {
            sample_id: math.ceil(number / _AT_ONCE) for number, sample_id in enumerate(self.docs)
        }
        grouped = groupby(keys, key=lambda key: batch_numbers[key[1]])
        return [[*batch] for _, batch in grouped]

    def _print_cost(self, keys: Sequence[Key]) -> None:
        """Print what has no stored reply, and how many images that takes."""
        distinct = {_frame_set(key): key for key in keys}
        num_decoded = 0
        num_videos = 0
        for key in distinct.values():
            settings = self._visual_settings(key)
            num_decoded += num_images(self.docs[key[1]], settings)
            num_videos += settings["media"] == "video"
        videos = f" and {num_videos:,} video files" if num_videos else ""
        num_ranked = sum(variant.ranked for variant, _ in keys)
        typer.echo(
            f"Missing: {len(keys) - num_ranked:,} replies, {num_ranked:,} rankings, "
            f"{num_decoded:,} images{videos} to decode. Hours are measured on the first passes"
        )

    def _ask(self, batches: Sequence[Sequence[Key]], num_stored: int) -> None:
        """Ask all batches, and print the numbers and the time at the end."""
        total = sum(len(batch) for batch in batches)
        num_known = len(self.replies)
        start = time.monotonic()
        model = self._load_model() if batches else None
        num_asked = 0
        batch: Sequence[Key] = ()
        try:
            with progress_bar(total, "Asking", "reply") as bar:
                for batch in batches:
                    began = time.monotonic()
                    self._ask_batch(model, batch, bar)
                    num_asked += len(batch)
                    if num_asked == len(batch):
                        seconds_per_pass = (time.monotonic() - began) / num_asked
                        _print_rate(num_asked, total, seconds_per_pass)
        except LmmsEgoplanError:
            raise  # it names the question
        except Exception as error:  # backends raise many types of errors
            if not batch:
                raise
            names = ", ".join(dict.fromkeys(sample_id for _, sample_id in batch))
            raise LmmsEgoplanError(
                f"sample_id {names}: {str(error) or type(error).__name__}"
            ) from error
        finally:
            num_new = len(self.replies) - num_known
            seconds = time.monotonic() - start
            typer.echo(
                f"{num_new:,} asked, {num_stored:,} reused, {len(self.failures):,} failed, "
                f"{self._num_decoded:,} frame sets decoded, {seconds:,.1f} s"
            )

    def _load_model(self) -> Any:
        """Load the model of the plan."""
        arguments = {self._plan.backend.model_parameter: self._plan.model, **self._plan.model_args}
        return load_model(self._plan.backend_name, arguments)

    def _ask_batch(self, model: Any, batch: Sequence[Key], bar: Any) -> None:
        """Ask a batch and store its replies.

        Raises:
            LmmsEgoplanError: All requests failed.
        """
        num_failed_before = len(self.failures)
        for number, reply, is_truncated in replies_to(model, self._requests(batch)):
            if isinstance(reply, LmmsEgoplanError):
                self.failures.append(reply)
            else:
                self._store(batch[number], reply, is_truncated=is_truncated)
            bar.update()
        self._media.clear()
        if len(self.failures) - num_failed_before == len(batch):
            raise self.failures[num_failed_before]

    def _requests(self, batch: Sequence[Key]) -> list[Request]:
        """Return the requests of a batch. Decode its media, which are kept until it is asked."""
        missing = {_frame_set(key): key for key in batch if _frame_set(key) not in self._media}
        with ThreadPoolExecutor() as pool:
            decoded = pool.map(self._decode, missing.values())
            self._media |= dict(zip(missing, decoded, strict=True))
        self._num_decoded += len(missing)
        return [self._request(variant, sample_id) for variant, sample_id in batch]

    def _visual_settings(self, key: Key) -> dict[str, Any]:
        """Return the settings of the media of a question."""
        variant, _ = key
        media = self._presets[variant.media].media
        observation = self._presets[variant.observation].observation
        if media["media"] == "timed_frames" and self._plan.backend_name != "hf_vlm":
            media = {**media, "media": "frames"}  # other backends take a video only as a file
        return {**media, "observation": observation}

    def _decode(self, key: Key) -> VisualInput:
        """Decode the media of a question."""
        _, sample_id = key
        try:
            return self._visuals.visual_input(self.docs[sample_id], self._visual_settings(key))
        except (LmmsEgoplanError, OSError, ValueError) as error:
            raise LmmsEgoplanError(f"sample_id {sample_id}: {error}") from error

    def _request(self, variant: PromptVariant, sample_id: str) -> Request:
        """Return the request for a question. Its media must be decoded."""
        doc = self.docs[sample_id]
        preset = self._presets[variant.prompt]
        media = self._media[_frame_set((variant, sample_id))]
        if variant.ranked:
            choices = choices_with_end(doc) if preset.parser == LIKELIHOOD else doc["choices"]
            return Request(sample_id, doc["question"], media, {}, choices)
        arguments = {"until": [], **self._presets[variant.decoding].decoding}
        prompt = prompt_of(preset, rotated(doc, variant.shift))
        return Request(sample_id, prompt, media, arguments)

    def _open(self) -> sqlite3.Connection:
        """Open the database of replies. A check creates no file."""
        path: Path | str = self._path
        if self._is_check and not self._path.exists():
            path = ":memory:"
        database = sqlite3.connect(path, isolation_level=None)
        database.row_factory = sqlite3.Row
        return database

    def _read(self) -> None:
        """Read the stored replies, and store the settings of a new database."""
        try:
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS replies (key PRIMARY KEY, reply NOT NULL, truncated)"
            )
            self._database.execute(
                "INSERT OR IGNORE INTO replies VALUES (:key, :settings, NULL)",
                {"key": _SETTINGS_KEY, "settings": json.dumps(self._settings)},
            )
            earlier = None
            for row in self._database.execute("SELECT key, reply, truncated FROM replies"):
                if row["key"] == _SETTINGS_KEY:
                    earlier = json.loads(row["reply"])
                else:
                    self._read_row(row)
            if earlier is None:
                raise LookupError(_SETTINGS_KEY)
        except (sqlite3.Error, LookupError, TypeError, ValueError) as error:
            raise LmmsEgoplanError(
                f"{self._path}: damaged ({error}); move it away, or set another --out"
            ) from error
        self._check_settings(earlier)

    def _read_row(self, row: sqlite3.Row) -> None:
        """Read a stored reply."""
        fields, sample_id = json.loads(row["key"])
        key = (PromptVariant(**fields), sample_id)
        reply = json.loads(row["reply"])
        if not isinstance(reply, str):
            reply = tuple(tuple(option) for option in reply)
        self.replies[key] = reply
        self.truncated[key] = None if row["truncated"] is None else bool(row["truncated"])

    def _check_settings(self, earlier: Mapping[str, Any]) -> None:
        """Raise `LmmsEgoplanError` if the stored replies have other settings."""
        changes = [
            f"{name}: {earlier.get(name)}, now {value}"
            for name, value in self._settings.items()
            if earlier.get(name) != value
        ]
        if changes:
            raise LmmsEgoplanError(
                f"{self._path}: replies with other settings ({'; '.join(changes)}); set another "
                "--out"
            )

    def _store(self, key: Key, reply: Reply, *, is_truncated: bool | None) -> None:
        """Store a reply."""
        variant, sample_id = key
        self._database.execute(
            "INSERT OR REPLACE INTO replies VALUES (:key, :reply, :truncated)",
            {
                "key": json.dumps([asdict(variant), sample_id]),
                "reply": json.dumps(reply),
                "truncated": is_truncated,
            },
        )
        self.replies[key] = reply
        self.truncated[key] = is_truncated


def _preset_fields(preset: Preset) -> dict[str, Any]:
    return {name: getattr(preset, name) for name in _PRESET_FIELDS}


def _model_settings(plan: Plan) -> dict[str, Any]:
    """Return the model, its version and the arguments that may change replies."""
    arguments = {name: value for name, value in plan.model_args.items() if name not in _HARMLESS}
    weights = folder_version(plan.model)
    if weights is None and plan.backend.is_local:  # the path contains the commit
        weights = try_to_load_from_cache(
            plan.model, "config.json", revision=arguments.get("revision")
        )
    return {
        "model": [plan.model, str(weights), folder_version(arguments.get("peft"))],
        "backend": [plan.backend_name, arguments],
    }


def _print_rate(num_asked: int, total: int, seconds_per_pass: float) -> None:
    """Print the expected time of all passes after the first batch."""
    hours = seconds_per_pass * (total - num_asked) / 3600
    typer.echo(f"At the rate of the first {num_asked} passes, all others take ~{hours:.2g} hours.")


def _order(variant: PromptVariant) -> tuple[bool, str, str, str]:
    """Return the position of a way to ask: written replies first, equal media together."""
    return (variant.ranked, variant.media, variant.observation, variant.decoding)


def _frame_set(key: Key) -> FrameSet:
    """Return a value that is equal if the same media are shown."""
    variant, sample_id = key
    return (sample_id, variant.media, variant.observation)
