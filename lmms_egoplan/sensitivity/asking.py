"""Ask a model the questions of a sensitivity run.

The media of a question are decoded once per distinct frame set.
"""

import json
import sqlite3
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from hashlib import sha256
from itertools import groupby

import typer
from huggingface_hub import try_to_load_from_cache

from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_prompts, prompt_of, rotated
from lmms_egoplan.benchmarks.egoplan.protocol import closed_choices
from lmms_egoplan.benchmarks.egoplan.visuals import FrameReader
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.checkpoints import folder_version
from lmms_egoplan.harnesses.lmms_eval.direct import Request, load_model, replies_to
from lmms_egoplan.launch.estimate import load_encoder, measure
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.sensitivity.conditions import PromptVariant, Reply
from lmms_egoplan.storage import fingerprint

_SPLITS = {"egoplan": (EGOPLAN, "val"), "egoplan_bench2": (EGOPLAN_BENCH2, "test")}
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

Key = tuple[PromptVariant, str]


class Asking:
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
        rows, self._plan, self._is_check = data.load(split), plan, is_check
        self._presets, self._visuals, self._decoded = (
            load_prompts(benchmark),
            FrameReader(benchmark),
            0,
        )
        self._media, self.failures = (
            dict[tuple[str, str, str], VisualInput](),
            list[LmmsEgoplanError](),
        )
        digests = [sha256(str(sample_id).encode()).digest() for sample_id in rows["sample_id"]]
        order = sorted(range(len(rows)), key=digests.__getitem__)[:count]
        self.docs, self.total = (
            {str(doc["sample_id"]): doc for doc in rows.select(order)},
            len(rows),
        )
        arguments = {
            name: value for name, value in plan.model_args.items() if name not in _HARMLESS
        }
        weights = folder_version(plan.model)
        if weights is None and plan.backend.is_local:  # the path contains the commit
            weights = try_to_load_from_cache(
                plan.model, "config.json", revision=arguments.get("revision")
            )
        self._settings = {
            "model": [plan.model, str(weights), folder_version(arguments.get("peft"))],
            "backend": [plan.backend_name, arguments],
            "data": [benchmark, data.fingerprint(split)],
            "presets": fingerprint(asdict(preset) for preset in self._presets.values()),
            "version": __version__,
        }
        self._path = plan.out / "replies.sqlite"
        path = ":memory:" if is_check and not self._path.exists() else self._path
        self._database = sqlite3.connect(path, isolation_level=None)
        self.replies = self._read()

    def ask(self, all_asked: Collection[PromptVariant]) -> None:
        """Print the cost, ask everything without a stored reply, and print what was done.

        Args:
            all_asked: What to ask of each question.

        Raises:
            LmmsEgoplanError: A question cannot be loaded or asked, or a whole batch of requests
                failed. Earlier replies are stored.
        """
        ordered = sorted(
            all_asked,
            key=lambda asked: (asked.ranked, asked.media, asked.observation, asked.decoding),
        )
        numbers = {sample_id: -(-number // _AT_ONCE) for number, sample_id in enumerate(self.docs)}
        keys = [(asked, sample_id) for sample_id in self.docs for asked in ordered]
        missing = [key for key in keys if key not in self.replies]
        batches = [[*group] for _, group in groupby(missing, key=lambda key: numbers[key[1]])]
        counts = f"{len(keys):,} passes, {len(keys) - len(missing):,} of them stored"
        typer.echo(f"{len(self.docs):,} of {self.total:,} questions: {counts}")
        if batches:
            self._print_cost(batches[0], missing)
        if not self._is_check:
            self._ask(batches, len(keys) - len(missing))

    def _print_cost(self, first: Sequence[Key], keys: Sequence[Key]) -> None:
        """Print the cost, estimated from the first batch."""
        encoder, loader, _ = load_encoder(self._plan)
        sizes = [
            measure(encoder, loader, request.text, request.visuals)
            for request in self._requests(first)
        ]
        images = {_frame_set(key): count for key, (count, _) in zip(first, sizes, strict=True)}
        decoded = sum(images.values()) * len({*map(_frame_set, keys)}) // len(images)
        tokens = (
            f"~{sum(count for _, count in sizes) * len(keys) // len(sizes):,}"
            if encoder
            else "unknown"
        )
        ranked = sum(asked.ranked for asked, _ in keys)
        passes = f"{len(keys) - ranked:,} replies, {ranked:,} rankings"
        typer.echo(f"Missing: {passes}, ~{decoded:,} images to decode, {tokens} tokens of context")

    def _ask(self, batches: Sequence[Sequence[Key]], num_stored: int) -> None:
        total, known, asked, start = sum(map(len, batches)), len(self.replies), 0, time.monotonic()
        arguments = {self._plan.backend.model_parameter: self._plan.model, **self._plan.model_args}
        model = load_model(self._plan.backend_name, arguments) if batches else None
        try:
            with progress_bar(total, "Asking", "reply") as bar:
                for batch in batches:
                    began, asked, failed = time.monotonic(), asked + len(batch), len(self.failures)
                    for number, reply, is_truncated in replies_to(model, self._requests(batch)):
                        if isinstance(reply, LmmsEgoplanError):
                            self.failures.append(reply)
                        else:
                            self._store(batch[number], reply, is_truncated=is_truncated)
                        bar.update()
                    self._media.clear()
                    if len(self.failures) - failed == len(batch):
                        raise self.failures[failed]
                    if asked == len(batch):
                        hours = (time.monotonic() - began) / asked * (total - asked) / 3600
                        typer.echo(
                            f"At the rate of the first {asked} passes, all others take "
                            f"~{hours:.2g} hours."
                        )
        except LmmsEgoplanError:
            raise  # it names the question
        except Exception as error:  # backends raise many types of errors
            names = ", ".join(dict.fromkeys(sample_id for _, sample_id in batch))
            raise LmmsEgoplanError(
                f"sample_id {names}: {str(error) or type(error).__name__}"
            ) from error
        finally:
            done, seconds = len(self.replies) - known, time.monotonic() - start
            counts = f"{done:,} asked, {num_stored:,} reused, {len(self.failures):,} failed"
            typer.echo(f"{counts}, {self._decoded:,} frame sets decoded, {seconds:,.1f} s")

    def _requests(self, batch: Sequence[Key]) -> list[Request]:
        """Return the requests of a batch. Decode its media, which are kept until it is asked."""
        sets = {_frame_set(key): key for key in batch if _frame_set(key) not in self._media}
        with ThreadPoolExecutor() as pool:
            self._media |= dict(zip(sets, pool.map(self._decode, sets.values()), strict=True))
        self._decoded += len(sets)
        return [self._request(*key) for key in batch]

    def _decode(self, key: Key) -> VisualInput:
        media, observation = (
            self._presets[key[0].media].media,
            self._presets[key[0].observation].observation,
        )
        if media["media"] == "timed_frames" and self._plan.backend_name != "hf_vlm":
            media = {**media, "media": "frames"}  # other backends take a video only as a file
        try:
            return self._visuals.visual_input(
                self.docs[key[1]], {**media, "observation": observation}
            )
        except (LmmsEgoplanError, OSError, ValueError) as error:
            raise LmmsEgoplanError(f"sample_id {key[1]}: {error}") from error

    def _request(self, asked: PromptVariant, sample_id: str) -> Request:
        doc, preset = self.docs[sample_id], self._presets[asked.prompt]
        media = self._media[_frame_set((asked, sample_id))]
        if asked.ranked:
            choices = closed_choices(doc) if preset.parser == LIKELIHOOD else doc["choices"]
            return Request(sample_id, doc["question"], media, {}, choices)
        arguments = {"until": [], **self._presets[asked.decoding].decoding}
        return Request(sample_id, prompt_of(preset, rotated(doc, asked.shift)), media, arguments)

    def _read(self) -> dict[Key, Reply]:
        try:
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS replies (key PRIMARY KEY, reply NOT NULL, truncated)"
            )
            self._database.execute(
                "INSERT OR IGNORE INTO replies VALUES ('{}', ?, NULL)", [json.dumps(self._settings)]
            )
            rows = {
                key: (json.loads(reply), x)
                for key, reply, x in self._database.execute("SELECT * FROM replies")
            }
            earlier, _ = rows.pop("{}")
            replies = {
                (PromptVariant(**x), id_): row
                for key, row in rows.items()
                for x, id_ in [json.loads(key)]
            }
        except (sqlite3.Error, LookupError, TypeError, ValueError) as error:
            raise LmmsEgoplanError(
                f"{self._path}: damaged ({error}); move it away, or set another --out"
            ) from error
        changed = [name for name, value in self._settings.items() if earlier.get(name) != value]
        if changes := "; ".join(
            f"{name}: {earlier.get(name)}, now {self._settings[name]}" for name in changed
        ):
            raise LmmsEgoplanError(
                f"{self._path}: replies with other settings ({changes}); set another --out"
            )
        self.truncated = {key: None if x is None else bool(x) for key, (_, x) in replies.items()}
        return {
            key: y if isinstance(y, str) else tuple(map(tuple, y))
            for key, (y, _) in replies.items()
        }

    def _store(self, key: Key, reply: Reply, *, is_truncated: bool | None) -> None:
        row = json.dumps([asdict(key[0]), key[1]]), json.dumps(reply), is_truncated
        self._database.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
        self.replies[key], self.truncated[key] = reply, is_truncated


def _frame_set(key: Key) -> tuple[str, str, str]:
    """Return a value that is equal if the same media are shown."""
    return key[1], key[0].media, key[0].observation
