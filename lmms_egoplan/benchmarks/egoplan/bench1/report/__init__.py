"""EgoPlan's part of reports: accuracies by past actions and by goal-answer similarity, and the questions."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from lmms_egoplan.benchmarks.egoplan.bench1.records import SOURCE_METRIC
from lmms_egoplan.benchmarks.egoplan.bench1.report.answers import OFFICIAL, Series, read_series
from lmms_egoplan.benchmarks.egoplan.bench1.report.figures import accuracies_figure, lines_figure
from lmms_egoplan.benchmarks.egoplan.bench1.report.people import AGREED, Checked, read_checked
from lmms_egoplan.benchmarks.egoplan.bench1.report.tables import all_tables, note
from lmms_egoplan.benchmarks.egoplan.bench1.splits import PREPARED
from lmms_egoplan.benchmarks.egoplan.bench1.visuals import uniform_images
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS
from lmms_egoplan.benchmarks.egoplan.report import ChoiceReport
from lmms_egoplan.benchmarks.egoplan.report.answers import Groups, grouped
from lmms_egoplan.benchmarks.egoplan.similarity import LEVELS, levels, similarities
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.document import Figure, Reference, Table
from lmms_egoplan.report.published import load_table, reference_of
from lmms_egoplan.report.run import Run
from lmms_egoplan.report.scored import Key

# The least number of past actions in each bin: the paper's text does not tell those of Fig. 8.
_BINS = {"0": 0, "1": 1, "2 to 3": 2, "4 to 7": 4, "8 to 15": 8, "16 and more": 16}
_SIMILARITY = "goal-answer similarity"
_CHECKED = "people's check"
_DOMAIN_NAMES = {EPIC_KITCHENS: "EPIC-KITCHENS (in-domain)", EGO4D: "Ego4D (out-of-domain)"}


class EgoPlanReport(ChoiceReport[Series]):
    """EgoPlan's part of a report; the input ``similarity`` is for the similarity of goal and answer."""

    NAME = "egoplan"
    TITLE = "EgoPlan"
    LEAD = note("lead")
    PREPARED = PREPARED
    SPLIT = "val"
    OFFICIAL = OFFICIAL
    OFFICIAL_NAME = "EgoPlan-Val"
    PARTS = tuple(SOURCE_METRIC.values())
    RANKED = note("ranked")
    SHOWN = staticmethod(uniform_images)

    def read(self, runs: Sequence[Run]) -> list[Series]:
        """The tasks with a score, ``egoplan_val`` first."""
        return read_series(runs)

    def main_tasks(self) -> list[Series]:
        """Of each run its main task, or what it has instead."""
        return [next(own) for _, own in groupby(self.tasks, key=lambda task: task.run.name)]

    def further_tasks(self) -> list[Series]:
        """Letters, beside choices that were ranked."""
        mains = self.main_tasks()
        return [task for task in self.tasks if not task.is_ranked and task not in mains]

    def reference(self) -> Reference:
        """The best of Table 1."""
        return reference_of(load_table("egoplan", "table1"))

    def group_order(self, attribute: str) -> Sequence[str]:
        """Levels of similarity from low to high; what people agreed on before the rest."""
        return {_SIMILARITY: LEVELS, _CHECKED: (AGREED,)}.get(attribute, ())

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

    def facts(self, key: Key, doc: Mapping[str, Any] | None, domain: str | None) -> dict[str, str]:
        """The video source, what people said, and of a question at hand its past actions and similarity."""
        domain = doc["video_source"] if doc else domain
        checked = self._checked.get(key[1:])
        facts = {"source": _DOMAIN_NAMES[domain]} if domain in _DOMAIN_NAMES else {}
        facts |= {_CHECKED: checked} if checked else {}
        return facts | {"past actions": _bin_of(doc)} | self._similar(key) if doc else facts

    @cached_property
    def _checked(self) -> Checked:
        return read_checked(self.labelled())

    def _similar(self, key: Key) -> dict[str, str]:
        level = self._similarity[0].get(key)
        return {} if level is None else {_SIMILARITY: LEVELS[level]}

    def gaps(self) -> Iterator[str]:
        """Of the prepared data and of similarity."""
        yield from super().gaps()
        if problem := self._similarity[2]:
            yield note("no_similarity", problem=problem)


def _bin_of(doc: Mapping[str, Any]) -> str:
    """By number of past actions."""
    count = len(doc["past_actions"])
    return max((name for name, least in _BINS.items() if count >= least), key=_BINS.__getitem__)
