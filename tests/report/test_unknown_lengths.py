"""A share of truncated answers names the number of answers whose length is known, unless it is
known for all.
"""

import json

import pytest

from benchmarks.egoplan.synthetic import egoplan_replies
from benchmarks.egothink.synthetic import egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.compact import compact_table
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import remarks_of, scores_section
from lmms_egoplan.report.summary import summary_table
from report.synthetic import write_run

TASKS = {
    "egoplan": {"egoplan_val_generate": egoplan_replies(30, 0.4, 1)},
    "egothink": egothink_bench(3, 0.6),
}
ASKED = {"egoplan": 30, "egothink": 36}


def write(folder, tasks, unknown):
    """Write a run in which some documents of each task have unknown lengths; return its folder."""
    path = write_run(folder, "lmms-eval", "org/m", tasks)
    content = json.loads(path.read_text())
    for task in tasks:
        log = path.with_name(f"{path.stem.removesuffix('_results')}_samples_{task}.jsonl")
        samples = [json.loads(line) for line in log.read_text().splitlines()]
        for sample in samples:
            is_cut = None if sample["doc_id"] in unknown else sample["doc_id"] % 2 == 0
            cluster = sample["truncated"]["cluster"]
            sample["truncated"] = {"cluster": cluster}
            if is_cut is not None:
                sample["truncated"]["score"] = float(is_cut)
            sample["details"]["truncated_of"] = int(is_cut is not None)
            if "answer" in sample["details"]:
                sample["details"]["answer"]["truncated"] = is_cut
        log.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        known = [
            sample["truncated"]["score"] for sample in samples if "score" in sample["truncated"]
        ]
        (name,) = (name for name in content["results"][task] if name.startswith("truncated,"))
        content["results"][task][name] = sum(known) / len(known)
        content["details"][task]["truncated_of"] = len(known)
    path.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize("benchmark", TASKS)
def test_a_share_of_fewer_answers_names_their_number(tmp_path, benchmark):
    (named,) = (x for x in BENCHMARKS if x.name == benchmark)
    tasks = len(TASKS[benchmark])
    for folder, unknown, known in (("whole", (), None), ("part", (0,), ASKED[benchmark] - tasks)):
        report = report_class(named.name)(
            read_runs([write(tmp_path / folder, TASKS[benchmark], unknown)]).runs
        )
        assert {line.truncated_of for line in report.headlines} >= {known}
        texts = {
            "remark": " ".join(remarks_of(report)),
            "terminal": str(compact_table(report)),
            "summary": " ".join(summary_table([scores_section(report)]).notes),
        }
        expected = {
            "remark": f"{known} of {ASKED[benchmark]} answers, whose length is known",
            "terminal": f"% of {known}",
            "summary": f"{known} answers whose length is known",
        }
        found = {place: expected[place] in text for place, text in texts.items()}
        assert found == dict.fromkeys(texts, known is not None), (folder, texts)
