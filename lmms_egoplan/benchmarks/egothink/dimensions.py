"""EgoThink's six capabilities and twelve dimensions (sec. 3.1), and what the paper counts of each (Table 4)."""

from dataclasses import dataclass

from pydantic import TypeAdapter

from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.paths import rows_beside


@dataclass(frozen=True)
class Dimension:
    """One dimension, with Table 4's countable rows.

    Not countable from the release: #Concept, which annotators found in images, questions and answers, and #Scene and
    #Video, since the records name neither.

    name: in ids (``<name>/<n>``), prepared splits and result tables.
    capability: one of six.
    folder: in the official repository, with ``annotations.json`` and ``images/``.
    hub_config: in the dataset ``EgoThink/EgoThink`` on the hub.
    question_words, answer_words: mean lengths (LenQ, LenA).
    question_types: kinds of questions by their interrogative word (TypeQ).
    """

    name: str
    capability: str
    folder: str
    hub_config: str
    question_words: float
    answer_words: float
    question_types: int

    @property
    def instances(self) -> int:
        """Number of questions."""
        return EGOTHINK.official[self.name]

    @property
    def task(self) -> str:
        """Name of its task, in both harnesses."""
        return f"egothink_{self.capability}_{self.name}"


DIMENSIONS = TypeAdapter(tuple[Dimension, ...]).validate_python(rows_beside(__file__))
"""In the order of Tables 3 and 4."""
BY_NAME = {dimension.name: dimension for dimension in DIMENSIONS}
DIMENSION_NAMES = tuple(BY_NAME)


def dimension_of(question_id: str) -> str:
    """Return the name of the dimension in an id: ``"existence"`` for ``"existence/1"``."""
    return question_id.partition("/")[0]


def capability_of(question_id: str) -> str:
    """Return the capability of the dimension in an id: ``"object"`` for ``"existence/1"``."""
    return BY_NAME[dimension_of(question_id)].capability
