"""Provide synthetic EgoPlan runs of both harnesses, and independent counts of their answers."""

import json
import math
from functools import cache
from statistics import mean
from types import MappingProxyType

from benchmarks.egoplan import slow_baselines
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_docs, egoplan_replies
from lmms_egoplan.stats.intervals import score_interval
from report.counting import Counting
from report.joined import near

COUNT = 91
DOCS = egoplan_docs(COUNT)
LETTERS = "ABCD"
# Answers by the name of the series in the report. "Big" runs in both harnesses.
ANSWERS = {
    "Big (lmms-eval)": egoplan_answers(COUNT, 0.6, 1),
    "Big (lmms-eval) (egoplan_val_clips)": egoplan_answers(COUNT, 0.5, 2),
    "Big (lmms-eval) (egoplan_val_generate)": egoplan_replies(COUNT, 0.5, 3, unparsed=0.2),
    "Small": egoplan_answers(COUNT, 0.3, 4, unscored=0.2),
    "Big (lm-eval) (egoplan_val_blind)": egoplan_answers(COUNT, 0.3, 5),
    "Big (lm-eval) (egoplan_val_narrated)": egoplan_answers(COUNT, 0.8, 6),
}
BASELINES = {f"no model ({name})": name for name in slow_baselines.NAMES}
SOURCES = {"EpicKitchens": "EPIC-KITCHENS (in-domain)", "Ego4D": "Ego4D (out-of-domain)"}
MAIN = ["Big (lmms-eval)", "Big (lmms-eval) (egoplan_val_clips)", "Small"]


def task_of(name):
    return (
        name.rpartition("(")[2].rstrip(")")
        if "egoplan_val" in name or name in BASELINES
        else "egoplan_val"
    )


def run_of(name):
    return name.removesuffix(f" ({task_of(name)})")


@cache
def scores(name, by="mean"):
    """Return the score of each question:

    1, 0, or None if a choice has no likelihood. Baselines share points.
    """
    if name in BASELINES:
        return _baseline_points()[BASELINES[name]] if by == "mean" else [None] * COUNT
    return [
        _score(doc, response, by)
        for doc, response in zip(DOCS, ANSWERS[name].responses, strict=True)
    ]


@cache
def _baseline_points():
    return slow_baselines.points(DOCS)


def _score(doc, response, by):
    if len(response) == 1:
        return float(response[0] == f"{doc['golden_choice_idx']}.")
    choices = [json.loads(text) for text in response]
    if any(math.isnan(choice["loss"]) for choice in choices):
        return None
    sums = [-choice["loss"] * choice["num_tokens"] for choice in choices]
    bytes_ = [len(text.encode()) for text in doc["choices"]]
    values = {
        "mean": [-choice["loss"] for choice in choices],
        "sum": sums,
        "bytes": [total / size for total, size in zip(sums, bytes_, strict=True)],
    }[by]
    return float(LETTERS[values.index(max(values))] == doc["golden_choice_idx"])


def percent(values):
    valid_scores = [value for value in values if value is not None]
    return 100 * mean(valid_scores) if valid_scores else None


def interval(name, numbers=range(COUNT)):
    answer_scores = scores(name)
    valid = [number for number in numbers if answer_scores[number] is not None]
    return score_interval(
        [100 * answer_scores[number] for number in valid],
        [DOCS[number]["video_id"] for number in valid],
        100,
    )


def of_source(name, source):
    return percent(
        value
        for value, doc in zip(scores(name), DOCS, strict=True)
        if doc["video_source"] == source
    )


def group_of(doc):
    count = len(doc["past_actions"])
    return (
        "0"
        if count == 0
        else "1"
        if count == 1
        else "2 to 3"
        if count < 4
        else "4 to 7"
        if count < 8
        else "8 to 15"
    )


class EgoPlanCounting(Counting):
    TASK = "egoplan_val"
    HEADLINE = ("accuracy", 2)
    OFFICIAL = MappingProxyType({None: 3355})
    TABLE = "egoplan_table1"
    RECORD = "predictions"
    ID = "sample_id"
    LABELLED = "Small"
    GROUPS = (
        ("source", lambda doc: SOURCES[doc["video_source"]], ()),
        ("past actions", group_of, ()),
    )
    ATTRIBUTES = ("source", "past actions", "goal-answer similarity")

    def runs(self):
        for harness, name, model in (
            ("lmms-eval", "Big (lmms-eval)", "org/Big"),
            ("lmms-eval", "Small", "org/Small"),
            ("lm-eval", "Big (lm-eval)", "org/Big"),
        ):
            yield (
                "runs",
                harness,
                model,
                {task_of(key): ANSWERS[key] for key in ANSWERS if run_of(key) == name},
                {},
            )

    def other_gold(self, doc):
        return {"golden_choice_idx": LETTERS[LETTERS.index(doc["golden_choice_idx"]) - 1]}

    def answers(self, folder):
        names = {
            "Big (lmms-eval) (egoplan_val)": "Big (lmms-eval)",
            "Small": "Small",
            "Big (lm-eval) (egoplan_val_narrated)": "Big (lm-eval) (egoplan_val_narrated)",
        }
        return {
            label: [
                doc | {"score": None if score is None else 100 * score, "by sum": by_sum}
                for doc, score, by_sum in zip(DOCS, scores(name), scores(name, "sum"), strict=True)
            ]
            for label, name in names.items()
        }

    def check_score(self, headline, answers):
        self.check_ends(headline, answers)
        assert headline["chance"] == 25
        assert headline["beside"] == {
            "by sum": near(percent(answer["by sum"] for answer in answers))
        }

    def write_labels(self, folder, answers):
        groups = {
            "agree with the record": [],
            "annotators disagree": [],
            "skipped": [],
            "not all labels yet": [],
        }
        lines = ["sample_id,reason,choices,record"]
        for number, answer in enumerate(answers):
            group = "not all labels yet" if number == 0 else [*groups][answer["sample_id"] % 3]
            groups[group].append(answer)
            reason = {"skipped": "skipped: unclear"}.get(group, group)
            if group != "agree with the record":
                lines.append(f"{answer['sample_id']},{reason},A B,{answer['golden_choice_idx']}")
        kept_docs = [DOCS[answer["sample_id"] - 1] for answer in groups["agree with the record"]]
        (folder / "EgoPlan_validation.json").write_text(
            json.dumps({"EgoPlan_validation": kept_docs})
        )
        (folder / "rejected.csv").write_text("\n".join(lines) + "\n")
        del groups["not all labels yet"]
        return {"people's check": groups}


COUNTING = EgoPlanCounting()
