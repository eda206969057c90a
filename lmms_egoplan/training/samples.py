"""Define training samples: dialogues about images and videos, some with wrong answers.

`Mix` determines the order of samples in a run.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.messages import MediaLoader

Message = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A dialogue.

    Attributes:
        name: File and record, for errors.
        turns: (question, answer) pairs, at least one. One turn is learned at a time, with the
            earlier ones as context.
        negatives: Wrong answers to the question. Such a sample has only one question.
        visuals: Reads the media shown before the first question, as input for
            `MediaLoader.messages`. Picklable. By default, there are no media.
        num_visuals: Number of images and frames in `visuals`, known without reading them.
        fields: The record's field names, for errors: questions and answers by turn, then negatives.
    """

    name: str
    turns: tuple[tuple[str, str], ...]
    negatives: tuple[str, ...] = ()
    visuals: Callable[[], Sequence[Any]] = list
    num_visuals: int = 0
    fields: tuple[str, ...] = ()

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return every question, answer and negative with its field name."""
        texts: list[str] = []
        for question, answer in self.turns:
            texts += [question, answer]
        texts += self.negatives
        return zip(self.fields, texts, strict=True)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The part of a sample that is learned at one time: a turn, possibly with a wrong answer."""

    sample: Sample
    turn: int
    negative: str | None

    @property
    def answers(self) -> list[str]:
        """The answer, followed by the negative if one was drawn."""
        _, answer = self.sample.turns[self.turn]
        if self.negative is None:
            return [answer]
        return [answer, self.negative]

    def messages(self, media: MediaLoader) -> list[Message]:
        """Return the context of the answers as chat messages.

        Raises:
            LmmsEgoplanError: The media cannot be read.
        """
        turns = self.sample.turns[: self.turn + 1]
        first_question, _ = turns[0]
        try:
            visuals = self.sample.visuals()
            messages = media.messages(first_question, visuals)
        except (OSError, ValueError, TypeError) as error:
            raise LmmsEgoplanError(f"{self.sample.name}: {error}") from error
        for (_, answer), (question, _) in pairwise(turns):
            messages.append(_text_message("assistant", answer))
            messages.append(_text_message("user", question))
        return messages


def _text_message(role: str, text: str) -> Message:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def draw(sample: Sample, seed: str) -> Drawn:
    """Draw a turn, and a negative if there are any, each with equal probability.

    The same seed gives the same draw.
    """
    generator = random.Random(seed)
    turn = generator.randrange(len(sample.turns))
    negative = None
    if sample.negatives:
        negative = generator.choice(sample.negatives)
    return Drawn(sample, turn, negative)


@dataclass(frozen=True)
class _Order:
    """The order of an epoch.

    Attributes:
        parts: The part at each position.
        earlier: Number of this part's earlier positions in the epoch.
    """

    parts: np.ndarray
    earlier: np.ndarray


