"""Read the samples that a harness logged: metrics, prompts and numbers of tokens."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.jsonl import decode
from lmms_egoplan.validation import quoted

# Large fields of a sample that no table uses: prompts, raw responses, hashes, and lists that all
# samples share.
_UNUSED = frozenset(
    (
        "arguments",
        "input",
        "resps",
        "token_counts",
        "doc_hash",
        "prompt_hash",
        "target_hash",
        "filter",
        "metrics",
    )
)


class UnusableSamplesError(ValueError):
    """A file of samples is skipped. The message begins with its path."""


def read_samples(path: Path, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the logged samples. Each must have details."""
    number = 0
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _sample(f"{path}, line {number}", line, metrics)
    except OSError as error:
        raise UnusableSamplesError(f"{path}: skipped; cannot be read: {error.strerror}") from error
    if not number:
        raise UnusableSamplesError(
            f"{path}: skipped; the file has no samples, so run the task again"
        )


def _sample(where: str, line: bytes, metrics: Sequence[str]) -> dict[str, Any]:
    try:
        sample = _decode(line)
    except ValueError as error:
        remedy = "if the run was interrupted, run it again"
        raise UnusableSamplesError(
            f"{where}: invalid JSON: {error}. The file is skipped; {remedy}"
        ) from error
    if not isinstance(sample, dict):
        raise UnusableSamplesError(
            f"{where}: expected an object, found {quoted(sample)}. The file is skipped"
        )
    # With several processes, lm-eval logs None for metrics that a question does not have.
    sample = {
        name: value for name, value in sample.items() if value is not None or name not in metrics
    }
    for metric in metrics:
        is_required = metric == DETAILS
        if not isinstance(sample.get(metric, None if is_required else {}), dict):
            value = quoted(sample.get(metric))
            raise UnusableSamplesError(
                f"{where}: {metric}: expected an object, found {value}. The file is skipped"
            )
    sent = {"prompt": _prompt(sample), "asked": _asked(sample), "tokens": _tokens(sample)}
    return {name: value for name, value in sample.items() if name not in _UNUSED} | {
        name: value for name, value in sent.items() if value is not None
    }


def _prompt(sample: Mapping[str, Any]) -> str | None:
    """Return the prompt.

    lmms-eval logs it; lm-eval logs the arguments of each request, which share the prompt.
    """
    arguments = sample.get("arguments")
    first = next(iter(arguments.values()), None) if isinstance(arguments, dict) else None
    sent = first.get("arg_0") if isinstance(first, dict) else sample.get("input")
    return sent if isinstance(sent, str) and sent.strip() else None


def _asked(sample: Mapping[str, Any]) -> str | None:
    """Return the prompt before the chat template.

    lmms-eval logs only this; in lm-eval, this package's tasks add it.
    """
    asked = sample.get("asked", sample.get("input"))
    return asked if isinstance(asked, str) and asked.strip() else None


def _tokens(sample: Mapping[str, Any]) -> tuple[int, int] | None:
    """Sum the tokens of prompts and of answers over a question's requests.

    None if a count is missing.
    """
    counts = sample.get("token_counts")
    if (
        not isinstance(counts, list)
        or not counts
        or not all(isinstance(count, dict) for count in counts)
    ):
        return None
    prompt_tokens = [count.get("input_tokens") for count in counts]
    answer_tokens = [count.get("output_tokens") for count in counts]
    if not all(isinstance(value, int) for value in (*prompt_tokens, *answer_tokens)):
        return None
    return sum(prompt_tokens), sum(answer_tokens)


def _decode(line: bytes) -> Any:
    """Decode a line with pydantic, which stores equal short texts only once in memory.

    Fall back to `decode`.
    """
    try:
        return from_json(line)
    except ValueError:  # Pydantic refuses halves of surrogate pairs, which a harness may log.
        return decode(line)
