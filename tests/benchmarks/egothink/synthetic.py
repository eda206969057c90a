"""Generate EgoThink questions and random answers from a seed."""

import random
from pathlib import Path

from benchmarks.egothink.source import raw_records, write_source
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from report.answers import Answers

EGOTHINK_TASKS = {
    f"egothink_{dimension.capability}_{dimension.name}": dimension for dimension in DIMENSIONS
}


def egothink_docs(dimension, count):
    """Return questions of a dimension, by its name."""
    (entry,) = (entry for entry in DIMENSIONS if entry.name == dimension)
    return [
        {"id": f"{dimension}/{number}", "dimension": dimension, "split_size": count}
        | {"question_set": "official"}
        | {name: raw[name] for name in ("question", "answer")}
        for number, raw in enumerate(raw_records(entry, count), 1)
    ]


def egothink_answers(
    dimension, count, mean, seed=0, judge="org/judge", unjudged=0.0, truncated=0.1
):
    """Return answers rated 0, 0.5 or 1 with mean `mean`; fractions of them are unjudged or
    truncated.
    """
    chance, docs, responses = (
        random.Random(f"{dimension} {seed}"),
        egothink_docs(dimension, count),
        [],
    )
    for doc in docs:
        rating = (
            None
            if chance.random() < unjudged
            else 0.5 * sum(chance.random() < mean for _ in range(2))
        )
        judgement, error = (
            (None, "no reply") if rating is None else (f"Close. Rating: [[{rating}]]", None)
        )
        answer, cut = f"an answer to {doc['id']}", chance.random() < truncated
        judged = JudgedAnswer(doc["id"], answer, cut, False, rating, judgement, judge, error)
        responses.append([judged.to_text()])
    return Answers(docs, responses)


def egothink_bench(count, mean, seed=0, **args):
    """Return answers of all twelve tasks, for `write_run`."""
    return {
        task: egothink_answers(dimension.name, count, mean, seed, **args)
        for task, dimension in EGOTHINK_TASKS.items()
    }


def prepare(folder: Path, count: int) -> None:
    """Prepare `count` questions per dimension in `folder`, which must be ``LMMS_EGOPLAN_DATA``."""
    prepare_egothink(write_source(folder / "media" / "egothink", count))
