"""Define EgoThink's six capabilities and twelve dimensions (sec. 3.1).

The counts of Table 4 are included.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter

from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.paths import module_rows


@dataclass(frozen=True)
class Dimension:
    """One dimension, with the rows of Table 4.

    Concepts, scenes and videos cannot be counted from the release, because its records do not name
    them.

    Attributes:
        name: Name in ids (``<name>/<n>``), prepared splits and result tables.
        capability: One of six capabilities.
        folder: Folder in the official repository, with ``annotations.json`` and ``images/``.
        hub_config: Config of the dataset ``EgoThink/EgoThink`` on the hub.
        question_words: Mean length of questions in words (LenQ).
        answer_words: Mean length of answers in words (LenA).
        question_types: Number of question types by interrogative word (TypeQ).
        concepts: Number of different objects and activities that images, questions and answers are
            about (#Concept).
        scenes: Number of different scenes (#Scene).
        videos: Number of videos from which the images are (#Video).
    """

    name: str
    capability: str
    folder: str
    hub_config: str
    question_words: float
    answer_words: float
    question_types: int
    concepts: int
    scenes: int
    videos: int

    @property
    def instances(self) -> int:
        """Number of questions."""
        return EGOTHINK.official[self.name]

    @property
    def task(self) -> str:
        """Name of the task in both harnesses."""
        return f"egothink_{self.capability}_{self.name}"


DIMENSIONS = TypeAdapter(tuple[Dimension, ...]).validate_python(module_rows(__file__))
"""In the order of Tables 3 and 4."""
BY_NAME = {dimension.name: dimension for dimension in DIMENSIONS}
DIMENSION_NAMES = tuple(BY_NAME)


def dimension_of(question_id: str) -> str:
    """Return the name of the dimension in an id: ``"existence"`` for ``"existence/1"``."""
    return question_id.partition("/")[0]


def capability_of(question_id: str) -> str:
    """Return the capability of the dimension in an id: ``"object"`` for ``"existence/1"``."""
    return BY_NAME[dimension_of(question_id)].capability
