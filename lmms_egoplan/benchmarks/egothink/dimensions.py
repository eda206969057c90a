"""EgoThink's six capabilities and twelve dimensions (sec. 3.1), and what the paper counts of each (Table 4)."""

from dataclasses import dataclass

PLANNING = "planning"


@dataclass(frozen=True)
class Dimension:
    """One dimension, with Table 4's countable rows.

    Not countable from the release: #Concept, which annotators found in images, questions and answers, and #Scene and
    #Video, since the records name neither.

    name: in ids (``<name>/<n>``), prepared splits and result tables.
    capability: one of six.
    folder: in the official repository, with ``annotations.json`` and ``images/``.
    hub_config: in the dataset ``EgoThink/EgoThink`` on the hub.
    instances: number of questions.
    question_words, answer_words: mean lengths (LenQ, LenA).
    question_types: kinds of questions by their interrogative word (TypeQ).
    """

    name: str
    capability: str
    folder: str
    hub_config: str
    instances: int
    question_words: float
    answer_words: float
    question_types: int

    @property
    def task(self) -> str:
        """Name of its task, in both harnesses."""
        return f"egothink_{self.capability}_{self.name}"

    @property
    def is_planning(self) -> bool:
        """Whether answers are detailed plans, not a few words (appendix C)."""
        return self.capability == PLANNING


# In the order of Tables 3 and 4.
DIMENSIONS = (
    Dimension("existence", "object", "Object/existence", "Object_existence", 50, 6.82, 1.60, 2),
    Dimension("attribute", "object", "Object/attribute", "Object_attribute", 50, 10.92, 2.14, 2),
    Dimension("affordance", "object", "Object/affordance", "Object_affordance", 50, 11.56, 1.82, 3),
    Dimension("activity", "activity", "Activity", "Activity", 100, 4.71, 2.42, 2),
    Dimension("location", "localization", "Localization/location", "Localization_location", 50, 6.96, 2.10, 4),
    Dimension("spatial", "localization", "Localization/spatial", "Localization_spatial", 50, 9.84, 1.90, 5),
    Dimension("counting", "reasoning", "Reasoning/counting", "Reasoning_counting", 50, 9.92, 1.64, 3),
    Dimension("comparison", "reasoning", "Reasoning/comparing", "Reasoning_comparing", 50, 15.42, 2.92, 4),
    Dimension("situated", "reasoning", "Reasoning/situated", "Reasoning_situated", 50, 8.10, 1.96, 5),
    Dimension("forecasting", "forecasting", "Forecast", "Forecasting", 100, 8.92, 2.31, 6),
    Dimension("navigation", PLANNING, "Planning/navigation", "Planning_navigation", 50, 8.62, 18.44, 3),
    Dimension("assistance", PLANNING, "Planning/assistance", "Planning_assistance", 50, 12.98, 19.12, 3),
)
DIMENSION_NAMES = tuple(dimension.name for dimension in DIMENSIONS)


def dimension_of(question_id: str) -> str:
    """The dimension that an id names: ``"existence"`` of ``"existence/1"``."""
    return question_id.partition("/")[0]
