"""Which videos and frames the questions need, for the publishers' downloaders."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.egoplan.clips import progress_span
from lmms_egoplan.benchmarks.egoplan.clock import frames_per_second
from lmms_egoplan.benchmarks.egoplan.records import EPIC_KITCHENS, Shown


@dataclass(frozen=True)
class Spans:
    """Frames of a video that questions need: first and last number of each run, increasing, without overlaps."""

    source: str
    video_id: str
    runs: tuple[tuple[int, int], ...]

    @property
    def num_frames(self) -> int:
        return sum(last - first + 1 for first, last in self.runs)

    @property
    def seconds(self) -> float:
        return self.num_frames / frames_per_second(self.source, self.video_id)


def needed_spans(records: Iterable[Shown]) -> list[Spans]:
    """The frames that any task may read, of each video, by source and id.

    >>> from types import SimpleNamespace
    >>> def record(first, last):
    ...     return SimpleNamespace(
    ...         video_source="Ego4D", video_id="v", first_frame=first, current_observation_frame=last
    ...     )
    >>> needed_spans([record(90, 99), record(0, 40), record(30, 50)])
    [Spans(source='Ego4D', video_id='v', runs=((0, 50), (90, 99)))]
    """
    spans: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for record in records:
        spans.setdefault((record.video_source, record.video_id), []).append(progress_span(record))
    return [Spans(*video, tuple(_merged(runs))) for video, runs in sorted(spans.items())]


def participants(videos: Sequence[Spans]) -> list[str]:
    """EPIC-KITCHENS' participants in whose kitchens the videos were taken, sorted."""
    return sorted({video.video_id.split("_")[0] for video in videos if video.source == EPIC_KITCHENS})


def ids_of(videos: Sequence[Spans], source: str) -> list[str]:
    """The ids of a source's videos, sorted."""
    return [video.video_id for video in videos if video.source == source]


def frames_csv(videos: Sequence[Spans]) -> str:
    """A line for each run of frames, numbered as in the annotations: EPIC-KITCHENS' from 1, Ego4D's from 0."""
    lines = ["video_source,video_id,first_frame,last_frame"]
    lines += [f"{video.source},{video.video_id},{first},{last}" for video in videos for first, last in video.runs]
    return "\n".join(lines) + "\n"


def hours(videos: Sequence[Spans], source: str) -> float:
    """Hours of a source that questions need."""
    return sum(video.seconds for video in videos if video.source == source) / 3600


def _merged(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged
