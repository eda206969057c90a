"""Read files of judged answers."""

from collections.abc import Iterator
from pathlib import Path

from lmms_egoplan.report.benchmark import Judged


def judged_samples(benchmark: str, path: Path) -> Iterator[Judged]:
    """Read a file of judged answers, in order, and score them like a harness's task.

    Args:
        benchmark: The benchmark's name. Only those that register a `FileKind` of judged answers
            have such files.
        path: The file.

    Raises:
        LmmsEgoplanError: A line is not a judged answer, or its question is not prepared.
        ValueError: The benchmark has no such files.
    """
    if benchmark == "egothink":
        from lmms_egoplan.report.egothink import answers as egothink

        return egothink.judged_samples(path)
    if benchmark == "egointent":
        from lmms_egoplan.report.egointent import answers as egointent

        return egointent.judged_samples(path)
    raise ValueError(f"no judged answers of a benchmark {benchmark!r}")
