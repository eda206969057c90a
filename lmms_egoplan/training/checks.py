"""Check samples before training: their texts, media and lengths.

Also choose questions to test shared passes.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch.utils.data import DataLoader

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.ranking.question import ContextTooLongError, EncodedQuestion
from lmms_egoplan.training.questions import AnswerEncoder
from lmms_egoplan.training.samples import Drawn, Sample
from lmms_egoplan.validation import listing, quoted, refuse


def check_texts(encoder: AnswerEncoder, parts: Iterable[Sequence[Sample]]) -> None:
    """Check that the model reads all texts as plain text.

    Raises:
        LmmsEgoplanError: A question, answer or negative contains a media placeholder or a special
            token. Names the first 20.
    """
    problems = []
    for sample in chain.from_iterable(parts):
        for field, text in sample.texts():
            reserved = encoder.reserved_text(text)
            if reserved:
                problems.append(
                    f"{sample.name}, {field}: contains {reserved}, which this model does not read "
                    f"as plain text: {quoted(text)}"
                )
    refuse(problems, "", f"{len(problems)} texts cannot be learned:")


def check_samples(
    encoder: AnswerEncoder,
    parts: Iterable[Sequence[Sample]],
    workers: int,
    process: int = 0,
    processes: int = 1,
) -> None:
    """Encode all samples once, or a process's share of them, with a progress bar.

    Args:
        workers: Number of additional processes that encode samples.
        process: Index of this process.
        processes: Number of training processes, among which the samples are divided.

    Raises:
        LmmsEgoplanError: The media of a sample cannot be read, or a sample cannot be encoded or
            does not fit the model. Names the first 20.
    """
    # The loader treats the sequence as a Dataset.
    share: Any = [*chain.from_iterable(parts)][process::processes]
    # Use a separate generator, because the loader would change the random numbers of the weights.
    check = partial(_problem, encoder)
    generator = torch.Generator()
    loader: DataLoader[str | None] = DataLoader(
        share, None, num_workers=workers, collate_fn=check, generator=generator
    )
    tracked = track(share, "Checking samples")
    problems = [problem for _, problem in zip(tracked, loader, strict=True) if problem]
    if problems:
        raise LmmsEgoplanError(
            f"{len(problems)} of {len(share)} samples cannot be used:\n{listing(problems)}"
        )


def probes(encoder: AnswerEncoder, parts: Iterable[Sequence[Sample]]) -> Iterator[EncodedQuestion]:
    """Yield a question with several candidates for each kind of media (clips, images, text).

    Samples with negatives come first. The candidates are an answer, the longest negative if there
    is one, and words of the question, so there are always at least two.
    """
    chosen: list[Sample] = []
    for samples in parts:
        richest = {min(sample.num_visuals, 2): sample for sample in sorted(samples, key=_richness)}
        chosen += richest.values()
    kinds = set()
    for sample in sorted(chosen, key=_richness, reverse=True):
        question, answer = sample.turns[0]
        words = " ".join(question.split()[:12])
        candidates = dict.fromkeys(
            filter(None, (answer, max(sample.negatives, key=len, default=None), words))
        )
        drawn = Drawn(sample, 0, None)
        try:
            encoded = encoder.encode_choices(drawn, list(candidates))
        except ContextTooLongError:  # The words did not fit.
            encoded = encoder.encode_choices(drawn, list(candidates)[:-1])
        kind = frozenset(name for name in encoded.inputs if name.startswith("pixel_values"))
        if kind not in kinds:
            kinds.add(kind)
            yield encoded


def _problem(encoder: AnswerEncoder, sample: Sample) -> str | None:
    """Return why a sample cannot be encoded with its last answer and all negatives, or None."""
    drawn = Drawn(sample, len(sample.turns) - 1, None)
    try:
        if sample.negatives:
            encoder.encode_choices(drawn, [*drawn.answers, *sample.negatives])
        else:
            encoder.encode(drawn)
    except LmmsEgoplanError as error:
        return str(error)
    except (OSError, ValueError) as error:  # raised by processors
        return f"{sample.name}: {error}"
    return None


def _richness(sample: Sample) -> tuple[bool, int, int]:
    return bool(sample.negatives), sample.num_visuals, max(map(len, sample.negatives), default=0)
