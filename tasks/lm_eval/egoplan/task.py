"""EgoPlan in lm-eval's shape: the classes and functions that this folder's YAML files name."""

from lmms_egoplan.benchmarks.egoplan.bench1 import protocol
from lmms_egoplan.benchmarks.egoplan.bench1.protocol import narrated_question  # noqa: F401
from lmms_egoplan.benchmarks.egoplan.bench1.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.bench1.visuals import visual_input
from lmms_egoplan.harnesses.lm_eval import choices
from lmms_egoplan.harnesses.lm_eval.choices import Doc, behind_frames, doc_to_text, frames  # noqa: F401
from lmms_egoplan.harnesses.lm_eval.lazy_images import LazyImages
from lmms_egoplan.harnesses.lm_eval.task import RankedTask


class BlindRanking(RankedTask):
    """The candidates ranked behind a text alone."""

    PREPARED = PREPARED


class Ranking(choices.RankedChoices):
    """The candidates ranked behind frames and question."""

    PREPARED = PREPARED


class Replies(choices.Letters):
    """Letters, written after frames and question."""

    PREPARED = PREPARED


def doc_to_image(doc: Doc) -> LazyImages:
    """Evenly spaced frames of the progress, the observation last."""
    return frames("EgoPlan", visual_input, doc)


def doc_to_lettered_text(doc: Doc) -> str:
    """The question with lettered choices behind its images."""
    return behind_frames(doc, protocol.lettered_question(doc))


def doc_to_thinking_text(doc: Doc) -> str:
    """The same for a model that thinks first."""
    return behind_frames(doc, protocol.thinking_question(doc))
