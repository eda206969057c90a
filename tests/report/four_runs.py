"""A report on four runs of EgoPlan-Val's size, with further runs by the demo judge and over few
videos.
"""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.build import build_report
from report.synthetic import write_run

QUESTIONS = 3355
MODELS = ("org/One-7B", "org/Two-7B", "org/Three-34B", "out/Four/checkpoint-200")


def write_report(folder: Path, questions: int = QUESTIONS, models: Sequence[str] = MODELS) -> Path:
    """Write the report and return its folder. The report has no pictures.

    ``LMMS_EGOPLAN_DATA`` and ``LMMS_EGOPLAN_ENCODER`` must name missing folders.
    """
    for number, model in enumerate(models):
        tasks = {
            "egoplan_val": egoplan_answers(questions, min(0.25 + 0.06 * number, 0.8), number),
            **egothink_bench(4, 0.5, number, judge="demo" if number == 0 else "org/judge"),
            "egointent": egointent_answers(60, min(50 + 5 * number, 95), number),
            "actplan": actplan_answers(30, min(0.5 + 0.1 * number, 0.95), number),
        }
        write_run(folder / "runs" / str(number), ("lmms-eval", "lm-eval")[number % 2], model, tasks)
    build_report([folder / "runs"], folder / "out", {}, BENCHMARKS, lambda *_: None)
    return folder / "out"
