"""Generate seeded steps of EgoIntent and answers to them."""

import random
from pathlib import Path

from benchmarks.egointent.source import raw_record, write_annotations, write_videos
from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from report.answers import Answers


def egointent_docs(count):
    """Return steps of twelve videos in five scenarios; three scenarios are indoors."""
    return [
        record
        | {
            "unverified": False,
            "video_path": f"/nowhere/{record['video_id']}.mp4",
            "split_size": count,
        }
        | {"question_set": "official"}
        | {"num_frames": 3, "num_frames_with_history": 3}
        for record in _egointent_records(count)
    ]


def egointent_answers(
    count, mean, seed=0, judge="org/judge", missing=0.05, unjudged=0.0, truncated=0.1
):
    """Return fields rated around `mean` of 100; `missing`, `unjudged` and `truncated` are
    fractions.
    """
    chance, docs, responses = random.Random(seed), egointent_docs(count), []
    for doc in docs:
        found_fields = [field for field in FIELDS if chance.random() >= missing]
        rated = {field for field in found_fields if chance.random() >= unjudged}
        levels = {field: float(min(100, max(0, round(chance.gauss(mean, 20))))) for field in FIELDS}
        step = GradedStep(
            step_id=doc["step_id"],
            fields={field: f"{doc[field]}, as predicted" for field in found_fields},
            ratings={
                field: levels[field] if field in rated else None if field in found_fields else 0.0
                for field in FIELDS
            },
            judgements={
                field: f"{levels[field]:.0f}" if field in rated else None for field in FIELDS
            },
            judges={field: judge if field in rated else None for field in FIELDS},
            errors={
                field: "no reply" if field in found_fields and field not in rated else None
                for field in FIELDS
            },
            suspect=[],
            truncated=chance.random() < truncated,
            frames_shown=doc["num_frames"],
            frames_sampled=doc["num_frames"],
        )
        responses.append([step.to_text()])
    return Answers(docs, responses)


def _egointent_records(count):
    scenarios = ("Assemble Furniture", "Make Tea", "Fold Laundry", "Cut Trees", "Wash Car")
    return [
        raw_record(
            number % 6 + 1,
            step_id=f"step-{number}",
            video_id=f"video-{number // 3 % 12}",
            scenario=scenarios[number % 5],
            category=None,
            environment="indoor" if number % 5 < 3 else "outdoor",
        )
        for number in range(count)
    ]


def prepare(folder: Path, count: int) -> None:
    """Prepare `count` steps below `folder`, which ``LMMS_EGOPLAN_DATA`` must name."""
    records = _egointent_records(count)
    videos = write_videos(
        folder / "media" / "egointent", {record["video_id"] for record in records}
    )
    prepare_egointent(write_annotations(folder / "media" / "steps.jsonl", records), videos)
