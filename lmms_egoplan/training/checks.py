"""Check samples before training: their texts and media, and that they fit the model.

Also choose questions that test padded batches.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from accelerate.utils import gather_object
from torch.utils.data import DataLoader

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.progress import track
from lmms_egoplan.ranking.question import EncodedQuestion
from lmms_egoplan.training.passes import kind
from lmms_egoplan.training.questions import AnswerEncoder
from lmms_egoplan.training.samples import Drawn, Sample
from lmms_egoplan.validation import listing, quoted, refuse

_OTHER_ANSWERS = ("yes", "no, not yet")


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
    """Encode all samples once, with a progress bar. Each process encodes its share.

    Args:
        workers: Number of additional processes that encode samples.
        process: Index of this process.
        processes: Number of training processes, among which the samples are divided.

    Raises:
        LmmsEgoplanError: The media of a sample cannot be read, or a sample cannot be encoded or
            does not fit the model. Names the first 20 of all processes.
    """
    samples = [*chain.from_iterable(parts)]
    # The loader treats the sequence as a Dataset.
    share: Any = samples[process::processes]
    # Use a separate generator, because the loader would change the random numbers of the weights.
    check = partial(_problem, encoder)
    generator = torch.Generator()
    loader: DataLoader[str | None] = DataLoader(
        share, None, num_workers=workers, collate_fn=check, generator=generator
    )
    tracked = track(share, "Checking samples")
    numbered = enumerate(zip(tracked, loader, strict=True))
    problems = [
        (process + index * processes, problem) for index, (_, problem) in numbered if problem
    ]
    if processes > 1:
        problems = sorted(gather_object(problems))
    if problems:
        raise LmmsEgoplanError(
            f"{len(problems)} of {len(samples)} samples cannot be used:\n"
            f"{listing([problem for _, problem in problems])}"
        )


def probes(
    encoder: AnswerEncoder, parts: Iterable[Sequence[Sample]]
) -> list[list[EncodedQuestion]]:
    """Return batches of two questions, or one, for each kind of media (`passes.kind`).

    The samples are the first two of each part of the mix with no image, with one, and with several.
    The first question of a batch has two candidates, the second one three. Therefore their rows
    usually need padding.
    """
    batches: dict[Hashable, list[EncodedQuestion]] = {}
    for samples in parts:
        chosen: dict[int, list[Sample]] = {0: [], 1: [], 2: []}
        for sample in samples:
            similar = chosen[min(sample.num_visuals, 2)]
            if len(similar) < 2:
                similar.append(sample)
        for sample in chain.from_iterable(chosen.values()):
            _, answer = sample.turns[0]
            candidates = [*dict.fromkeys((answer, *sample.negatives, *_OTHER_ANSWERS))]
            question = encoder.encode_choices(Drawn(sample, 0, None), candidates[:2])
            batch = batches.setdefault(kind(question), [])
            if len(batch) == 1:
                question = encoder.encode_choices(Drawn(sample, 0, None), candidates[:3])
            if len(batch) < 2:
                batch.append(question)
    return list(batches.values())


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
