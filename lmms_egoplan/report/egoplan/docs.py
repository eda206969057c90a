"""The questions that were asked: as prepared, or as lm-eval logs them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.answers import Questions, Series
from lmms_egoplan.report.prepared import read_prepared
from lmms_egoplan.report.scores import Answer, Key

# The least number of past actions in each bin. The paper does not state the bins of Fig. 8.
BINS_OF_PAST_ACTIONS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}


def read_docs(tasks: Sequence[Series], questions: Questions) -> tuple[dict[Key, Doc], str | None]:
    """Read the questions that were asked. Also return why prepared questions are missing.

    Questions that are not prepared are taken from lm-eval's log, if possible of a run's main
    task.

    Args:
        tasks: The runs' tasks, the main tasks first.
        questions: The benchmark's questions.
    """
    answers: list[tuple[Key, Answer]] = []
    for task in reversed(tasks):
        answers += (task.answers or {}).items()
    videos = {key: answer.cluster for key, answer in answers}
    for key, answer in answers:
        if answer.cluster:
            videos[key] = answer.cluster
    logged = {key: answer.doc for key, answer in answers if answer.doc}
    if not videos:
        return logged, None
    prepared, problem = read_prepared(partial(_prepared_docs, questions, videos))
    return {**logged, **prepared}, problem


def _prepared_docs(questions: Questions, videos: Mapping[Key, str | None]) -> dict[Key, Doc]:
    """Read the prepared questions.

    Args:
        questions: The benchmark's questions.
        videos: The video of each question to read; None if it is unknown.
    """
    docs: dict[Key, Doc] = {}
    rows: Iterable[Doc] = questions.prepared.load(questions.split)
    for row in rows:
        key = (row["split_size"], row["sample_id"], row["golden_choice_idx"])
        if key in videos and videos[key] in (None, row["video_id"]):
            docs[key] = row
    return docs


def references(doc: Doc) -> dict[str, str]:
    """Return goal and past actions of a question, by title."""
    done = "; ".join(action["narration_text"] for action in doc["past_actions"])
    return {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"}


def bin_of_past_actions(doc: Doc) -> str:
    """Return the bin of a question's number of past actions."""
    count = len(doc["past_actions"])
    bins = [name for name, least in BINS_OF_PAST_ACTIONS.items() if count >= least]
    return bins[-1]
