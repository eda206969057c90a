"""Runs of ActPlan-1K's tasks as the harnesses write them, and independent counts of their plans."""

import json
from operator import itemgetter
from statistics import fmean
from types import MappingProxyType

from benchmarks.actplan.synthetic import actplan_answers
from lmms_egoplan.stats.intervals import bootstrap_interval, score_interval
from report.answers import Answers
from report.counting import Counting

COUNT = 60
GOOD, TEXT, WEAK, MUTE, PART = (
    "Good-7B",
    "Good-7B (actplan_text_only)",
    "Weak-2B",
    "Mute-1B",
    "Part-1B (actplan_normal)",
)
LENGTHS = ("1-10", "11-20", "21-30", "31-40", "41-50", "51+", "unknown")


def answered(skill, seed, **options):
    """Return answers as `actplan_answers` does; every fifth has numbered steps, one is empty, one
    lacks gold plan 1.
    """
    answers = actplan_answers(COUNT, skill, seed, **options)
    docs, responses = (
        list(answers.docs),
        [json.loads(response) for (response,) in answers.responses],
    )
    for index in range(0, COUNT, 5):
        responses[index]["official"] = [
            f"{n}. {step}" for n, step in enumerate(responses[index]["parsed"], 1)
        ]
        responses[index]["lcs_each"] = [
            length and length // 2 for length in responses[index]["lcs_each"]
        ]
    responses[3] |= {"official": [], "parsed": [], "form_validity": None}
    responses[3] |= {
        name: [value and 0 for value in responses[3][name]]
        for name in ("lcs_each", "lcs_parsed_each")
    }
    docs[7] = docs[7] | {"gold_plan_1": []}
    for name in ("reference_lengths", "lcs_each", "lcs_parsed_each"):
        responses[7][name][0] = None
    return Answers(docs, [[json.dumps(response)] for response in responses])


def logged_plans(folder):
    """Return the logged plans of each run with samples, with independently computed measures."""
    return {
        GOOD: _measured(folder, f"org__{GOOD}/*_samples_actplan.jsonl"),
        TEXT: _measured(folder, f"org__{GOOD}/*_samples_actplan_text_only.jsonl"),
        WEAK: _measured(folder, f"org__{WEAK}/samples_actplan_*.jsonl"),
        PART: _measured(folder, "org__Part-1B/*_samples_actplan_normal.jsonl"),
    }


def defined(plans, measure):
    return [plan for plan in plans if plan[measure] is not None]


def mean(plans, measure):
    values = [plan[measure] for plan in defined(plans, measure)]
    return fmean(values) if values else None


def interval(plans, measure):
    members = defined(plans, measure)
    values, activities = ([plan[key] for plan in members] for key in (measure, "activity"))
    is_share = not measure.endswith(", steps")
    estimate = (
        score_interval(values, activities, 1)
        if is_share
        else bootstrap_interval(values, activities)
    )
    return estimate or (None, None)


def percent(value):
    return None if value is None else 100 * value


def _normal(answers):
    """Return the answers of the task over normal activities only."""
    indices = [index for index, doc in enumerate(answers.docs) if doc["setting"] == "normal"]
    docs = [answers.docs[index] | {"split_size": len(indices)} for index in indices]
    return Answers(docs, [answers.responses[index] for index in indices])


