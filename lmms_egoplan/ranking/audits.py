"""Decide which computation path ranks which kind of question, and record it.

A fast path may reproduce full passes on one question and fail on another. The rules:

1. Questions that the model computes in the same way form a kind: they have the same media and
   exceed the same limits of the model (`KindFinder`).
2. Each process chooses a path for each kind, on its first questions. The path must reproduce full
   passes; see `lmms_egoplan.ranking.equivalence`.
3. An audit compares a later question with full passes. Audited are the 2nd, 4th, 8th, ..., 512th
   question of a kind, one in 512 after these, and questions that exceed all earlier ones in a size
   (`Kind.needs_audit`).
4. An audit never changes a score. If it fails, the run ends, and the path is not used again
   (`PathLedger`). If the path was forced, the results contain the difference instead
   (`ranking_flaw`).
5. A path that is inexact for one question is inexact for its kind. If a process rejects a path that
   another one used for the same kind, no score of the run counts. `PathLedger.note` finds this
   during a run with a cache, and in later ones; `summarize` checks all results at the end.

The import is cheap, because reports read these records, too: torch is not loaded.
"""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import member
from lmms_egoplan.memory_ahead import PEAK
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, PathUse

if TYPE_CHECKING:
    from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion

RANKING = "ranking"
"""Name of the entry of a task's details about its paths."""

# Beyond this many questions of a kind, one in this many is audited.
AUDITED_EVERY = 512

# Folder of the ledgers in a harness's cache.
_FOLDER = "lmms_egoplan_paths"

# Names of a text model's settings that limit a length, in tokens. Beyond the limit, the computation
# changes. Examples: sliding windows, chunks of attention or of a recurrent scan, keys in sparse
# attention, rotary frequencies.
_LIMIT = re.compile(
    r"""
    ^(?!.*(?:layers|pattern))  # these count layers, or list their types
    .*(?:
        window | chunk | block_size | local_attention$ | index_topk$
        | original_max_position | original_max_seq
    )
    """,
    re.VERBOSE,
)


class KindFinder:
    """Determine the kind of each question for one text model."""

    def __init__(self, text_config: Any) -> None:
        self._limits = sorted(set(_limits(text_config.to_dict())))

    def kind(self, question: "EncodedQuestion") -> str:
        """Return the media and the exceeded limits, such as ``image; past sliding_window``.

        ``past``: the context alone reaches the limit. ``across``: only the context with a candidate
        exceeds it.
        """
        pixels = [name for name in question.inputs if name.startswith("pixel_values")]
        media = sorted({"video" if "video" in name else "image" for name in pixels})
        parts = [" and ".join(media) or "text"]
        for name, limit in self._limits:
            if question.prefix_length >= limit:
                parts.append(f"past {name} {limit}")
            elif question.prefix_length + question.longest_candidate > limit:
                parts.append(f"across {name} {limit}")
        return "; ".join(parts)

    def room(self, question: "EncodedQuestion") -> int | None:
        """Return the longest candidate, in tokens, that crosses no further limit.

        None if unlimited.
        """
        rooms = [
            limit - question.prefix_length
            for _, limit in self._limits
            if limit > question.prefix_length
        ]
        return min(rooms, default=None)


@dataclass(frozen=True)
class Extent:
    """Sizes of a question. Each may push a path beyond a limit, even one that no setting names.

    Attributes:
        visuals: Number of images and video frames.
        pixels: Number of their values.
        pixels_per_visual: The same per image or frame.
        context: Length of the context: up to 64 tokens, and four steps per doubling beyond.
        candidate: Length of the longest candidate: up to 16, 32, 64, ... tokens.
    """

    visuals: int = 0
    pixels: int = 0
    pixels_per_visual: int = 0
    context: int = 0
    candidate: int = 0

    @classmethod
    def of_question(cls, question: "EncodedQuestion") -> "Extent":
        """Measure a question."""
        pixels = sum(
            value.numel()
            for name, value in question.inputs.items()
            if name.startswith("pixel_values")
        )
        return cls(
            visuals=question.num_visuals,
            pixels=pixels,
            pixels_per_visual=pixels // max(1, question.num_visuals),
            context=math.ceil(4 * math.log2(max(64, question.prefix_length))),
            candidate=max(15, question.longest_candidate - 1).bit_length(),
        )

    def exceeds(self, other: "Extent") -> bool:
        """Return whether any size is larger than the other question's."""
        sizes = zip(astuple(self), astuple(other), strict=True)
        return any(size > other_size for size, other_size in sizes)

    def united(self, other: "Extent") -> "Extent":
        """Return the larger one of each size."""
        sizes = zip(astuple(self), astuple(other), strict=True)
        return Extent(*(max(pair) for pair in sizes))


