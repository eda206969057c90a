"""Read the letter of a written answer, and score it.

`reply` has the parsers. A reader combines them into what a task reports of a reply.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lmms_egoplan.benchmarks.aggregations import Score, Values, score_value
from lmms_egoplan.benchmarks.egoplan.metrics import (
    ScoredSplit,
    accuracy,
    prediction_value,
    question_details,
    question_values,
)
from lmms_egoplan.benchmarks.egoplan.published_readers import READERS
from lmms_egoplan.benchmarks.egoplan.reply import first_letter, parse_letter, parse_reasoned
from lmms_egoplan.generated_reply import is_truncated
from lmms_egoplan.media.sampling import Doc


@dataclass(frozen=True)
class Reading:
    """What a reader finds in a reply.

    Attributes:
        letter: The letter that is scored; None if there is none.
        is_unparsed: Whether ``unparsed`` counts the reply.
        clear: What `read_clear` finds, for readers that score another letter. Its accuracy is
            ``acc_clear``.
        parts: Texts by name, in the order of the reply, for replies that have parts; else None.
    """

    letter: str | None
    is_unparsed: bool
    clear: "Reading | None" = None
    parts: Mapping[str, str] | None = None

    @property
    def is_scored(self) -> bool:
        """Whether the reply has an accuracy. Without a letter, it is wrong, unless it has parts."""
        return self.letter is not None or self.parts is None

    @property
    def is_complete(self) -> bool:
        """Whether a reply with parts has all of them, in the order in which they are asked for."""
        parts = self.parts or {}
        return [*parts] == ["progress", "observation", "plan"] and all(parts.values())


Reader = Callable[[str, Sequence[str]], Reading]
"""Takes a reply as generated, with its thoughts, and the texts of the question's choices."""


def read_clear(reply: str, choices: Sequence[str]) -> Reading:
    """Read the letter that a reply clearly claims.

    >>> read_clear("The answer is (C).", ["open", "take", "close", "cut"]).letter
    'C'
    """
    letter = parse_letter(reply, choices)
    return Reading(letter, is_unparsed=letter is None)


def read_reasoned(reply: str, choices: Sequence[str]) -> Reading:
    r"""Read a reply with a summary, a description and a letter (App. B.2).

    >>> reading = read_reasoned("Task progress: Nothing.\nCurrent observation: A sink.", [])
    >>> reading.letter, reading.parts, reading.is_scored, reading.is_complete
    (None, {'progress': 'Nothing.', 'observation': 'A sink.'}, False, False)
    """
    letter, parts = parse_reasoned(reply, choices)
    return Reading(letter, is_unparsed=letter is None, parts=parts)


def read_as_published(reply: str, choices: Sequence[str]) -> Reading:
    """Read a reply as EgoPlan-Bench2's eval.py does; ``unparsed`` counts unclear letters.

    >>> reading = read_as_published("Add it, so B", ["open", "take", "close", "cut"])
    >>> reading.letter, reading.clear.letter
    ('A', 'B')
    """
    clear = read_clear(reply, choices)
    return Reading(first_letter(reply), clear.is_unparsed, clear=clear)


def pipeline_reader(parser: str) -> Reader:
    """Return a reader that reads as a published pipeline does.

    Args:
        parser: Name in `READERS`.

    >>> reading = pipeline_reader("first_capital")("Let me see. B", [])
    >>> reading.letter, reading.clear.letter
    ('L', None)
    """
    parse = READERS[parser]

    def read(reply: str, choices: Sequence[str]) -> Reading:
        letter = parse(reply)
        return Reading(letter, is_unparsed=letter is None, clear=read_clear(reply, choices))

    return read


def score_letter(doc: Doc, reply: str, split: ScoredSplit, reader: Reader) -> Values:
    r"""Score one question that was answered in writing.

    Args:
        doc: Row of the prepared dataset, with ``golden_choice_idx``.
        reply: The reply as generated, with its thoughts.
        split: The question's split.
        reader: Reads the reply.

    Returns:
        - ``acc`` and the accuracy of the question's part. A reply without a letter is wrong. If it
          has parts, it has no accuracy instead, and lowers ``coverage``
        - ``unparsed``: 1 for `Reading.is_unparsed`, else 0
        - ``incomplete`` for replies with parts: 1 if one is missing, or they are in another order,
          as in a truncated reply; else 0
        - ``truncated``: 1 if the limit on new tokens ended the reply, else 0; without a score if
          unknown
        - the values of `question_values`
        - ``acc_clear`` if the reader has `Reading.clear`
        - ``details``: ``predictions``, the sample id and the letter, and for replies with parts
          also the texts of ``progress`` and ``observation``, None if missing; ``truncated_of``,
          and the entries of `question_details`

    >>> from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL
    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens",
    ...     "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    ...     "split_size": 3355,
    ... }
    >>> score_letter(doc, "The answer is (C).", EGOPLAN_VAL, read_clear)["acc"]
    {'cluster': 'P01_01', 'score': 0.0}
    >>> reply = "Task progress: Nothing.\nCurrent observation: A sink."
    >>> values = score_letter(doc, reply, EGOPLAN_VAL, read_reasoned)
    >>> "acc" in values, values["unparsed"]["score"], values["incomplete"]["score"]
    (False, 1.0, 1.0)
    >>> values["details"]["predictions"]
    {'sample_id': 7, 'prediction': None, 'progress': 'Nothing.', 'observation': 'A sink.'}
    """
    reading = reader(reply, doc["choices"])
    values: Values = {}
    if reading.is_scored:
        is_right = _is_right(doc, reading)
        values["acc"] = is_right
        values[split.part_metric(doc)] = is_right
    if reading.clear is not None:
        values["acc_clear"] = _is_right(doc, reading.clear)
    values["unparsed"] = accuracy(doc, reading.is_unparsed)
    if reading.parts is not None:
        values["incomplete"] = accuracy(doc, not reading.is_complete)
    truncated = is_truncated(reply)
    values["truncated"] = score_value(truncated, doc["video_id"])
    values |= question_values(doc, split, scored=reading.is_scored)
    values["details"] = {
        "predictions": prediction_value(doc, reading.letter) | _texts(reading),
        "truncated_of": int(truncated is not None),
        **question_details(doc),
    }
    return values


def _is_right(doc: Doc, reading: Reading) -> Score:
    return accuracy(doc, reading.letter == doc["golden_choice_idx"])


def _texts(reading: Reading) -> dict[str, str | None]:
    """Return the texts of a reply with parts that its samples contain."""
    if reading.parts is None:
        return {}
    return {name: reading.parts.get(name) for name in ("progress", "observation")}
