"""EgoIntent's steps in the gallery."""

from statistics import fmean

from benchmarks.egointent.report.synthetic_runs import NAMES, records
from benchmarks.egointent.source import raw_record
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS
from lmms_egoplan.benchmarks.egointent.report import EgoIntentReport, read_frames
from media.files import read_number


def test_items_show_references_answers_and_frames(runs, written):
    found = EgoIntentReport(runs).items()
    steps = {name: records(written, run) for run, name in NAMES.items()}
    assert [item.key for item in found] == [f"egointent/{step['step_id']}" for step in steps["First-7B"]]
    for number, item in enumerate(found):
        step = steps["First-7B"][number]
        reference = raw_record(number % 6 + 1)
        assert [*item.references.values()] == [reference[field] for field in FIELDS]
        assert (item.facts["scenario"], item.facts["environment"]) == (step["scenario"], step["environment"])
        assert step["step_id"] in item.question
        for name, shown in item.answers.items():
            record = steps[name][number]
            ratings = record["ratings"]
            mean = None if None in ratings.values() else fmean(ratings.values())
            expected = "unscored" if mean is None else "right" if mean >= 75 else "wrong" if mean < 25 else "partly"
            assert shown.verdict == expected
            lines = dict(zip(FIELDS, shown.text.split("\n"), strict=True))
            for field in FIELDS:
                assert record["fields"].get(field, "missing") in lines[field]
                rating = ratings[field]
                assert lines[field].endswith("[not judged: no reply]" if rating is None else f"[{rating:g}]")
            assert ("cut off" in shown.rating) == bool(record["truncated"])
    # Half a second of 30 frames each, of which every fifth is shown.
    frames = found[0].images()
    assert [read_number(frame) for frame in frames] == [15, 20, 25]
    assert {item.answers["First-7B"].verdict for item in found} == {"right", "partly", "wrong"}


def test_no_more_frames_are_read_than_are_shown(written):
    video = written / "data" / "media" / "egointent" / "video-0.mp4"
    frames = read_frames(str(video), 0.0, 4.0, 24)
    assert len(frames) == 12
    assert (read_number(frames[0]), read_number(frames[-1])) == (0, 115)
