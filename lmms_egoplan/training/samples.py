"""What a model is tuned on: dialogues about images and videos, with wrong answers to some questions."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
