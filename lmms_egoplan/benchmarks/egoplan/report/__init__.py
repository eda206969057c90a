"""What reports of questions which action comes next share: headline, questions, and remarks."""

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

from lmms_egoplan.benchmarks.egoplan.records import LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, ChoiceSeries
from lmms_egoplan.media.sampling import VisualInput
from lmms_egoplan.report.benchmark import BenchmarkReport, read_prepared
from lmms_egoplan.report.compact_tables import Cell, compact_table, number, score_notes, scored, share_cell
from lmms_egoplan.report.document import Headline, ShownAnswer, Table, Verdict
from lmms_egoplan.report.notes import read_notes
from lmms_egoplan.report.numbers import show
from lmms_egoplan.report.scored import Answer, Key
from lmms_egoplan.storage import PreparedData

DECIMALS = 2
_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}

note = read_notes(__file__)

Series = TypeVar("Series", bound=ChoiceSeries)
Facts = dict[str, str]


class ChoiceReport(BenchmarkReport[Series]):
    """A benchmark's part of a report.

    PREPARED, SPLIT: its prepared questions.
    OFFICIAL, OFFICIAL_NAME: how many there are in the official file, and what that is called.
    PARTS: names of the accuracies over a part of the questions.
    RANKED: a note on accuracies of ranked choices.
    SHOWN: reads what the gallery shows of a question.
    """

    METRIC = "accuracy"
    DECIMALS = DECIMALS
    CLUSTERS = "videos"
    MEASURE = "acc"
    SCALE = 100
    PREPARED: ClassVar[PreparedData]
    SPLIT: ClassVar[str]
    OFFICIAL: ClassVar[int]
    OFFICIAL_NAME: ClassVar[str]
    PARTS: ClassVar[tuple[str, ...]]
    RANKED: ClassVar[str]
    SHOWN: ClassVar["staticmethod[[Mapping[str, Any]], VisualInput]"]

    @abstractmethod
    def facts(self, key: Key, doc: Mapping[str, Any] | None, domain: str | None) -> Facts:
        """What the gallery can be filtered by.

        Args:
            doc: the question; None where it is not at hand.
            domain: `Choice.domain`, as logged.
        """

    def headline(self, task: Series) -> Headline:
        """With chance and, where choices were ranked, the accuracy by sum."""
        by_sum = (("by sum", task.percent("acc_sum")),) if task.is_ranked else ()
        return replace(super().headline(task), is_generated=not task.is_ranked, chance=CHANCE, beside=by_sum)

    def protocol(self, task: Series) -> dict[str, str]:
        """With frames and new tokens under these names."""
        plural = {"frame": "frames", "new token": "new tokens"}
        return {plural.get(name, name): value for name, value in super().protocol(task).items()}

    @cached_property
    def docs(self) -> tuple[Mapping[Key, Mapping[str, Any]], str | None]:
        """Prepared rows of the questions that were asked, where need be as lm-eval logs them; why there are none."""
        answers = [pair for task in self.tasks for pair in (task.answers or {}).items()]
        asked = {key: answer.cluster for key, answer in answers}
        asked |= {key: answer.cluster for key, answer in answers if answer.cluster}

        def read() -> dict[Key, Mapping[str, Any]]:
            rows = (
                ((row["split_size"], row["sample_id"], row["golden_choice_idx"]), row)
                for row in self.PREPARED.load(self.SPLIT)
            )
            return {key: row for key, row in rows if key in asked and asked[key] in (None, row["video_id"])}

        found, problem = read_prepared(read) if asked else ({}, None)
        return {key: answer.doc for key, answer in answers if answer.doc} | found, problem

    def gallery_name(self, task: Series) -> str:
        """The run's, and the task's where the run has several over the questions."""
        own = [other for other in self.tasks if other.run is task.run and other.answers is not None]
        return task.run.name if len(own) == 1 else f"{task.run.name} ({task.task_run.task})"

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """By their ids."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """As prepared, or as lm-eval logs it."""
        doc = self.docs[0].get(key)
        logged = next((answer.record.domain for answer in answers if answer.record.domain), None)
        shown = {"facts": self.facts(key, doc, logged), "choices": tuple(LETTERS), "gold": LETTERS.index(key[2])}
        if not doc:
            return shown | {"question": f"{key[1]}: the question is not at hand"}
        done = "; ".join(action["narration_text"] for action in doc["past_actions"])
        return shown | {
            "question": doc["question"],
            "title": f"To {doc['task_goal'][:1].lower()}{doc['task_goal'][1:]}: what next?" if doc["task_goal"] else "",
            "choices": tuple(doc["choices"]),
            "references": {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"},
            "images": partial(self.SHOWN, doc) if _is_there(doc["media_path"]) else None,
        }

    def shown(self, answer: Answer) -> ShownAnswer:
        """With the log-probabilities of the choices, or the reply."""
        choice = answer.record
        unread = "no clear letter in the reply" if choice.text is not None and choice.chosen is None else None
        return ShownAnswer(_VERDICTS[answer.scores["acc"]], choice.text, choice.logprobs, choice.chosen, unread)

    def compact_table(self) -> Table:
        """Accuracies in per cent."""
        ranked = [self.RANKED] if any(task.is_ranked for task in self.tasks) else []
        notes = (*ranked, *score_notes(self.tasks))
        title, measures = f"{self.TITLE}: accuracy in per cent", partial(_choice_measures, parts=self.PARTS)
        return compact_table(f"{self.NAME}_compact", title, self.tasks, measures, notes)

    def flaws(self, task: Series) -> Iterator[str]:
        """Of questions and samples."""
        size, asked, scored = task.number("split_size"), task.number("num_questions"), task.questions
        if size is not None and size != self.OFFICIAL:
            yield note("other_size", size=size, name=self.OFFICIAL_NAME, official=self.OFFICIAL)
        if asked is not None and size is not None and asked < size:
            yield note("not_all", asked=asked, size=size)
        if asked is not None and scored is not None and scored < asked:
            yield note("without_score", count=asked - scored, asked=asked)
        if task.answers is None:
            yield note("no_samples")
        if task.inexact:
            yield f"{task.inexact}; the run is neither ranked nor compared."
        if ranking_note := task.text("ranking_note"):
            yield f"{ranking_note}."

    def gaps(self) -> Iterator[str]:
        """Of the prepared data."""
        docs, problem = self.docs
        if missing := self.asked - docs.keys():
            why = problem or note("not_prepared", example=min(missing)[1])
            yield note("missing", count=len(missing), why=why)


def _choice_measures(series: Sequence[ChoiceSeries], parts: Iterable[str]) -> dict[str, Cell]:
    """What a compact table shows: accuracies in per cent, and what they are over.

    Args:
        series: of one task.
        parts: names of the accuracies over a part of the questions.
    """
    is_ranked = any(task.is_ranked for task in series)

    def whole(metric: str) -> Cell:
        return lambda task: scored(task.percent(metric), DECIMALS, task.coverage)

    def part(metric: str) -> Cell:
        return lambda task: number(task.percent(metric), DECIMALS)

    return {
        **{metric: whole(metric) for metric in (("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",))},
        **{metric: part(metric) for metric in parts},
        **({} if is_ranked else {"unparsed": share_cell("unparsed")}),
        "not compared": lambda task: task.inexact or "",
        "near ties": lambda task: show(task.number("near_ties"), None) if task.number("near_ties") else "",
        "ranking": lambda task: task.text("ranking_note") or "",
        "questions": lambda task: f"{number(task.questions)} of {number(task.whole)}",
    }


def _is_there(path: str) -> bool:
    # Path's own raises where a folder on the way is closed.
    return os.path.exists(path)  # noqa: PTH110
