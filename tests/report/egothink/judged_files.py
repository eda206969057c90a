"""Write valid and malformed files of answers and ratings."""

import json

from hypothesis import strategies as st

from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.report.egothink.answer_files import write_judged

CONTENTS = (
    st.binary()
    | st.text().map(str.encode)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from(["id", "answer", "score", "truncated"]), inner)
        ),
    )
    .map(json.dumps)
    .map(str.encode)
)


def write_lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records),
        encoding="utf-8",
    )
    return path


def rows(output):
    """Return the cells of the printed tables' rows."""
    return [
        [cell.strip() for cell in line.strip("│┃").split("│")]
        for line in output.splitlines()
        if "│" in line
    ]


def judged(question, answer="Yes.", rating=1.0, judge="judge-a"):
    return JudgedAnswer(
        question, answer, None, False, rating, None if rating is None else "[[1]]", judge, None
    )


def judged_file(path, answers):
    write_judged(path, [answers])
    return path
