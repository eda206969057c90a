"""EgoIntent in lm-eval's shape: the class and functions that this folder's YAML file names."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from lmms_egoplan.benchmarks.egointent.grading import DEFAULT_JUDGE, JUDGE_VERSION, Prediction, grade  # noqa: F401
from lmms_egoplan.benchmarks.egointent.prepared import PREPARED
from lmms_egoplan.benchmarks.egointent.prompt import PROMPT_VERSION, prompt_text  # noqa: F401
from lmms_egoplan.benchmarks.egointent.visuals import num_shown, visual_input
from lmms_egoplan.lm_eval_adapter.lazy_images import IMAGE_PLACEHOLDER, LazyImages, images_name
from lmms_egoplan.lm_eval_adapter.task import Answered, JudgedTask
from lmms_egoplan.processes import is_first_process


class Steps(JudgedTask):
    """What, why and next for steps that are cut off before their outcome."""

    PREPARED = PREPARED
    COUNTS = ("max_frames",)
    DEFAULT_JUDGE = DEFAULT_JUDGE

    def score(self, answers: Sequence[Answered]) -> list[str]:
        predictions = [
            Prediction.of_reply(answer.doc, answer.text, None, num_shown(answer.doc, _settings(answer.doc)))
            for answer in answers
        ]
        return [step.to_text() for step in grade(predictions, self.judge(), show_progress=is_first_process())]


def doc_to_image(doc: Mapping[str, Any]) -> LazyImages:
    """The step's frames up to its truncation point."""
    shown = images_name("EgoIntent", doc, f"step {doc['step_id']}, {doc['shown']['max_frames']} frames")
    return LazyImages(shown, partial(visual_input, doc, _settings(doc)))


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """The request for the three fields behind the step's images."""
    return IMAGE_PLACEHOLDER * num_shown(doc, _settings(doc)) + prompt_text(doc)


def _settings(doc: Mapping[str, Any]) -> dict[str, Any]:
    return {"media": "frames", **doc["shown"]}
