"""How the classifier is trained (sec. 4.2.2)."""

from dataclasses import dataclass

from lmms_egoplan.benchmarks.actplan.bleurt import Positives, Shuffled

_LARGE = 1024


@dataclass(frozen=True)
class Recipe:
    """Settings of training; the defaults are the paper's, where it gives them.

    learning_rate: None for the paper's (`paper_learning_rate`).
    max_length: of a pair in tokens; no more than the encoder has positions for.
    seed: of the head's weights, the pairs, their order and dropout.
    positives: ``mixed`` pairs any two correct plans in any order, since "gold plans and correct plans are mixed to form
        positive sentence pairs"; ``gold-first`` puts a gold plan first, since "x is a sentence for gold plan". Sec.
        4.2.2 has both sentences.
    shuffled: whose gold plans are shuffled for negative pairs: those of all training instances of the same
        ``activity`` ("randomly shuffled gold plan with same activity"), or of the same ``instance`` alone.
    """

    epochs: int = 70
    learning_rate: float | None = None
    batch_size: int = 12
    max_length: int = 512
    seed: int = 0
    positives: Positives = "mixed"
    shuffled: Shuffled = "activity"


def paper_learning_rate(hidden_size: int) -> float:
    """5e-6 with an encoder of BERT-large's hidden size or more (BLEURT), else 1e-6 (BLEURT-base)."""
    return 5e-6 if hidden_size >= _LARGE else 1e-6
