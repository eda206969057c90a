"""Write EgoPlan-Bench2's published record and 200 records derived from real step annotations, with
small videos.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.egoplan.derived_questions import DATA, derive, render_media

DERIVED = 200
EXAMPLES = DATA / "egoplan" / "examples.json"
DOMAINS = ("Daily life", "Work", "Hobbies", "Recreation")
LEAD = 3

Record = dict[str, Any]


def example() -> Record:
    (record,) = json.loads(EXAMPLES.read_text(encoding="utf-8"))["EgoPlan_Bench2"]
    return record


def write_questions(folder: Path) -> list[Record]:
    """Write ``annotations.json`` and ``ego4d/`` in `folder`; return the records, the published one
    last.

    A task starts up to three frames before its first action.
    """
    derived = [record for record in derive(2 * DERIVED) if record["video_source"] == "Ego4D"]
    assert len(derived) == DERIVED
    published_record = example()
    video_id = published_record["sample_id"].split("_")[0]
    published = published_record | {
        "video_source": "Ego4D",
        "video_id": video_id,
        "sample_id": DERIVED,
    }
    rendered = render_media([*derived, published], folder)
    records = [as_bench2(record) for record in rendered.records]
    records[-1] |= {name: published_record[name] for name in ("sample_id", "domain", "scenario")}
    assert records[-1].keys() == published_record.keys()
    rendered.annotations.write_text(json.dumps({"EgoPlan_Bench2": records}), encoding="utf-8")
    return records


def as_bench2(record: Record) -> Record:
    """Return a question of EgoPlan-Bench in EgoPlan-Bench2's layout."""
    number, actions = record["sample_id"], record["task_progress_metadata"]
    first = actions[0]["start_frame"] if actions else record["current_observation_frame"]
    new_fields = {
        "sample_id": f"{record['video_id']}_{number}",
        "domain": DOMAINS[number % 4],
        "scenario": f"scenario {number % 23}",
        "task_start_frame": max(0, first - LEAD),
    }
    return {
        name: value
        for name, value in (record | new_fields).items()
        if name not in ("video_source", "video_id", "question")
    }
