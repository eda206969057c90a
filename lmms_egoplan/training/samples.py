"""What a model is tuned on: dialogues about images and videos, with wrong answers to some questions.

`Mix` says which sample stands at which place of a run.
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

    name: names file and record in errors.
    turns: (question, answer) pairs, at least one. One is learned at a time; those before it are its context.
    negatives: wrong answers to the question, which then is the only one.
    visuals: reads what is shown before the first question, as `MediaLoader.messages` takes it; can be pickled. By
        default, nothing is shown.
    num_visuals: images and frames that it gives; reads nothing.
    fields: the record's names for questions and answers by turns, then negatives, in errors.
    """

    name: str
    turns: tuple[tuple[str, str], ...]
    negatives: tuple[str, ...] = ()
    visuals: Callable[[], Sequence[Any]] = list
    num_visuals: int = 0
    fields: tuple[str, ...] = ()

    def texts(self) -> Iterator[tuple[str, str]]:
        """Yield every question, answer and negative, with its field's name."""
        texts = [text for turn in self.turns for text in turn] + list(self.negatives)
        names = self.fields
        if len(names) != len(texts):
            turns = range(len(self.turns))
            names = tuple(f"{name}[{turn}]" for turn in turns for name in ("question", "answer"))
            names += tuple(f"negatives[{index}]" for index in range(len(self.negatives)))
        yield from zip(names, texts, strict=True)


@dataclass(frozen=True)
class Drawn:
    """What is learned of a sample when it is seen: a turn, and with it perhaps one wrong answer."""

    sample: Sample
    turn: int
    negative: str | None

    @property
    def answers(self) -> list[str]:
        """The answer and, if there is one, the negative."""
        answer = self.sample.turns[self.turn][1]
        return [answer] if self.negative is None else [answer, self.negative]

    def messages(self, media: MediaLoader) -> list[Message]:
        """Return the context of the answers, as chat messages.

        Raises:
            LmmsEgoplanError: what is shown cannot be read.
        """
        try:
            visuals = self.sample.visuals()
            messages = media.messages(self.sample.turns[0][0], visuals)
        except (OSError, ValueError, TypeError) as error:
            raise LmmsEgoplanError(f"{self.sample.name}: {error}") from error
        for (_, answer), (question, _) in zip(self.sample.turns, self.sample.turns[1 : self.turn + 1], strict=False):
            messages.append({"role": "assistant", "content": [{"type": "text", "text": answer}]})
            messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
        return messages


def draw(sample: Sample, seed: str) -> Drawn:
    """Draw one turn, and one negative if there are any, each equally likely; the same for the same seed."""
    generator = random.Random(seed)
    turn = generator.randrange(len(sample.turns))
    return Drawn(sample, turn, generator.choice(sample.negatives) if sample.negatives else None)


class Mix:
    """An endless order of samples, which hangs on the seed alone, so that a run can go on at any place of it.

    An epoch has as many places as there are samples in all. Without proportions each sample stands in it once. With
    them, each part has its share of the places; its samples come in turn, in a new order each time that all have come.

    Args:
        parts: samples by the name of their part; empty parts are left out.
        proportions: the parts' shares of an epoch, of any sum, 0 for parts that are not seen; by default their sizes.
        seed: of the order and of what is drawn of samples.

    Raises:
        LmmsEgoplanError: nothing is left to mix, a part has no proportion, or one names no part, or is negative.
    """

    def __init__(
        self, parts: Mapping[str, Sequence[Sample]], proportions: Mapping[str, float] | None = None, seed: int = 0
    ) -> None:
        self.parts = {name: samples for name, samples in parts.items() if samples}
        shares = {name: float(len(samples)) for name, samples in self.parts.items()}
        if proportions is not None:
            for name, share in proportions.items():
                if name not in parts:
                    raise LmmsEgoplanError(f"proportions: {name}: no such part; there are {', '.join(parts)}")
                if not 0 <= share < float("inf"):
                    raise LmmsEgoplanError(f"proportions: {name}: expected a number from 0, found {share}")
            shares = {name: float(proportions.get(name, 0)) for name in self.parts}
        self._names = [name for name, share in shares.items() if share > 0]
        if not self._names:
            counts = ", ".join(f"{name}: {len(samples)}" for name, samples in parts.items())
            listed = ", ".join(f"{name}: {share:g}" for name, share in (proportions or {}).items()) or "none given"
            raise LmmsEgoplanError(f"the mix is empty: proportions: {listed}; samples: {counts}")
        if unnamed := [name for name in self.parts if proportions is not None and name not in proportions]:
            raise LmmsEgoplanError(f"proportions: {unnamed[0]}: no share is given; 0 leaves the part out")
        total = sum(shares[name] for name in self._names)
        self.shares = {name: shares[name] / total for name in self._names}
        self.epoch_length = sum(len(self.parts[name]) for name in self._names)
        self._seed = seed
        self._cumulative = [[0] * len(self.shares)]

    def at(self, place: int) -> Drawn:
        """Return the sample at a place, counted from 0 over all epochs."""
        epoch, within = divmod(place, self.epoch_length)
        part, earlier = self._order(epoch)
        name = self._names[part[within]]
        samples = self.parts[name]
        rounds, index = divmod(int(earlier[within]) + self._places_before(epoch)[part[within]], len(samples))
        number = int(self._shuffled(name, rounds)[index])
        return draw(samples[number], f"{self._seed} {name} {number} {rounds}")

    def _places_before(self, epoch: int) -> list[int]:
        """Count each part's places in all earlier epochs; an epoch's places add up, and none is negative."""
        while len(self._cumulative) <= epoch:
            before = self._cumulative[-1]
            # The places up to each part and including it, as if the epochs were sorted by part.
            shares = np.cumsum([0.0, *self.shares.values()])
            shares[-1] = 1
            edges = pairwise(np.rint(shares * len(self._cumulative) * self.epoch_length).astype(int).tolist())
            counts = [max(0, stop - start - count) for (start, stop), count in zip(edges, before, strict=True)]
            for _ in range(sum(counts) - self.epoch_length):
                counts[counts.index(max(counts))] -= 1
            self._cumulative.append([count + own for count, own in zip(before, counts, strict=True)])
        return self._cumulative[epoch]

    @lru_cache(maxsize=4)  # noqa: B019
    def _order(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the part at each place of an epoch, and how many earlier places of the epoch that part has."""
        counts = np.subtract(self._places_before(epoch + 1), self._places_before(epoch))
        part = np.random.default_rng([self._seed, 1, epoch]).permutation(np.repeat(np.arange(len(counts)), counts))
        earlier = np.zeros(len(part), dtype=int)
        for index in range(len(counts)):
            own = part == index
            earlier[own] = np.arange(own.sum())
        return part, earlier

    @lru_cache(maxsize=16)  # noqa: B019
    def _shuffled(self, name: str, rounds: int) -> np.ndarray:
        return np.random.default_rng([self._seed, 2, self._names.index(name), rounds]).permutation(
            len(self.parts[name])
        )
