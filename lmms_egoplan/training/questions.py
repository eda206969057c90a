"""Samples as questions with answers, tokenised in worker processes."""

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset

from lmms_egoplan.media.messages import MediaLoader
from lmms_egoplan.ranking.encoding import QuestionEncoder
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.mix import Mix
from lmms_egoplan.training.samples import Drawn

VIDEO_FRAMES = 8
"""Frames of a video file, as of each clip."""


class AnswerEncoder:
    """Makes model inputs of what is drawn of a sample.

    A sample with negatives is encoded as ranking does it: no token behind the answer. The others are answers that the
    model is to write, so the token that ends the turn is learned with them.
    """

    def __init__(self, processor: Any, is_encoder_decoder: bool) -> None:
        self._ranked = QuestionEncoder(processor, is_encoder_decoder, score_eos=False)
        self._written = QuestionEncoder(processor, is_encoder_decoder, score_eos=True)
        self._media = MediaLoader(self._ranked.takes_video, VIDEO_FRAMES)

    def encode(self, drawn: Drawn, with_negative: bool = True) -> EncodedQuestion:
        """The question with its answer first, then its negative, if it is drawn and wanted.

        Raises:
            LmmsEgoplanError: what is shown cannot be read, or an answer cannot be told from its context.
        """
        answers = drawn.answers if with_negative else drawn.answers[:1]
        encoder = self._ranked if drawn.sample.negatives else self._written
        return encoder.encode(drawn.messages(self._media), answers, drawn.sample.name)

    def encode_choices(self, drawn: Drawn, choices: Sequence[str]) -> EncodedQuestion:
        """The question with these answers."""
        return self._ranked.encode(drawn.messages(self._media), choices, drawn.sample.name)


class Questions(Dataset):
    """The questions of a run, in its order, encoded when asked for.

    Args:
        length: places of the run.
        with_negatives: whether negatives are encoded, too.
    """

    def __init__(self, mix: Mix, encoder: AnswerEncoder, length: int, with_negatives: bool) -> None:
        self._mix = mix
        self._encoder = encoder
        self._length = length
        self._with_negatives = with_negatives

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: int) -> EncodedQuestion:
        return self._encoder.encode(self._mix.at(place), self._with_negatives)


def collate(questions: list[EncodedQuestion]) -> dict[str, Any]:
    """A batch; questions are not padded, each is computed by itself."""
    return {"questions": questions}
