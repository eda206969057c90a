"""EgoPlan's part of reports: accuracies by past actions and by goal-answer similarity, and the questions."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import groupby
from typing import Any

from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, LETTERS
from lmms_egoplan.benchmarks.egoplan.report.answers import CHANCE, OFFICIAL, Series, read_series
from lmms_egoplan.benchmarks.egoplan.report.figures import accuracies_figure, lines_figure
from lmms_egoplan.benchmarks.egoplan.report.tables import DECIMALS, Groups, Part, all_tables, note
from lmms_egoplan.benchmarks.egoplan.similarity import LEVELS, levels, similarities
from lmms_egoplan.benchmarks.egoplan.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.visuals import uniform_images
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.benchmark import BenchmarkReport, read_prepared
from lmms_egoplan.report.compact_tables import Cell, compact_table, number, score_notes, scored, share_cell
from lmms_egoplan.report.document import Figure, Headline, ShownAnswer, Table, Verdict
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Answer, Key

# The least number of past actions in each bin: the paper's text does not tell those of Fig. 8.
_BINS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
_DOMAIN_NAMES = {EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)", EGO4D: "Ego4D (out-of-domain)"}
_VERDICTS: dict[float | None, Verdict] = {1.0: "right", 0.0: "wrong", None: "unscored"}


class EgoPlanReport(BenchmarkReport[Series]):
    """EgoPlan's part of a report; the input ``similarity`` is for the similarity of goal and answer."""

    NAME = "egoplan"
    TITLE = "EgoPlan"
    LEAD = note("lead")
    METRIC = "accuracy"
    DECIMALS = DECIMALS

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """The tasks with a score, ``egoplan_val`` first."""
        return read_series(runs)

    def headlines(self) -> list[Headline]:
        """Of each run its main task, or what it has instead."""
        return [self.headline(next(own)) for _, own in groupby(self.tasks, key=lambda task: task.run.name)]

    def headline(self, task: Series) -> Headline:
        """With chance and, where choices were ranked, the accuracy by sum."""
        by_sum = (("by sum", task.percent("acc_sum")),) if task.is_ranked else ()
        return replace(super().headline(task), is_generated=not task.is_ranked, chance=CHANCE, beside=by_sum)

    def tables(self) -> Iterator[Table | None]:
        """Beside the paper's, all scores, by group, run against run, and the published test split."""
        return all_tables(self.tasks, self._by_past_actions, self._by_similarity, self._similarity[1])

    def figures(self) -> Iterator[Figure | None]:
        """Accuracies, and those by group as Figs. 8 and 7 of the paper."""
        yield accuracies_figure(self.tasks)
        yield lines_figure(
            "egoplan_past_actions",
            "Accuracy by number of past actions",
            "number of past actions",
            self._by_past_actions,
            note("bins"),
        )
        yield lines_figure(
            "egoplan_similarity",
            "Accuracy by goal-answer similarity",
            "similarity of goal and right answer",
            self._by_similarity,
            note("similarity" if self.inputs.similarity is None else "bert_score", measure=self._similarity[1]),
        )

    @cached_property
    def _by_past_actions(self) -> Groups:
        return self._grouped({key: _bin_of(doc) for key, doc in self._docs[0].items()}, list(_BINS))

    @cached_property
    def _by_similarity(self) -> Groups:
        return self._grouped({key: LEVELS[level] for key, level in self._similarity[0].items()}, LEVELS)

    def _grouped(self, groups: Mapping[Key, str], names: Sequence[str]) -> Groups:
        """Groups without a question are left out."""
        parts = {
            name: [
                Part(task, task.mean_over(own), task.by_sum(own))
                for task in self.tasks
                if (own := [key for key in task.answers or () if groups.get(key) == name])
            ]
            for name in names
        }
        return {name: of_group for name, of_group in parts.items() if of_group}

    @cached_property
    def _similarity(self) -> tuple[dict[Key, int], str, str | None]:
        """The level of each question, how similarity was measured, and why it was not.

        Raises:
            LmmsEgoplanError: a model for BERTScore was asked for and cannot be loaded. The sentence encoder may be
                missing.
        """
        if not self._docs[0]:
            return {}, "", None
        pairs = {key: (doc["task_goal"], doc["answer"]) for key, doc in self._docs[0].items()}
        try:
            similar = similarities(pairs.values(), self.inputs.similarity)
        except LmmsEgoplanError as error:
            if self.inputs.similarity is not None:
                raise
            return {}, "", str(error)
        return levels({key: similar.values[pair] for key, pair in pairs.items()}), similar.measure, None

    @cached_property
    def _docs(self) -> tuple[Mapping[Key, Mapping[str, Any]], str | None]:
        """Prepared rows of the questions that were asked, where need be as lm-eval logs them; why there are none."""
        answers = [pair for task in self.tasks for pair in (task.answers or {}).items()]
        asked = {key: answer.cluster for key, answer in answers}
        asked |= {key: answer.cluster for key, answer in answers if answer.cluster}

        def read() -> dict[Key, Mapping[str, Any]]:
            rows = (
                ((row["split_size"], row["sample_id"], row["golden_choice_idx"]), row) for row in PREPARED.load("val")
            )
            return {key: row for key, row in rows if key in asked and asked[key] in (None, row["video_id"])}

        found, problem = read_prepared(read) if asked else ({}, None)
        return {key: answer.doc for key, answer in answers if answer.doc} | found, problem

    def compact_table(self) -> Table:
        """Accuracies in per cent."""
        ranked = [note("ranked")] if any(task.is_ranked for task in self.tasks) else []
        notes = (*ranked, *score_notes(self.tasks))
        return compact_table("egoplan_compact", "EgoPlan: accuracy in per cent", self.tasks, _measures, notes)

    def gallery_name(self, task: Series) -> str:
        """The run's, and the task's where the run has several over the questions."""
        own = [other for other in self.tasks if other.run is task.run and other.answers is not None]
        return task.run.name if len(own) == 1 else f"{task.run.name} ({task.task_run.task})"

    def question_order(self, keys: Iterable[Key]) -> list[Key]:
        """By their ids."""
        return sorted(keys)

    def question(self, key: Key, answers: Sequence[Answer]) -> dict[str, Any]:
        """As prepared, or as lm-eval logs it."""
        doc = self._docs[0].get(key)
        logged = next((answer.record.domain for answer in answers if answer.record.domain), None)
        domain = doc["video_source"] if doc else logged
        facts = {"source": _DOMAIN_NAMES[domain]} if domain in _DOMAIN_NAMES else {}
        shown = {"facts": facts, "choices": tuple(LETTERS), "gold": LETTERS.index(key[2])}
        if not doc:
            return shown | {"question": f"{key[1]}: the question is not at hand"}
        done = "; ".join(action["narration_text"] for action in doc["past_actions"])
        return shown | {
            "question": doc["question"],
            "facts": facts | {"past actions": _bin_of(doc)},
            "choices": tuple(doc["choices"]),
            "references": {"Goal": doc["task_goal"], f"Past actions ({len(doc['past_actions'])})": done or "none"},
            "images": partial(uniform_images, doc) if _is_there(doc["media_path"]) else None,
        }

    def shown(self, answer: Answer) -> ShownAnswer:
        """With the log-probabilities of the choices, or the reply."""
        choice = answer.record
        unread = "no clear letter in the reply" if choice.text is not None and choice.chosen is None else None
        return ShownAnswer(_VERDICTS[answer.scores["acc"]], choice.text, choice.logprobs, choice.chosen, unread)

    def flaws(self, task: Series) -> Iterator[str]:
        """Of questions and samples."""
        size, asked, scored = task.number("split_size"), task.number("num_questions"), task.questions
        if size is not None and size != OFFICIAL:
            yield note("other_size", size=size, official=OFFICIAL)
        if asked is not None and size is not None and asked < size:
            yield note("not_all", asked=asked, size=size)
        if asked is not None and scored is not None and scored < asked:
            yield note("without_score", count=asked - scored, asked=asked)
        if task.answers is None:
            yield note("no_samples")

    def gaps(self) -> Iterator[str]:
        """Of the prepared data and of similarity."""
        docs, problem = self._docs
        if missing := self.asked - docs.keys():
            why = problem or note("not_prepared", example=min(missing)[1])
            yield note("missing", count=len(missing), why=why)
        if problem := self._similarity[2]:
            yield note("no_similarity", problem=problem)


def _measures(series: Sequence[Series]) -> dict[str, Cell]:
    is_ranked = any(task.is_ranked for task in series)

    def ranked(metric: str) -> Cell:
        return lambda task: scored(task.percent(metric), DECIMALS, task.coverage)

    def part(metric: str) -> Cell:
        return lambda task: number(task.percent(metric), DECIMALS)

    return {
        **{metric: ranked(metric) for metric in (("acc", "acc_sum", "acc_bytes") if is_ranked else ("acc",))},
        **{metric: part(metric) for metric in ("acc_epic_kitchens", "acc_ego4d")},
        **({} if is_ranked else {"unparsed": share_cell("unparsed")}),
        "questions": lambda task: f"{number(task.questions)} of {number(OFFICIAL)}",
    }


def _bin_of(doc: Mapping[str, Any]) -> str:
    """By number of past actions."""
    count = len(doc["past_actions"])
    return max((name for name, least in _BINS.items() if count >= least), key=_BINS.__getitem__)


def _is_there(path: str) -> bool:
    # Path's own raises where a folder on the way is closed.
    return os.path.exists(path)  # noqa: PTH110
