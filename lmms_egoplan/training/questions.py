"""Encode samples as questions with answers, in worker processes."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch.utils.data import Dataset

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion
from lmms_egoplan.training.samples import Drawn, Message, Mix

VIDEO_FRAMES = 8
"""Number of frames from a video file, the same as from a clip."""


class AnswerEncoder:
    """Encode the drawn part of a sample as model inputs.

    Samples with negatives are encoded as for ranking, without a token after the answer. Other
    answers include the token that ends the turn, because the model must learn to write it.

    Attributes:
        reserved_text: As in `QuestionEncoder`.

    Args:
        positions: The model's maximum number of tokens for a context and its longest answer; None
            for no limit.
        apply_chat_template: As in `QuestionEncoder`.
        token_types: As in `QuestionEncoder`.

    Raises:
        RankingError: As in `QuestionEncoder`.
    """

    def __init__(
        self,
        processor: Any,
        *,
        is_encoder_decoder: bool,
        positions: int | None = None,
        apply_chat_template: bool = True,
        token_types: bool = False,
    ) -> None:
        self.positions = positions
        encoder = partial(
            QuestionEncoder,
            processor,
            is_encoder_decoder=is_encoder_decoder,
            apply_chat_template=apply_chat_template,
            token_types=token_types,
        )
        self._ranked = encoder()
        self._written = encoder(score_eos=True)
        self._media = MediaLoader(VIDEO_FRAMES, takes_video=self._ranked.takes_video)
        self.reserved_text = self._ranked.reserved_text

    def encode(self, drawn: Drawn, *, with_negative: bool = True) -> EncodedQuestion:
        """Encode the question with its answer.

        Its negative follows if one was drawn and `with_negative` is set.

        Raises:
            LmmsEgoplanError: The media cannot be read, an answer cannot be separated from its
                context, or both exceed the model's positions.
        """
        answers = drawn.answers if with_negative else drawn.answers[:1]
        encoder = self._ranked if drawn.sample.negatives else self._written
        return self._fitting(encoder.encode(self.load(drawn), answers, drawn.sample.name), drawn)

    def encode_choices(self, drawn: Drawn, choices: Sequence[str]) -> EncodedQuestion:
        """Encode the question with these answers. Raises the same errors as `encode`."""
        return self._fitting(
            self._ranked.encode(self.load(drawn), choices, drawn.sample.name), drawn
        )

    def load(self, drawn: Drawn) -> list[Message]:
        """Read the media; see `Drawn.messages`."""
        return drawn.messages(self._media)

    def _fitting(self, question: EncodedQuestion, drawn: Drawn) -> EncodedQuestion:
        context = question.prefix_length
        answer = question.longest_candidate
        if self.positions is not None and context + answer > self.positions:
            raise ContextTooLongError(
                f"{drawn.sample.name}: turns and visuals: the context of {context} tokens (with "
                f"{question.num_visuals} images or frames) and the answer of {answer} exceed the "
                f"model's {self.positions} positions; shorten the record's texts, remove the "
                "record, or show fewer frames (num_clips, frames_per_clip)"
            )
        return question


class Questions(Dataset):
    """The questions of a run in order, encoded on demand.

    If a question cannot be encoded, a worker process passes the reason to the main process, which
    raises it.

    Args:
        length: Number of positions in the run.
        with_negatives: Whether to encode negatives.
    """

    def __init__(
        self, mix: Mix, encoder: AnswerEncoder, length: int, *, with_negatives: bool
    ) -> None:
        self._mix = mix
        self._encoder = encoder
        self._length = length
        self._with_negatives = with_negatives

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> EncodedQuestion | str:
        drawn = self._mix.at(position)
        try:
            return self._encoder.encode(drawn, with_negative=self._with_negatives)
        except LmmsEgoplanError as error:
            return str(error)
        except (OSError, ValueError) as error:  # raised by processors
            return f"{drawn.sample.name}: {error}"


def collate(questions: list[EncodedQuestion | str]) -> dict[str, Any]:
    """Create a batch. Questions are not padded, because each is computed separately."""
    return {"questions": questions}
