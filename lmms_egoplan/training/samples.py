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
        texts = [text for turn in self.turns for text in turn]
        return zip(self.fields, (*texts, *self.negatives), strict=True)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The part of a sample that is learned at one time: a turn, possibly with a wrong answer."""

    sample: Sample
    turn: int
    negative: str | None

    @property
    def answers(self) -> list[str]:
        """The answer, followed by the negative if one was drawn."""
        answer = self.sample.turns[self.turn][1]
        return [answer] if self.negative is None else [answer, self.negative]

    def messages(self, media: MediaLoader) -> list[Message]:
        """Return the context of the answers as chat messages.

        Raises:
            LmmsEgoplanError: The media cannot be read.
        """
        try:
            visuals = self.sample.visuals()
            messages = media.messages(self.sample.turns[0][0], visuals)
        except (OSError, ValueError, TypeError) as error:
            raise LmmsEgoplanError(f"{self.sample.name}: {error}") from error
        for (_, answer), (question, _) in zip(
            self.sample.turns, self.sample.turns[1 : self.turn + 1], strict=False
        ):
            messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
            messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
        return messages


def draw(sample: Sample, seed: str) -> Drawn:
    """Draw a turn, and a negative if there are any, each with equal probability.

    The same seed gives the same draw.
    """
    generator = random.Random(seed)
    turn = generator.randrange(len(sample.turns))
    return Drawn(sample, turn, generator.choice(sample.negatives) if sample.negatives else None)


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
        shares = {name: float(len(samples)) for name, samples in self.parts.items()}
        if proportions is not None:
            for name, share in proportions.items():
                if name not in parts:
                    raise LmmsEgoplanError(
                        f"proportions: {name}: unknown part; choose from {', '.join(parts)}"
                    )
                if not 0 <= share < float("inf"):
                    raise LmmsEgoplanError(
                        f"proportions: {name}: expected a finite number >= 0, found {share}"
                    )
            shares = {name: float(proportions.get(name, 0)) for name in self.parts}
        self._names = [name for name, share in shares.items() if share > 0]
        if not self._names:
            counts = ", ".join(f"{name}: {len(samples)}" for name, samples in parts.items())
            listed = (
                ", ".join(f"{name}: {share:g}" for name, share in (proportions or {}).items())
                or "none given"
            )
            raise LmmsEgoplanError(f"the mix is empty: proportions: {listed}; samples: {counts}")
        unnamed = [
            name for name in self.parts if proportions is not None and name not in proportions
        ]
        if unnamed:
            raise LmmsEgoplanError(
                f"proportions: {unnamed[0]}: missing share; set 0 to disable this part"
            )
        total = sum(shares[name] for name in self._names)
        self.shares = {name: shares[name] / total for name in self._names}
        self.epoch_length = sum(len(self.parts[name]) for name in self._names)
        self._seed = seed
        self._cumulative = [[0] * len(self.shares)]

    def at(self, position: int) -> Drawn:
        """Return the sample at a position, counted from 0 over all epochs."""
        epoch, within = divmod(position, self.epoch_length)
        part, earlier = self._order(epoch)
        name = self._names[part[within]]
        samples = self.parts[name]
        rounds, index = divmod(
            int(earlier[within]) + self._num_before(epoch)[part[within]], len(samples)
        )
        number = int(self._shuffled(name, rounds)[index])
        return draw(samples[number], f"{self._seed} {name} {number} {rounds}")

    def _num_before(self, epoch: int) -> list[int]:
        """Return the number of each part's positions in all earlier epochs.

        The counts of an epoch are not negative and sum to its length.
        """
        while len(self._cumulative) <= epoch:
            before = self._cumulative[-1]
            # Cumulative positions up to and including each part, as if the epochs were sorted by
            # part.
            shares = np.cumsum([0.0, *self.shares.values()])
            shares[-1] = 1
            edges = pairwise(
                np.rint(shares * len(self._cumulative) * self.epoch_length).astype(int).tolist()
            )
            counts = [
                max(0, stop - start - count)
                for (start, stop), count in zip(edges, before, strict=True)
            ]
            for _ in range(sum(counts) - self.epoch_length):
                counts[counts.index(max(counts))] -= 1
            self._cumulative.append(
                [total + count for total, count in zip(before, counts, strict=True)]
            )
        return self._cumulative[epoch]

    @lru_cache(maxsize=4)  # noqa: B019
    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the part at each position of an epoch.

        Also return that part's number of earlier positions in the epoch.
        """
        counts = np.subtract(self._num_before(epoch + 1), self._num_before(epoch))
        part = np.random.default_rng([self._seed, 1, epoch]).permutation(
            np.repeat(np.arange(len(counts)), counts)
        )
        earlier = np.zeros(len(part), dtype=int)
        for index in range(len(counts)):
            is_part = part == index
            earlier[is_part] = np.arange(is_part.sum())
        return part, earlier

    @lru_cache(maxsize=16)  # noqa: B019
    def _shuffled(self, name: str, rounds: int) -> np.ndarray:
        generator = np.random.default_rng([self._seed, 2, self._names.index(name), rounds])
        return generator.permutation(len(self.parts[name]))
