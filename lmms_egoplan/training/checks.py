"""Check samples before training: texts, lengths and media.

Also choose questions to test shared passes.
"""

import pickle
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

_BATCH = 4096
# Maximum number of samples to encode, longest first, whose images of unknown sizes may make them
# too long.
_ENCODED = 32


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


def check_lengths(encoder: AnswerEncoder, parts: Iterable[Sequence[Sample]]) -> None:
    """Encode the longest samples of each part.

    Also encode up to 32 others that may exceed the model's positions.

    A sample's length is estimated from the tokens of its texts and the largest number of tokens of
    an encoded image. Other images may be larger, so each sample is checked again when it is drawn.

    Raises:
        LmmsEgoplanError: A sample cannot be encoded or does not fit the model.
    """
    for samples in parts:
        tokens = _token_counts(encoder, samples)
        longest = max(range(len(samples)), key=tokens.__getitem__)
        richest = max(
            range(len(samples)), key=lambda index: (samples[index].num_visuals, tokens[index])
        )
        bare = min(
            range(len(samples)), key=lambda index: (samples[index].num_visuals, -tokens[index])
        )
        encoded = {
            index: _length(encoder, samples[index])
            for index in dict.fromkeys((richest, longest, bare))
        }
        if encoder.positions is None:
            continue
        overheads = {index: length - tokens[index] for index, length in encoded.items()}
        fixed = 0 if samples[bare].num_visuals else overheads[bare]
        cost = max(
            overhead / max(1, samples[index].num_visuals) for index, overhead in overheads.items()
        )
        bounds = {
            index: tokens[index] + fixed + cost * sample.num_visuals
            for index, sample in enumerate(samples)
            if index not in encoded
        }
        doubtful = sorted(
            (index for index in bounds if bounds[index] > encoder.positions),
            key=lambda i: -bounds[i],
        )
        for index in doubtful[:_ENCODED]:
            _length(encoder, samples[index])


def check_media(
    encoder: AnswerEncoder,
    parts: Iterable[Sequence[Sample]],
    workers: int,
    process: int = 0,
    processes: int = 1,
) -> None:
    """Read all media once, or a process's share of them, with a progress bar.

    Args:
        workers: Number of additional processes that read media.
        process: Index of this process.
        processes: Number of training processes, among which the media are divided.

    Raises:
        LmmsEgoplanError: Media cannot be read. Names the first 20 samples.
    """
    by_media = {
        pickle.dumps(sample.visuals): sample
        for samples in parts
        for sample in samples
        if sample.num_visuals
    }
    # The loader treats the sequence as a Dataset.
    share: Any = [*by_media.values()][process::processes]
    # Use a separate generator, because the loader would change the random numbers of the weights.
    check = partial(_media_problem, encoder)
    generator = torch.Generator()
    loader: DataLoader[str | None] = DataLoader(
        share, None, num_workers=workers, collate_fn=check, generator=generator
    )
    tracked = track(share, "Checking images and videos")
    problems = [problem for _, problem in zip(tracked, loader, strict=True) if problem]
    if problems:
        raise LmmsEgoplanError(
            f"{len(problems)} of {len(share)} sets of images and videos cannot be "
            f"read:\n{listing(problems)}"
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


def _media_problem(encoder: AnswerEncoder, sample: Sample) -> str | None:
    """Return why a sample's media cannot be read, or None."""
    try:
        encoder.load(Drawn(sample, 0, None))
    except LmmsEgoplanError as error:
        return str(error)
    return None


def _richness(sample: Sample) -> tuple[bool, int, int]:
    return bool(sample.negatives), sample.num_visuals, max(map(len, sample.negatives), default=0)


def _token_counts(encoder: AnswerEncoder, samples: Sequence[Sample]) -> list[int]:
    """Count the tokens of each sample's texts, with only the longest of answer and negatives."""
    texts = list({text for sample in samples for _, text in sample.texts()})
    counts: dict[str, int] = {}
    for first in range(0, len(texts), _BATCH):
        batch = texts[first : first + _BATCH]
        counts |= zip(batch, encoder.token_counts(batch), strict=True)
    totals = []
    for sample in samples:
        *context, answer = [text for turn in sample.turns for text in turn]
        totals.append(
            sum(counts[text] for text in context)
            + max(counts[t] for t in (answer, *sample.negatives))
        )
    return totals


def _length(encoder: AnswerEncoder, sample: Sample) -> int:
    """Return the token count of a sample's longest context with its longest answer."""
    negative = max(sample.negatives, key=lambda text: encoder.token_counts([text]), default=None)
    question = encoder.encode(Drawn(sample, len(sample.turns) - 1, negative))
    return question.prefix_length + question.longest_candidate
