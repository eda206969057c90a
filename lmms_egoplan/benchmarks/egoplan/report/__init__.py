"""The parts of reports on both benchmarks: headlines, tables, figures, remarks, and the questions for the gallery."""

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any, ClassVar

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.protocol import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import AGREED, DOMAINS, EGO4D, EPIC_KITCHENS, Verified, read_checked
from lmms_egoplan.benchmarks.egoplan.report.answers import (
    CHANCE,
    EGOPLAN,
    EGOPLAN_BENCH2,
    Groups,
    Questions,
    Series,
    grouped,
    read_series,
)
from lmms_egoplan.benchmarks.egoplan.report.figures import accuracies_figure, lines_figure
from lmms_egoplan.benchmarks.egoplan.report.tables import DECIMALS, bench2_tables, egoplan_tables, note
from lmms_egoplan.benchmarks.egoplan.similarity import LEVELS, levels, similarities
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.benchmark import BenchmarkReport, read_prepared
from lmms_egoplan.report.compact_tables import Cell, compact_table, number, score_notes, scored, share_cell
from lmms_egoplan.report.document import Figure, Headline, Reference, ShownAnswer, Table, Verdict
from lmms_egoplan.report.numbers import show
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key

_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}
# The least number of past actions in each bin: the paper's text does not tell those of Fig. 8.
_BINS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
_SIMILARITY = "goal-answer similarity"
_CHECKED = "people's check"
_SOURCE_NAMES: dict[str, str] = {EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)", EGO4D: "Ego4D (out-of-domain)"}

Facts = dict[str, str]