@dataclass
class Kind:
    """State of one kind of questions in one process.

    Attributes:
        path: The chosen path; None before the choice.
        count: Number of its questions so far.
        extent: The largest sizes with which the path was compared with full passes.
    """

    path: str | None = None
    count: int = 0
    extent: Extent = Extent()

    def needs_audit(self, question: "EncodedQuestion") -> bool:
        """Return whether the kind's latest question is audited (rule 3)."""
        if Extent.of_question(question).exceeds(self.extent):
            return True
        return is_audited(self.count, question.candidates)

    def note_comparison(self, question: "EncodedQuestion") -> None:
        """Note that the path was compared with full passes on this question."""
        self.extent = self.extent.united(Extent.of_question(question))


def is_audited(count: int, candidates: Sequence["CandidateTokens"]) -> bool:
    """Return whether a kind's count-th question is audited.

    These are the 2nd, 4th, ..., 512th, and then those that a hash of the tokens selects.
    """
    if count <= AUDITED_EVERY:
        return count > 1 and count & (count - 1) == 0
    digest = hashlib.sha256(repr([candidate.tokens for candidate in candidates]).encode()).digest()
    return int.from_bytes(digest[:8], "big") % AUDITED_EVERY == 0


class PathLedger:
    """Record of the paths that produced a harness's cached responses, and of those that failed.

    A response from a failed path must not be served again, and the path must not be used again.
    Each entry is a separate empty file next to the cache. This way several processes can write at
    the same time, and an interrupted process leaves no partial file.

    Args:
        cache: Folder of the harness's cache.
        identity: Identifies the model, its settings and the version of the ranking.
    """

    def __init__(self, cache: str | Path, identity: str) -> None:
        self._folder = Path(cache) / _FOLDER / _digest(identity)
        self._noted: set[tuple[str, str]] = set()

    def failed(self) -> list[str]:
        """Return the paths that have failed, sorted."""
        return self._paths("failed-")

    def exclude_failed(self, identity: str, *exclude: Callable[[Sequence[str]], None]) -> str:
        """Exclude failed paths; return the identity of responses without these paths."""
        failed = self.failed()
        for function in exclude:
            function(failed)
        return " without ".join([identity, *failed])

    def note(self, use: PathUse, question_id: str) -> None:
        """Record how a question was ranked.

        Raises:
            PathError: A path was used for questions of this kind and is inexact for another, in any
                process or earlier run.
            OSError: The ledger cannot be written.
        """
        from lmms_egoplan.ranking.question import PathError  # loads torch

        is_noted = (use.kind, use.path) in self._noted
        if is_noted and not use.rejected:
            return
        kind = _digest(use.kind)
        used_prefix = f"used-{kind}-"
        rejected_prefix = f"rejected-{kind}-"
        # Write before reading: if two processes do this at the same time, at least one sees the
        # other's entry.
        self._write(used_prefix, [use.path])
        self._write(rejected_prefix, use.rejected)
        self._noted.add((use.kind, use.path))
        used = self._paths(used_prefix)
        rejected = self._paths(rejected_prefix)
        tried = (use.path, *use.rejected)
        inexact = [path for path in rejected if path in used and path in tried]
        if inexact:
            self.fail(rejected)
            raise PathError(
                inexact, use.kind, "its mean losses differ from those of full passes", question_id
            )

    def fail(self, paths: Sequence[str]) -> None:
        """Record that these paths are inexact. Later runs will not use them."""
        self._write("failed-", paths)

    def _write(self, prefix: str, paths: Sequence[str]) -> None:
        """Write an entry with this prefix for each path."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            (self._folder / f"{prefix}{path}").touch()

    def _paths(self, prefix: str) -> list[str]:
        """Return the paths that have an entry with this prefix, sorted."""
        return sorted(file.name.removeprefix(prefix) for file in self._folder.glob(f"{prefix}*"))


def ranking_details(scores: Sequence[Loglikelihood]) -> dict[str, dict[str, Any]]:
    """Return a question's entry `RANKING`; empty if the backend does not record its path.

    Args:
        scores: The scores of the question's candidates.
    """
    use = next((score.use for score in scores if score.use is not None), None)
    if use is None:
        return {}
    rejected = list(use.rejected)
    return {RANKING: asdict(use) | {"rejected": rejected, "memory_ahead": PEAK.num_bytes}}


def summarize(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarize the ranking paths of a task.

    Args:
        entries: The entries of the questions, see `ranking_details`.

    Returns:
        - ``audits``: number of audited questions, those also computed by full passes
        - ``difference``: largest difference of a mean loss from its full pass in any audit, nats;
          absent without audits
        - ``tolerance``: largest tolerance of any audit for this difference, nats
        - ``noise``: largest measured change of a mean loss by rounding, nats; absent if no backend
          measured it
        - ``near_ties``: number of questions whose best candidate leads by less than the possible
          effect of rounding
        - ``memory_ahead``: the most memory, MiB, that one process used to read ahead of the model
        - ``note``: notes about the backend for readers of the results; absent without any

    Raises:
        LmmsEgoplanError: A question rejected a path on which other questions of its kind were
            ranked.

    >>> question = {
    ...     "kind": "image", "path": "packed", "rejected": [], "audit": None, "tolerance": 1e-4,
    ...     "near_tie": False, "memory_ahead": 2**20,
    ... }
    >>> summarize([question, question | {"audit": 2e-06}, question | {"audit": 0.0}])
    {'audits': 2, 'near_ties': 0, 'memory_ahead': 1.0, 'difference': 2e-06, 'tolerance': 0.0001}
    """
    _refuse_rejected_paths(entries)
    audited = [entry for entry in entries if entry["audit"] is not None]
    summary: dict[str, Any] = {
        "audits": len(audited),
        "near_ties": sum(entry["near_tie"] for entry in entries),
        "memory_ahead": max(entry["memory_ahead"] for entry in entries) / 2**20,
    }
    largest = {
        "difference": [entry["audit"] for entry in audited],
        "tolerance": [entry["tolerance"] for entry in audited],
        "noise": [entry.get("noise") for entry in entries],
    }
    for name, values in largest.items():
        known = [value for value in values if value is not None]
        if known:
            summary[name] = max(known)
    notes = sorted({entry["note"] for entry in entries if entry.get("note")})
    if notes:
        summary["note"] = "; ".join(notes)
    return summary


