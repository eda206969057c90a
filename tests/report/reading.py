"""Small synthetic runs, and shortcuts for reading runs."""

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.report.runs import read_runs

HARNESSES = ("lmms-eval", "lm-eval")


def all_tasks(seed=0):
    return {
        **{
            name: egoplan_answers(30, 0.4, seed)
            for name in ("egoplan_val", "egoplan_val_blind", "egoplan_val_narrated")
        },
        "egoplan_val_generate": egoplan_replies(30, 0.4, seed),
        **egothink_bench(3, 0.6, seed),
        "egointent": egointent_answers(10, 60, seed),
        "actplan": actplan_answers(12, 0.7, seed),
        "actplan_text_only": actplan_answers(12, 0.4, seed),
    }


def one_task(seed=0):
    return {"egoplan_val": egoplan_answers(10, 0.5, seed)}


def only(runs):
    (run,) = runs.runs
    return run


def names_of(*arguments):
    return [run.name for run in read_runs(*arguments).runs]