class _ChoiceReport(BenchmarkReport[Series]):
    """The part that both benchmarks have in common.

    QUESTIONS: the benchmark's.
    VISUALS: reads what the gallery shows of a question.
    """

    METRIC = "accuracy"
    DECIMALS = DECIMALS
    CLUSTERS = "videos"
    MEASURE = "acc"
    SCALE = 100
    QUESTIONS: ClassVar[Questions]
    VISUALS: ClassVar[visuals.Visuals]

    @abstractmethod
    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return what the gallery can be filtered by.

        Args:
            doc: the question; None where it is not at hand.
            part: `Choice.part`, as logged.
        """

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """Read the tasks with a score, the main one of each run first."""
        return read_series(runs, self.QUESTIONS)

    def headline(self, task: Series) -> Headline:
        """Add chance and, where choices were ranked, the accuracy by sum."""
        by_sum = (("by sum", task.percent("acc_sum")),) if task.is_ranked else ()
        return replace(super().headline(task), is_generated=not task.is_ranked, chance=CHANCE, beside=by_sum)

    def protocol(self, task: Series) -> dict[str, str]:
        """Keep frames and new tokens in the plural."""
        plural = {"frame": "frames", "new token": "new tokens"}
        return {plural.get(name, name): value for name, value in super().protocol(task).items()}

    @cached_property
    def docs(self) -> tuple[dict[Key, Doc], str | None]:
        """Prepared rows of the questions that were asked, where need be as lm-eval logs them; why there are none."""
        answers = [pair for task in self.tasks for pair in (task.answers or {}).items()]
        videos = {key: answer.cluster for key, answer in answers}
        videos |= {key: answer.cluster for key, answer in answers if answer.cluster}

        def read() -> dict[Key, Doc]:
            rows: Iterable[Doc] = self.QUESTIONS.prepared.load(self.QUESTIONS.split)
            by_key = (((row["split_size"], row["sample_id"], row["golden_choice_idx"]), row) for row in rows)
            return {key: row for key, row in by_key if key in videos and videos[key] in (None, row["video_id"])}

        prepared, problem = read_prepared(read) if videos else ({}, None)
        return {**{key: answer.doc for key, answer in answers if answer.doc}, **prepared}, problem

    def gallery_name(self, task: Series) -> str:
        """Return the run's name, and the task's where the run has several over the questions."""
        of_run = [other for other in self.tasks if other.run is task.run and other.answers is not None]
        return task.run.name if len(of_run) == 1 else f"{task.run.name} ({task.task_run.task})"

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """Sort by id."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """Return the question as prepared, or as lm-eval logs it."""
        doc = self.docs[0].get(key)
        part = next((answer.record.part for answer in answers if answer.record.part), None)
        fields = {"facts": self.facts(key, doc, part), "choices": tuple(LETTERS), "gold": LETTERS.index(str(key[2]))}
        if not doc:
            return fields | {"question": f"{key[1]}: the question is not at hand"}
        done = "; ".join(action["narration_text"] for action in doc["past_actions"])
        settings = {"media": "frames", "num_frames": visuals.UNIFORM_FRAMES}
        return fields | {
            "question": doc["question"],
            "title": f"To {doc['task_goal'][:1].lower()}{doc['task_goal'][1:]}: what next?" if doc["task_goal"] else "",
            "choices": tuple(doc["choices"]),
            "references": {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"},
            "images": partial(self.VISUALS.visual_input, doc, settings) if _exists(doc["media_path"]) else None,
        }

    def shown(self, answer: Answer) -> ShownAnswer:
        """Return the log-probabilities of the choices, or the reply."""
        choice = answer.record
        unread = "no clear letter in the reply" if choice.text is not None and choice.chosen is None else None
        return ShownAnswer(_VERDICTS[answer.scores["acc"]], choice.text, choice.logprobs, choice.chosen, unread)

    def compact_table(self) -> Table:
        """Return the accuracies in per cent."""
        ranked = [note("ranked")] if any(task.is_ranked for task in self.tasks) else []
        notes = (*ranked, *score_notes(self.tasks))
        title, measures = f"{self.TITLE}: accuracy in per cent", self._measures
        return compact_table(f"{self.NAME}_compact", title, self.tasks, measures, notes)

    def _measures(self, series: Sequence[Series]) -> dict[str, Cell]:
        """Accuracies in per cent, and what they are over; `series` are of one task."""
        is_ranked = any(task.is_ranked for task in series)

        def whole(metric: str) -> Cell:
            return lambda task: scored(task.percent(metric), DECIMALS, task.coverage)

        def part(metric: str) -> Cell:
            return lambda task: number(task.percent(metric), DECIMALS)

        return {
            **{metric: whole(metric) for metric in (("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",))},
            **{metric: part(metric) for metric in self.QUESTIONS.part_metrics.values()},
            **({} if is_ranked else {"unparsed": share_cell("unparsed")}),
            "not compared": lambda task: task.inexact or "",
            "near ties": lambda task: show(task.number("near_ties"), None) if task.number("near_ties") else "",
            "ranking": lambda task: task.text("ranking_note") or "",
            "questions": lambda task: f"{number(task.questions)} of {number(task.whole)}",
        }

    def flaws(self, task: Series) -> Iterator[str]:
        """Name what questions and samples lack."""
        size, asked, with_score = task.count("split_size"), task.count("num_questions"), task.questions
        if size is not None and size != self.QUESTIONS.official:
            yield note("other_size", size=size, name=self.QUESTIONS.name, official=self.QUESTIONS.official)
        if asked is not None and size is not None and asked < size:
            yield note("not_all", asked=asked, size=size)
        if asked is not None and with_score is not None and with_score < asked:
            yield note("without_score", count=asked - with_score, asked=asked)
        if task.answers is None:
            yield note("no_samples")
        if task.inexact:
            yield f"{task.inexact}; the run is neither ranked nor compared."
        if ranking_note := task.text("ranking_note"):
            yield f"{ranking_note}."

    def gaps(self) -> Iterator[str]:
        """Name what the prepared data lack."""
        docs, problem = self.docs
        if missing := self.asked - docs.keys():
            why = problem or note("not_prepared", example=min(missing)[1])
            yield note("missing", count=len(missing), why=why)


class EgoPlanReport(_ChoiceReport):
    """EgoPlan-Bench's part of a report; the input ``similarity`` is for the similarity of goal and answer."""

    NAME = "egoplan"
    TITLE = "EgoPlan"
    LEAD = note("lead")
    GROUP_ORDER: ClassVar[Mapping[str, Sequence[str]]] = {_SIMILARITY: LEVELS, _CHECKED: (AGREED,)}
    QUESTIONS = EGOPLAN
    VISUALS = visuals.EGOPLAN

    def main_tasks(self) -> list[Series]:
        """Return each run's main task, or what it has instead."""
        return [next(of_run) for _, of_run in groupby(self.tasks, key=lambda task: task.run.name)]

    def further_tasks(self) -> list[Series]:
        """Return tasks with letters, next to choices that were ranked."""
        mains = self.main_tasks()
        return [task for task in self.tasks if not task.is_ranked and task not in mains]

    def reference(self) -> Reference:
        """Return the best of Table 1."""
        return reference_of(load_table("egoplan", "table1"))

    def tables(self) -> Iterator[Table | None]:
        """Yield scores next to the paper's, all scores, by group, run against run, and the published test split."""
        return egoplan_tables(self.tasks, self._by_past_actions, self._by_similarity, self._similarity[1])

    def figures(self) -> Iterator[Figure | None]:
        """Yield accuracies, and those by group as Figs. 8 and 7 of the paper."""
        yield accuracies_figure(self.tasks)
        by = "number of past actions"
        yield lines_figure("egoplan_past_actions", by, by, self._by_past_actions, note("bins"))
        caption = note("similarity" if self.inputs.similarity is None else "bert_score", measure=self._similarity[1])
        label = "similarity of goal and right answer"
        yield lines_figure("egoplan_similarity", _SIMILARITY, label, self._by_similarity, caption)

    @cached_property
    def _by_past_actions(self) -> Groups:
        return grouped(self.tasks, {key: _bin_of(doc) for key, doc in self.docs[0].items()}, _BINS)

    @cached_property
    def _by_similarity(self) -> Groups:
        return grouped(self.tasks, {key: LEVELS[level] for key, level in self._similarity[0].items()}, LEVELS)

    @cached_property
    def _similarity(self) -> tuple[dict[Key, int], str, str | None]:
        """The level of each question, how similarity was measured, and why it was not.

        Raises:
            LmmsEgoplanError: a model for BERTScore was asked for and cannot be loaded. The sentence encoder may be
                missing.
        """
        if not self.docs[0]:
            return {}, "", None
        pairs = {key: (doc["task_goal"], doc["answer"]) for key, doc in self.docs[0].items()}
        try:
            similar = similarities(pairs.values(), self.inputs.similarity)
        except LmmsEgoplanError as error:
            if self.inputs.similarity is not None:
                raise
            return {}, "", str(error)
        return levels({key: similar.values[pair] for key, pair in pairs.items()}), similar.measure, None

    def facts(self, key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the video source, people's check, and of a question at hand its past actions and similarity."""
        source, checked = doc["video_source"] if doc else part, self._checked.get(key[1:])
        facts = {"source": _SOURCE_NAMES[source]} if source in _SOURCE_NAMES else {}
        facts |= {_CHECKED: checked} if checked else {}
        if doc:
            facts["past actions"] = _bin_of(doc)
            if (level := self._similarity[0].get(key)) is not None:
                facts[_SIMILARITY] = LEVELS[level]
        return facts

    @cached_property
    def _checked(self) -> Verified:
        return read_checked(self.labelled())

    def gaps(self) -> Iterator[str]:
        """Also name why similarity is missing."""
        yield from super().gaps()
        if problem := self._similarity[2]:
            yield note("no_similarity", problem=problem)


class EgoPlanBench2Report(_ChoiceReport):
    """EgoPlan-Bench2's part of a report."""

    NAME = "egoplan_bench2"
    TITLE = "EgoPlan-Bench2"
    LEAD = note("bench2_lead")
    GROUP_ORDER: ClassVar[Mapping[str, Sequence[str]]] = {"domain": DOMAINS}
    QUESTIONS = EGOPLAN_BENCH2
    VISUALS = visuals.EGOPLAN_BENCH2

    def tables(self) -> Iterator[Table | None]:
        """Yield all scores, by scenario, and run against run."""
        scenarios: dict[Key, str | None] = {key: doc["scenario"] for key, doc in self.docs[0].items()}
        names = sorted({name for name in scenarios.values() if name})
        return bench2_tables(self.tasks, grouped(self.tasks, scenarios, names))

    def facts(self, _key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the domain, and the scenario of a question that is at hand."""
        if doc:
            return {"domain": doc["domain"], "scenario": doc["scenario"]}
        return {"domain": part} if part else {}


def _bin_of(doc: Doc) -> str:
    """Return the bin of a question's number of past actions."""
    count = len(doc["past_actions"])
    return max((name for name, least in _BINS.items() if count >= least), key=_BINS.__getitem__)


def _exists(path: str) -> bool:
    # Path's own raises where a folder on the way is closed.
    return os.path.exists(path)  # noqa: PTH110
