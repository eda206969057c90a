"""People's ratings of answers, as ``annotate export`` writes them."""

from typing import Annotated

from pydantic import Field

from lmms_egoplan.validation import AnyText, Checked, Expected, Text

# The file of rated answers in an export.
PEOPLE = "people.jsonl"


class RatedAnswer(Checked):
    """An answer with the mean of people's ratings, 0 to 1."""

    id: Text
    model: Text
    answer: AnyText
    rating: Annotated[float, Field(ge=0, le=1), Expected("a number from 0 to 1")]