def _refuse_rejected_paths(entries: Sequence[Mapping[str, Any]]) -> None:
    """Check that no question was ranked on a path that is inexact for its kind of question.

    Raises:
        LmmsEgoplanError: See `summarize`.
    """
    used: dict[tuple[str, str], int] = defaultdict(int)
    for entry in entries:
        used[entry["kind"], entry["path"]] += 1
    for entry in entries:
        for path in entry["rejected"]:
            count = used.get((entry["kind"], path))
            if count:
                raise LmmsEgoplanError(
                    f"{count} questions ({entry['kind']}) were ranked on the path {path}, which is "
                    "inexact for another question of that kind. Do not use any score of this run. "
                    "Repeat it with --model_args ...,ranking_path=full, which runs a full pass "
                    "per candidate"
                )


def failed_audits(details: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return one message for each task of a run whose forced path failed an audit.

    Args:
        details: The details of each task.

    >>> failed_audits({"task": {"ranking": {"difference": 0.5, "tolerance": 1e-4}}})
    ['task: ranking differs from full passes by 0.5 nats, more than 0.0001']
    >>> failed_audits({"task": {"num_questions": 4}, "not answered": float("nan")})
    []
    """
    messages = []
    for task in details:
        # Without an answered question, lm-eval has NaN in place of a task's details.
        objection = ranking_flaw(member(details, task, RANKING) or {})
        if objection:
            messages.append(f"{task}: {objection}")
    return messages


def ranking_flaw(ranking: Mapping[str, Any]) -> str | None:
    """Return a message if an audit's difference from full passes exceeds the tolerance.

    Args:
        ranking: A task's summary, see `summarize`; empty without one.
    """
    difference = ranking.get("difference")
    tolerance = ranking.get("tolerance")
    if difference is None or tolerance is None or not difference > tolerance:
        return None
    return f"ranking differs from full passes by {difference:.2g} nats, more than {tolerance:.2g}"


def _limits(settings: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _limits(value)
        elif (
            _LIMIT.search(str(name))
            and isinstance(value, int)
            and not isinstance(value, bool)
            and value > 1
        ):
            yield name, value


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
