"""Samples as questions with answers, tokenised in worker processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion
from lmms_egoplan.training.samples import Drawn, Message, Mix

VIDEO_FRAMES = 8
"""Frames of a video file, as of each clip."""


class AnswerEncoder:
    """Makes model inputs of what is drawn of a sample.

    A sample with negatives is encoded as ranking does it: no token behind the answer. The others are answers that the
    model is to write, so the token that ends the turn is learned with them.

    reserved_text, token_counts: as of `QuestionEncoder`.

    Args:
        positions: of the model, which a context and its longest answer must not exceed; None for no limit.
    """

    def __init__(self, processor: Any, *, is_encoder_decoder: bool, positions: int | None = None) -> None:
        self.positions = positions
        self._ranked = QuestionEncoder(processor, is_encoder_decoder=is_encoder_decoder)
        self._written = QuestionEncoder(processor, is_encoder_decoder=is_encoder_decoder, score_eos=True)
        self._media = MediaLoader(VIDEO_FRAMES, takes_video=self._ranked.takes_video)
        self.reserved_text, self.token_counts = self._ranked.reserved_text, self._ranked.token_counts

    def encode(self, drawn: Drawn, *, with_negative: bool = True) -> EncodedQuestion:
        """Encode the question with its answer first, then its negative, if it is drawn and wanted.

        Raises:
            LmmsEgoplanError: what is shown cannot be read, an answer cannot be told from its context, or both do not
                fit the model.
        """
        answers = drawn.answers if with_negative else drawn.answers[:1]
        encoder = self._ranked if drawn.sample.negatives else self._written
        return self._fitting(encoder.encode(self.load(drawn), answers, drawn.sample.name), drawn)

    def encode_choices(self, drawn: Drawn, choices: Sequence[str]) -> EncodedQuestion:
        """Encode the question with these answers; raises as `encode`."""
        return self._fitting(self._ranked.encode(self.load(drawn), choices, drawn.sample.name), drawn)

    def load(self, drawn: Drawn) -> list[Message]:
        """Read what is shown; see `Drawn.messages`."""
        return drawn.messages(self._media)

    def _fitting(self, question: EncodedQuestion, drawn: Drawn) -> EncodedQuestion:
        context, answer = question.prefix_length, question.longest_candidate
        if self.positions is not None and context + answer > self.positions:
            raise ContextTooLongError(
                f"{drawn.sample.name}: turns and visuals: {context} tokens of context, with {question.num_visuals} "
                f"images or frames, and {answer} of the answer exceed the model's {self.positions} positions; shorten "
                "the record's texts or leave it out, or show fewer frames (num_clips, frames_per_clip)"
            )
        return question


@dataclass(frozen=True)
class Failed:
    """A question that cannot be encoded, and why: a worker process hands it on to the main one, which raises it."""

    message: str


class Questions(Dataset):
    """The questions of a run, in its order, encoded when asked for.

    Args:
        length: places of the run.
        with_negatives: whether negatives are encoded, too.
    """

    def __init__(self, mix: Mix, encoder: AnswerEncoder, length: int, *, with_negatives: bool) -> None:
        self._mix = mix
        self._encoder = encoder
        self._length = length
        self._with_negatives = with_negatives

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> EncodedQuestion | Failed:
        drawn = self._mix.at(place)
        try:
            return self._encoder.encode(drawn, with_negative=self._with_negatives)
        except LmmsEgoplanError as error:
            return Failed(str(error))
        except (OSError, ValueError) as error:  # of a processor
            return Failed(f"{drawn.sample.name}: {error}")


def collate(questions: list[EncodedQuestion | Failed]) -> dict[str, Any]:
    """Make a batch; questions are not padded, each is computed by itself."""
    return {"questions": questions}
