"""Write narrations in Ego4D's layout."""

import json


def narrated(*narrations, summaries=("C makes tea in the kitchen",)):
    """Return a pass with narrations, each (seconds, text)."""
    return {
        "narrations": [
            {
                "narration_text": text,
                "timestamp_sec": seconds,
                "timestamp_frame": round(seconds * 30),
                "annotation_uid": f"uid-{number}",
            }
            for number, (seconds, text) in enumerate(narrations)
        ],
        "summaries": [
            {"start_sec": 0, "end_sec": 4, "summary_text": f"#Summary {text}"} for text in summaries
        ],
    }


def write_narrations(path, videos, wrapped=False):
    path.write_text(json.dumps({"videos": videos} if wrapped else videos), encoding="utf-8")
    return path