def _measured(folder, pattern):
    (path,) = (folder / "runs").glob(pattern)
    plans = []
    for line in path.read_text(encoding="utf-8").splitlines():
        plan = json.loads(line)["details"]["plan"]
        ratios = [
            None if lcs is None else lcs / max(len(plan["official"]), gold)
            for lcs, gold in zip(plan["lcs_each"], plan["reference_lengths"], strict=True)
        ]
        parsed, gold = plan["lcs_parsed_each"][0], plan["reference_lengths"][0]
        bins = [f"{start}-{start + 9}" for start in range(1, 51, 10)]
        plans.append(
            plan
            | {
                "Norm. LCS": ratios[0],
                "Norm. LCS, gold plan 2": ratios[1],
                "Norm. LCS, better of the two": max(ratio for ratio in ratios if ratio is not None),
                "LCS, steps": plan["lcs_each"][0],
                "LCS, gold plan 2, steps": plan["lcs_each"][1],
                "LCS, better of the two, steps": max(
                    lcs for lcs in plan["lcs_each"] if lcs is not None
                ),
                "Norm. LCS, parsed": None
                if parsed is None
                else parsed / max(len(plan["parsed"]), gold),
                "LCS, parsed, steps": parsed,
                "Form validity": plan["form_validity"],
                "Plan length, steps": len(plan["parsed"]),
                "Correct by classifier": plan["bleurt"],
                "Empty": len(plan["official"]) == 0,
                "Without a step": len(plan["parsed"]) == 0,
                "Truncated": plan["truncated"],
                "length": "unknown"
                if gold is None
                else (bins[(gold - 1) // 10] if gold <= 50 else "51+"),
            }
        )
    return plans


class ActPlanCounting(Counting):
    TASK = "actplan"
    HEADLINE = ("normalised LCS", 3)
    OFFICIAL = MappingProxyType({None: 1187, "actplan_normal": 825})
    TABLE = "actplan_table4"
    RECORD = "plan"
    COMPARED = 6
    CLUSTER = "activity"
    TOP = 1
    LABELLED = GOOD
    IS_LABELLED_ALONE = True
    WITHOUT_SAMPLES = (MUTE,)
    GROUPS = (
        ("setting", itemgetter("setting"), ()),
        ("activity type", itemgetter("activity_type"), ()),
        ("length of gold plan 1", itemgetter("length"), LENGTHS),
    )
    ATTRIBUTES = ("setting", "activity type", "activity", "length of gold plan 1", "scene")

    def runs(self):
        """Write runs over prepared data that contain all but one of their instances."""
        good = {
            "actplan": answered(0.9, 1, bleurt=0.6),
            "actplan_text_only": answered(0.5, 2, bleurt=0.2),
        }
        yield "runs", "lmms-eval", f"org/{GOOD}", good, {}
        yield "runs", "lm-eval", f"org/{WEAK}", {"actplan": answered(0.3, 3)}, {}
        yield (
            "runs",
            "lmms-eval",
            f"org/{MUTE}",
            {"actplan": answered(0.4, 4, bleurt=0.3)},
            {"log_samples": False},
        )
        part = {"actplan_normal": _normal(answered(0.7, 5, bleurt=0.4))}
        yield "runs", "lmms-eval", "org/Part-1B", part, {}

    def other_gold(self, doc):
        return {"gold_plan_1": [*doc["gold_plan_1"], "wait(here)"]}

    def answers(self, folder):
        plans_by_run = logged_plans(folder)
        return {
            name: [plan | {"score": plan["Norm. LCS"]} for plan in plans]
            for name, plans in plans_by_run.items()
        }

    def write_labels(self, folder, answers):
        """Write labels. All plans have commonsense, which gives one group and no slice."""
        correct, wrong, lines = [], [], []
        for index, plan in enumerate(answers):
            if plan["official"]:
                (correct if index % 3 else wrong).append(plan)
                label = {
                    "id": plan["id"],
                    "model": "mine",
                    "references": ["a(b)"],
                    "images": True,
                    "commonsense": True,
                }
                label |= {"candidate": "\n".join(plan["official"]), "correct": index % 3 > 0}
                lines.append(
                    json.dumps(label | {"errors": {} if index % 3 else {"form": [1]}}) + "\n"
                )
        (folder / "annotation.json").write_text(json.dumps({"benchmark": "actplan"}))
        (folder / "plans.jsonl").write_text("".join(lines))
        return {
            "people: correct": {"no": wrong, "yes": correct},
            "people: incorrect form": {"no": correct, "yes": wrong},
        }


COUNTING = ActPlanCounting()
