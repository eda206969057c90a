"""EgoPlan-Bench2 in lm-eval's shape: the classes and functions that this folder's YAML files name."""

from lmms_egoplan.benchmarks.egoplan.bench2 import protocol
from lmms_egoplan.benchmarks.egoplan.bench2.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.bench2.visuals import visual_input
from lmms_egoplan.harnesses.lm_eval import choices
from lmms_egoplan.harnesses.lm_eval.choices import Doc, behind_frames, doc_to_text, frames  # noqa: F401
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages


class Ranking(choices.RankedChoices):
    """The choices ranked behind frames and question."""

    PREPARED = PREPARED


class Replies(choices.Letters):
    """Letters, written after frames and question."""

    PREPARED = PREPARED


def doc_to_image(doc: Doc) -> LazyImages:
    """Evenly spaced frames from the task's start, the observation last."""
    return frames("EgoPlan-Bench2", visual_input, doc)


def doc_to_lettered_text(doc: Doc) -> str:
    """The published prompt behind its images."""
    return behind_frames(doc, protocol.lettered_question(doc))


def doc_to_thinking_text(doc: Doc) -> str:
    """The same for a model that thinks first."""
    return behind_frames(doc, protocol.thinking_question(doc))
