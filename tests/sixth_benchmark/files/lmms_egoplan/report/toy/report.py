"""Toy's part of a report."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lmms_egoplan.benchmarks.aggregations import DETAILS
from lmms_egoplan.benchmarks.splits import TOY
from lmms_egoplan.jsonl import member
from lmms_egoplan.report.answers import read_tasks
from lmms_egoplan.report.benchmark import BenchmarkReport
from lmms_egoplan.report.document import Images, ShownAnswer, Verdict
from lmms_egoplan.report.prepared import read_prepared, with_images
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scores import Answer, Key, ScoredTask, mean_of
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import (
    Column,
    Table,
    interval_columns,
    name_of,
    number,
    scored,
    table_of_runs,
)
from lmms_egoplan.stats.means import Mean


class ToyTask(ScoredTask):
    """One task of a run."""

    @property
    def main(self) -> Mean:
        """The percentage of right answers."""
        if self.answers is None:
            return Mean(self.number("score"))
        return mean_of([*self.answers.values()], "score", top=self.largest)

    @property
    def coverage(self) -> float | None:
        """The scored fraction of the questions."""
        return self.number("coverage")


class ToyReport(BenchmarkReport[ToyTask]):
    """Toy's part of a report."""

    SPEC = Spec(
        name="toy",
        title="Toy",
        lead="Four questions about pictures. Scores are percentages of right answers.",
        metric="score",
        decimals=1,
        measure="score",
        compact_title="Toy: score, 0 to 100",
        compact_main="score",
    )

    def read(self, runs: Sequence[Run]) -> list[ToyTask]:
        """Read both tasks of each run."""
        return [*read_tasks(ToyTask, runs, "toy", "toy", read_answer)]

    def tables(self) -> Iterator[Table | None]:
        """Yield the scores of all tasks."""
        columns = (
            Column("run", "Run"),
            Column("task", "Task"),
            Column("score", "Score", decimals=1, higher_is_better=True),
            *interval_columns("score", decimals=1),
        )
        rows = [
            {"run": task.run.name, "task": task.task, **task.main.cells("score")}
            for task in self.tasks
        ]
        yield table_of_runs("toy_scores", "Scores", columns, rows)

    def cells(self, task: ToyTask, _block: Sequence[ToyTask], /) -> Mapping[str, str]:
        """Return the score with its coverage, and what it covers."""
        return {
            self.SPEC.compact_main: scored(task.main.value, 1, task.coverage),
            "questions": number(task.asked),
            "judge": name_of(task.judge),
        }

    def question(self, key: Key, _answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the prepared question."""
        text, images = self._prepared.get(key, (f"{key[0]}: text not available", None))
        return {
            "question": text,
            "facts": {},
            "references": {"Right answer": key[1]},
            "images": images,
        }

    def gallery_answer(self, answer: Answer) -> ShownAnswer:
        """Return the answer in words, or the choice."""
        record = answer.record
        if record["rating"] is None:
            return ShownAnswer("unscored", record["answer"])
        verdict: Verdict = "right" if record["rating"] else "wrong"
        return ShownAnswer(verdict, record["answer"], judgement=record.get("judgement"))

    @cached_property
    def _prepared(self) -> Mapping[Key, tuple[str, Images]]:
        rows, _ = read_prepared(_read_rows)
        return rows


def read_answer(sample: Mapping[str, Any]) -> Answer:
    """Read one logged sample."""
    record = member(sample, DETAILS, "answer")
    value = sample["score"]
    return Answer(
        key=(record["id"], sample["target"]),
        id=record["id"],
        name=f"question {record['id']}",
        record=record,
        scores={"score": value.get("score")},
        cluster=value["cluster"],
    )


def _read_rows() -> dict[Key, tuple[str, Images]]:
    rows = with_images(TOY.load("test"), "image")
    return {(row["id"], row["answer"]): (row["question"], images) for row, images in rows}
