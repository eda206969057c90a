"""The digests of `tools/record_digests.py` are those by which `data prepare` recognizes published
records.
"""

import json
import runpy
from pathlib import Path

from benchmarks.actplan.release import write_release
from benchmarks.egointent.source import raw_records, write_annotations, write_videos
from benchmarks.egothink.source import write_source
from example_record import RECORD
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.egointent.prepare import prepare_egointent
from lmms_egoplan.benchmarks.egoplan.footage.index import Media
from lmms_egoplan.benchmarks.egoplan.prepare import prepare_egoplan
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from media.files import write_epic_folder

TOOL = Path(__file__).parents[1] / "tools" / "record_digests.py"


def test_digests_are_those_of_data_prepare(tmp_path, monkeypatch, capsys):
    def printed(*arguments):
        monkeypatch.setattr("sys.argv", [str(TOOL), *map(str, arguments)])
        runpy.run_path(str(TOOL), run_name="__main__")
        return dict(line.split(": ") for line in capsys.readouterr().out.splitlines())

    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    (tmp_path / "val.json").write_text(json.dumps([RECORD]))
    frames = RECORD["current_observation_frame"]
    write_epic_folder(
        tmp_path / "epic" / RECORD["video_id"][:3] / "rgb_frames" / RECORD["video_id"], 1, frames
    )
    steps, release = (
        write_annotations(tmp_path / "steps.jsonl", raw_records()),
        write_release(tmp_path / "release", 3),
    )
    egothink = write_source(tmp_path / "egothink")
    media = Media({"EpicKitchens": tmp_path / "epic", "Ego4D": None})
    prepared = {
        ("egoplan", tmp_path / "val.json", "--split", "val"): prepare_egoplan(
            tmp_path / "val.json", "val", media
        ),
        ("egointent", steps): prepare_egointent(steps, write_videos(tmp_path / "videos")),
        ("actplan", release): prepare_actplan(release),
    }
    for arguments, summary in prepared.items():
        assert printed(*arguments) == {summary["split"]: summary["records_digest"]}
    of_dimensions = {
        summary["split"]: summary["records_digest"] for summary in prepare_egothink(egothink)
    }
    assert printed("egothink", egothink) == of_dimensions
