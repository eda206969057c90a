"""Ask a model the questions of a sensitivity run. The media of a question are decoded once per distinct frame set."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

import typer
from huggingface_hub import try_to_load_from_cache

from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.egoplan.presets import LIKELIHOOD, load_presets, prompt_of, rotated
from lmms_egoplan.benchmarks.egoplan.protocol import closed_choices
from lmms_egoplan.benchmarks.egoplan.visuals import Visuals
from lmms_egoplan.benchmarks.splits import EGOPLAN, EGOPLAN_BENCH2
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.checkpoints import folder_version
from lmms_egoplan.harnesses.lmms_eval.direct import Request, load_model, replies_to
from lmms_egoplan.jsonl import parse_record
from lmms_egoplan.launch.estimate import load_encoder, measure
from lmms_egoplan.launch.plan import Plan
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.outputs import naming
from lmms_egoplan.progress import progress_bar
from lmms_egoplan.sensitivity.conditions import Asked, Reply
from lmms_egoplan.storage import fingerprint
from lmms_egoplan.validation import read_as

_SPLITS = {"egoplan": (EGOPLAN, "val"), "egoplan_bench2": (EGOPLAN_BENCH2, "test")}
# Arguments of backends that change no reply.
_HARMLESS = ("workers", "num_cpus", "num_concurrent", "timeout", "max_retries", "retry_backoff_s")
# Questions per call of the backend. Their media are in memory together.
_AT_ONCE = 4

Key = tuple[Asked, str]


@dataclass(frozen=True)
class _Row:
    sample_id: str
    asked: Asked
    reply: Reply


class Asking:
    """The questions of a run and the replies to them.

    Args:
        plan: The backend, the model and the folder.
        benchmark: ``egoplan`` or ``egoplan_bench2``.
        count: Number of questions: a random sample, which is part of each larger one.

    Attributes:
        docs: Questions by sample id.
        total: Number of questions in the split.
        replies: All known replies.

    Raises:
        LmmsEgoplanError: The stored replies have other settings, or are damaged.
    """

    def __init__(self, plan: Plan, benchmark: str, count: int) -> None:
        data, split = _SPLITS[benchmark]
        rows, self._presets, self._plan = data.load(split), load_presets(benchmark), plan
        digests = [sha256(str(sample_id).encode()).digest() for sample_id in rows["sample_id"]]
        order = sorted(range(len(rows)), key=digests.__getitem__)[:count]
        self.docs, self.total = {str(doc["sample_id"]): doc for doc in rows.select(order)}, len(rows)
        self._visuals, self._path = Visuals(benchmark), plan.out / "replies.jsonl"
        arguments = {name: value for name, value in plan.model_args.items() if name not in _HARMLESS}
        commit = try_to_load_from_cache(plan.model, "config.json", revision=arguments.get("revision"))
        self._settings = {
            "model": [plan.model, folder_version(plan.model) or commit, folder_version(arguments.get("peft"))],
            "backend": [plan.backend_name, arguments],
            "data": [benchmark, data.fingerprint(split)],
            "presets": fingerprint(map(asdict, self._presets.values())),
            "version": __version__,
        }
        self.replies, self._size = _read_replies(self._path, self._settings)
        self._media = dict[tuple[str, str, str], VisualInput]()
        self._num_sets = self._num_images = 0

    def batches(self, all_asked: Collection[Asked]) -> list[list[Key]]:
        """Return what must still be asked, for several questions at a time; only the first one is alone."""
        ordered = sorted(all_asked, key=lambda asked: (asked.ranked, asked.media, asked.observation, asked.decoding))
        keys = [(asked, sample_id) for sample_id in self.docs for asked in ordered]
        numbers = {sample_id: -(-number // _AT_ONCE) for number, sample_id in enumerate(self.docs)}
        missing = (key for key in keys if key not in self.replies)
        return [[*group] for _, group in groupby(missing, key=lambda key: numbers[key[1]])]

    def cost(self, batches: Sequence[Sequence[Key]]) -> str:
        """Describe the cost of batches, estimated from the first one."""
        keys = [key for batch in batches for key in batch]
        ranked = sum(asked.ranked for asked, _ in keys)
        text = f"{len(self.docs):,} of {self.total:,} questions: {len(keys) - ranked:,} replies, {ranked:,} rankings"
        if not keys:
            return text
        encoder, loader = load_encoder(self._plan)
        requests = self._requests(batches[0])
        sizes = [measure(encoder, loader, request.text, request.visuals) for request in requests]
        images = {_frame_set(key): count for key, (count, _) in zip(batches[0], sizes, strict=True)}
        decoded = sum(images.values()) * len({*map(_frame_set, keys)}) // len(images)
        tokens = sum(count for _, count in sizes) * len(keys) // len(sizes)
        return f"{text}, ~{decoded:,} images to decode, {f'~{tokens:,}' if encoder else 'unknown'} tokens of context"

    def ask(self, batches: Sequence[Sequence[Key]]) -> None:
        """Ask batches, store each reply, and print what was done.

        Raises:
            LmmsEgoplanError: A question cannot be loaded or asked. Earlier replies are stored.
        """
        total, known, asked, start = sum(map(len, batches)), len(self.replies), 0, time.monotonic()
        arguments = {self._plan.backend.model_parameter: self._plan.model, **self._plan.model_args}
        model = load_model(self._plan.backend_name, arguments)
        if not self._size:
            self._store(self._settings)
        try:
            with progress_bar(total, "Asking", "reply") as bar:
                for batch in batches:
                    began, asked = time.monotonic(), asked + len(batch)
                    self._ask(model, batch)
                    bar.update(len(batch))
                    if asked == len(batch):
                        hours = (time.monotonic() - began) / asked * (total - asked) / 3600
                        typer.echo(f"At the rate of the first {asked} passes, all others take ~{hours:.2g} hours.")
        finally:
            done, media = len(self.replies) - known, f"{self._num_sets:,} frame sets ({self._num_images:,} images)"
            times = f"{media} decoded, {time.monotonic() - start:,.1f} s"
            typer.echo(f"{done:,} asked, {known:,} stored earlier, {asked - done:,} failed, {times}")

    def _ask(self, model: Any, batch: Sequence[Key]) -> None:
        try:
            for number, reply in replies_to(model, self._requests(batch)):
                asked, sample_id = batch[number]
                reply = reply.encode(errors="replace").decode() if isinstance(reply, str) else reply
                self._store(asdict(_Row(sample_id, asked, reply)))
                self.replies[batch[number]] = reply
        except LmmsEgoplanError:
            raise
        except Exception as error:  # backends raise many types of errors
            names = ", ".join(dict.fromkeys(sample_id for _, sample_id in batch))
            raise LmmsEgoplanError(f"sample_id {names}: {type(error).__name__}: {error}") from error
        self._media.clear()

    def _requests(self, batch: Sequence[Key]) -> list[Request]:
        """Return the requests of a batch. Decode its media, which are kept until it is asked."""
        keys = [key for key in {_frame_set(key): key for key in batch}.values() if _frame_set(key) not in self._media]
        with ThreadPoolExecutor() as pool:
            for key, media in zip(keys, pool.map(self._decode, keys), strict=True):
                self._media[_frame_set(key)] = media
                self._num_sets, self._num_images = self._num_sets + 1, self._num_images + len(media)
        return [self._request(*key) for key in batch]

    def _request(self, asked: Asked, sample_id: str) -> Request:
        doc, preset, media = (
            self.docs[sample_id],
            self._presets[asked.prompt],
            self._media[_frame_set((asked, sample_id))],
        )
        if asked.ranked:
            choices = closed_choices(doc) if preset.parser == LIKELIHOOD else doc["choices"]
            return Request(sample_id, doc["question"], media, {}, choices)
        arguments = {"until": [], **self._presets[asked.decoding].decoding}
        return Request(sample_id, prompt_of(preset, rotated(doc, asked.shift)), media, arguments)

    def _decode(self, key: Key) -> VisualInput:
        (asked, sample_id), presets = key, self._presets
        settings = {**presets[asked.media].media, "observation": presets[asked.observation].observation}
        try:
            return self._visuals.visual_input(self.docs[sample_id], settings)
        except (OSError, ValueError, LmmsEgoplanError) as error:
            raise LmmsEgoplanError(f"sample_id {sample_id}: {error}") from error

    def _store(self, record: Any) -> None:
        line = json.dumps(record).encode() + b"\n"
        with naming(self._path), self._path.open("ab") as file:
            file.truncate(self._size)  # without a damaged last line
            file.write(line)
        self._size += len(line)


def _frame_set(key: Key) -> tuple[str, str, str]:
    """Return a value that is equal if the same media are shown."""
    return key[1], key[0].media, key[0].observation


def _read_replies(path: Path, settings: Mapping[str, Any]) -> tuple[dict[Key, Reply], int]:
    """Return the replies in a JSON Lines file, and the size of its undamaged lines in bytes.

    The first line contains the settings, everything that the replies depend on. A damaged last line is ignored: its
    process was killed while it wrote.
    """
    known, size = dict[Key, Reply](), 0
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    for number, line in enumerate(lines, 1):
        where = f"{path}, line {number}"
        try:
            record: Any = read_as(dict if number == 1 else _Row, where, parse_record(where, line.decode()))
            if not line.endswith(b"\n"):
                break
        except (LmmsEgoplanError, ValueError) as error:
            if number == len(lines):
                break
            raise LmmsEgoplanError(f"{where}: damaged ({error}); remove the line, or all if it is the first") from error
        size += len(line)
        if number > 1:
            known[record.asked, record.sample_id] = record.reply
        elif changes := [f"{n}: {record.get(n)}, now {x}" for n, x in settings.items() if record.get(n) != x]:
            raise LmmsEgoplanError(f"{path}: replies with other settings ({'; '.join(changes)}); set another --out")
    return known, size
