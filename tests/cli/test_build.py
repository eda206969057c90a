"""`lmms-egoplan data build` on small files."""

from inspect import signature

from benchmarks.egointent.source import goalstep_video, segment, write_goalstep
from benchmarks.egointent.source import write_videos as write_egointent_videos
from cli.test_data import folder, rows, run, status_rows
from lmms_egoplan.cli.build import build_egointent, build_egothink
from lmms_egoplan.construction.egointent.goalstep import LAST, NO_VIDEO
from lmms_egoplan.construction.egothink.frames import EVERY, MIN_SHARPNESS
from lmms_egoplan.judging.settings import DEFAULT_MODEL

__all__ = ["folder"]  # a fixture


def test_builds_egointent_from_goalstep_and_prepares_it(folder):
    video = goalstep_video(
        "0a1b-2c", segment(0, 1, "mould"), segment(1, 2.5, "bake"), segment(2.5, 4, "eat")
    )
    goalstep = write_goalstep(
        folder / "goalstep.json", video, goalstep_video("kitchen.3", segment(0, 1, "wait"))
    )
    videos = write_egointent_videos(folder / "videos", ["0a1b-2c"])
    steps = folder / "out" / "steps.jsonl"
    result = run("build", "egointent", goalstep, "--videos", videos, "--out", steps)
    assert result.exit_code == 0, result.output
    facts = (
        "2 Goal-Step steps",
        "1 video",
        str(steps),
        LAST,
        NO_VIDEO,
        "1 of Goal-Step's 2 videos",
        "kitchen.3.mp4",
    )
    assert all(fact in result.stdout for fact in facts)
    result = run("prepare", "egointent", steps, "--videos", videos)
    assert result.exit_code == 0, result.output
    assert "Goal-Step" in result.stdout
    table = rows(result.stdout)
    assert ["categories", "1", "1", "", ""] in table
    assert "scenarios" not in {row[0] for row in table}
    ((*counts, _),) = status_rows(run("status"))
    assert counts == ["egointent", "test", "2", "2", "0", "n/a"]

    written = steps.read_text()
    for wrong in (["--before-end", "nan"], ["--before-end", "9"], ["--videos", folder / "absent"]):
        result = run(
            "build",
            "egointent",
            goalstep,
            "--videos",
            videos,
            "--out",
            steps,
            "--overwrite",
            *wrong,
        )
        assert result.exit_code == 1
        assert result.stderr.startswith("lmms-egoplan: ")
        assert "Traceback" not in result.output
    assert steps.read_text() == written


def test_the_help_names_the_default_model():
    (option,) = signature(build_egointent).parameters["llm"].annotation.__metadata__
    assert DEFAULT_MODEL in option.help


def test_the_defaults_are_those_of_the_construction():
    defaults = signature(build_egothink).parameters
    assert defaults["every"].default == EVERY
    assert defaults["min_sharpness"].default == MIN_SHARPNESS
