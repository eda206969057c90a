"""EgoPlan-Bench2's part of a report: its facts, and the order of its tables."""

from collections.abc import Iterator

from lmms_egoplan.benchmarks.egoplan import visuals
from lmms_egoplan.benchmarks.egoplan.records import DOMAINS
from lmms_egoplan.media.sampling import Doc
from lmms_egoplan.report.egoplan.answers import EGOPLAN_BENCH2
from lmms_egoplan.report.egoplan.baselines import BASELINES
from lmms_egoplan.report.egoplan.choice_report import ChoiceReport
from lmms_egoplan.report.egoplan.gallery import Facts
from lmms_egoplan.report.egoplan.ledger_fields import EGOPLAN_BENCH2_FIELDS
from lmms_egoplan.report.egoplan.tables import bench2_scores_table, scenarios_table
from lmms_egoplan.report.scores import Key
from lmms_egoplan.report.spec import Spec
from lmms_egoplan.report.tables import Table


class EgoPlanBench2Report(ChoiceReport):
    """EgoPlan-Bench2's part of a report."""

    SPEC = Spec(
        name="egoplan_bench2",
        title="EgoPlan-Bench2",
        lead=(
            "Which of four actions comes next, given a goal and a first-person video of the task "
            "up to now, in four domains of daily life? In the paper, models write a letter. Here, "
            "the choices are also ranked by the likelihood that a model assigns to them."
        ),
        metric="accuracy",
        result_task="egoplan_bench2_generate",
        decimals=2,
        measure="acc",
        scale=100,
        clusters="videos",
        compact_title="EgoPlan-Bench2: accuracy in per cent",
        compact_main="acc",
        group_order={"domain": DOMAINS},
        subsets={
            "all": "",
            "Daily life": "acc_daily_life",
            "Work": "acc_work",
            "Hobbies": "acc_hobbies",
            "Recreation": "acc_recreation",
        },
        baselines=BASELINES,
        ledger_fields=EGOPLAN_BENCH2_FIELDS,
    )
    QUESTIONS = EGOPLAN_BENCH2
    VISUALS = visuals.EGOPLAN_BENCH2

    def tables(self) -> Iterator[Table | None]:
        """Yield all scores, scores by scenario, and pairs of runs."""
        chance = self.chance_note()
        tasks = [*self.tasks, *self.text_baselines]
        yield bench2_scores_table(tasks, self.QUESTIONS.part_metrics.values(), chance)
        yield scenarios_table(self.usual, self.docs[0], chance)
        yield from self.meaning_tables()
        yield from self.pairs_of_runs()

    def facts(self, _key: Key, doc: Doc | None, part: str | None, /) -> Facts:
        """Return the domain; if the question is available, also the scenario."""
        if doc:
            return {"domain": doc["domain"], "scenario": doc["scenario"]}
        return {"domain": part} if part else {}
