"""EgoPlan's metrics: what a harness collects of each question."""

from collections.abc import Sequence
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench1.records import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.bench1.splits import OFFICIAL
from lmms_egoplan.benchmarks.egoplan.metrics import Values, score_choices, score_letter, score_private_choices
from lmms_egoplan.media.sampling import Doc


def score_ranking(doc: Doc, responses: Sequence[Any]) -> Values:
    """Values of one validation question, ranked by likelihood.

    Args:
        doc: a row of the prepared dataset, with ``golden_choice_idx``.
        responses: one per choice, as `parse_loglikelihood` reads them.

    Returns:
        Those of `score_test_ranking`, and ``acc``, ``acc_sum``, ``acc_bytes`` and one of
        ``acc_epic_kitchens`` and ``acc_ego4d`` (as ``acc``). An accuracy is absent where `Ranking` has None:
        a question that could not be scored counts for no accuracy, only against ``coverage``.

    Raises:
        ValueError: a response cannot be read, or not one per choice.

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"], "split_size": 3355,
    ... }
    >>> values = score_ranking(doc, [(2.5, False), (1.5, True), (3.0, False), (2.0, False)])  # losses, nats per token
    >>> values["acc"]
    {'score': 1.0, 'video_id': 'P01_01'}
    >>> values["predictions"]["prediction"]
    'B'
    """
    return score_choices(doc, responses, [SOURCE_METRIC[doc["video_source"]]], OFFICIAL["val"])


def score_test_ranking(doc: Doc, responses: Sequence[Any]) -> Values:
    """Values of one question whose answer is private.

    Returns:
        Those of `score_private_choices`.

    Raises:
        ValueError: as for `score_ranking`.

    >>> doc = {"sample_id": 7, "video_id": "P01_01", "choices": ["open the tap", "take a cup"], "split_size": 923}
    >>> values = score_test_ranking(doc, [(2.5, False), (1.5, True)])
    >>> sorted(values), values["predictions"]["prediction"]
    (['coverage', 'num_questions', 'predictions', 'question_set', 'split_size', 'ties'], 'B')
    """
    return score_private_choices(doc, responses, OFFICIAL["test"])


def score_reply(doc: Doc, replies: Sequence[str]) -> Values:
    """Values of one validation question that was answered in writing.

    Args:
        doc: a row of the prepared dataset, with ``golden_choice_idx``.
        replies: one text.

    Returns:
        ``acc`` and one of ``acc_epic_kitchens`` and ``acc_ego4d``: over all questions, a reply without a
        readable letter is wrong; ``unparsed``: share of such replies; ``predictions``, ``coverage`` (a reply
        of any kind covers its question), ``split_size``, ``question_set``, ``num_questions``.

    >>> doc = {
    ...     "sample_id": 7, "video_id": "P01_01", "video_source": "EpicKitchens", "golden_choice_idx": "B",
    ...     "choices": ["open the tap", "take a cup", "close the door", "cut the bread"], "split_size": 3355,
    ... }
    >>> score_reply(doc, ["The answer is (C)."])["acc"]
    {'score': 0.0, 'video_id': 'P01_01'}
    """
    return score_letter(doc, replies, [SOURCE_METRIC[doc["video_source"]]], OFFICIAL["val"])