class Mix:
    """An endless order of samples.

    It depends only on the seed, so a run can resume at any position.

    An epoch has as many positions as there are samples in all. Without proportions, each sample
    appears once. With proportions, each part gets its share of the positions. A part's samples
    follow each other in random order, and are reshuffled after all have appeared.

    Args:
        parts: Samples by the name of their part. Empty parts are ignored.
        proportions: Shares of the parts in an epoch, with any sum; 0 disables a part. By default
            the parts' sizes.
        seed: Random seed for the order, the turns and the negatives.

    Raises:
        LmmsEgoplanError: The mix is empty, a part has no proportion, or a proportion is negative or
            names no part.
    """

    def __init__(
        self,
        parts: Mapping[str, Sequence[Sample]],
        proportions: Mapping[str, float] | None = None,
        seed: int = 0,
    ) -> None:
        self.parts = {name: samples for name, samples in parts.items() if samples}
        if proportions is None:
            shares = {name: float(len(samples)) for name, samples in self.parts.items()}
        else:
            _check_proportions(parts, proportions)
            shares = {name: float(proportions.get(name, 0)) for name in self.parts}
        self._names = [name for name, share in shares.items() if share > 0]
        if not self._names:
            raise LmmsEgoplanError(_empty_mix_message(parts, proportions or {}))
        for name in self.parts:
            if proportions is not None and name not in proportions:
                raise LmmsEgoplanError(
                    f"proportions: {name}: missing share; set 0 to disable this part"
                )
        total = sum(shares[name] for name in self._names)
        self.shares = {name: shares[name] / total for name in self._names}
        self.epoch_length = sum(len(self.parts[name]) for name in self._names)
        self._seed = seed
        self._cumulative = [[0] * len(self.shares)]

    def at(self, position: int) -> Drawn:
        """Return the sample at a position, counted from 0 over all epochs."""
        epoch, within = divmod(position, self.epoch_length)
        order = self._order(epoch)
        part = order.parts[within]
        name = self._names[part]
        samples = self.parts[name]
        num_earlier = self._num_before(epoch)[part] + int(order.earlier[within])
        rounds, index = divmod(num_earlier, len(samples))
        number = int(self._shuffled(name, rounds)[index])
        return draw(samples[number], f"{self._seed} {name} {number} {rounds}")

    def _num_before(self, epoch: int) -> list[int]:
        """Return the number of each part's positions in all earlier epochs.

        The counts of an epoch are not negative and sum to its length.
        """
        while len(self._cumulative) <= epoch:
            before = self._cumulative[-1]
            goals = self._goals(num_epochs=len(self._cumulative))
            counts = [max(0, goal - count) for goal, count in zip(goals, before, strict=True)]
            for _ in range(sum(counts) - self.epoch_length):
                largest = counts.index(max(counts))
                counts[largest] -= 1
            totals = [count + added for count, added in zip(before, counts, strict=True)]
            self._cumulative.append(totals)
        return self._cumulative[epoch]

    def _goals(self, num_epochs: int) -> list[int]:
        """Return each part's share of the positions in this many epochs, as whole numbers."""
        # Cumulative shares up to and including each part, as if the epochs were sorted by part.
        shares = np.cumsum([0.0, *self.shares.values()])
        shares[-1] = 1
        edges = np.rint(shares * num_epochs * self.epoch_length).astype(int)
        return [stop - start for start, stop in pairwise(edges.tolist())]

    @lru_cache(maxsize=4)  # noqa: B019
    def _order(self, epoch: int) -> _Order:
        """Return the order of an epoch."""
        counts = np.subtract(self._num_before(epoch + 1), self._num_before(epoch))
        sorted_parts = np.repeat(np.arange(len(counts)), counts)
        generator = np.random.default_rng([self._seed, 1, epoch])
        parts = generator.permutation(sorted_parts)
        earlier = np.zeros(len(parts), dtype=int)
        for part in range(len(counts)):
            is_part = parts == part
            earlier[is_part] = np.arange(is_part.sum())
        return _Order(parts, earlier)

    @lru_cache(maxsize=16)  # noqa: B019
    def _shuffled(self, name: str, rounds: int) -> np.ndarray:
        """Return the order of a part's samples after so many rounds of all of them."""
        part = self._names.index(name)
        generator = np.random.default_rng([self._seed, 2, part, rounds])
        return generator.permutation(len(self.parts[name]))


def _check_proportions(
    parts: Mapping[str, Sequence[Sample]], proportions: Mapping[str, float]
) -> None:
    """Raise if a proportion names no part, or is negative or not finite."""
    for name, share in proportions.items():
        if name not in parts:
            raise LmmsEgoplanError(
                f"proportions: {name}: unknown part; choose from {', '.join(parts)}"
            )
        if not 0 <= share < float("inf"):
            raise LmmsEgoplanError(
                f"proportions: {name}: expected a finite number >= 0, found {share}"
            )


def _empty_mix_message(
    parts: Mapping[str, Sequence[Sample]], proportions: Mapping[str, float]
) -> str:
    sizes = ", ".join(f"{name}: {len(samples)}" for name, samples in parts.items())
    shares = ", ".join(f"{name}: {share:g}" for name, share in proportions.items())
    return f"the mix is empty: proportions: {shares or 'none given'}; samples: {sizes}"
