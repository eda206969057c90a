"""Build questions from real narrations with a language model that sometimes fails, and score them
with lmms-eval.
"""

import json

import pytest
from typer.testing import CliRunner

from benchmarks.egoplan.derived_questions import DATA, available, render_media
from construction.ego4d_files import write_narrations
from construction.egoplan.language_model import reply
from construction.egoplan.small import as_ego4d
from judge_server import JudgeServer
from lmms_egoplan.benchmarks.egoplan.frames import clip_frames, uniform_frames
from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.cli import app
from lmms_egoplan.construction.egoplan.narrations import read_epic_kitchens

EPIC = DATA / "epic-kitchens-100" / "EPIC_100_validation.csv"
# Number of questions from each source.
COUNT = 24

pytestmark = pytest.mark.skipif(not available(), reason=f"needs the public annotations in {DATA}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("built")


def command(*arguments, exit_code=0):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == exit_code, result.output
    return result.output


def spread(records):
    """Return some of the questions, evenly spaced."""
    return records[:: len(records) // COUNT][:COUNT]


@pytest.fixture(scope="module")
def prepared(folder):
    """Run the documented commands up to the prepared split.

    Videos are rendered for some of the questions.

    Ego4D's narrations are EPIC-KITCHENS' in Ego4D's layout.
    """
    ego4d = write_narrations(folder / "narration.json", as_ego4d(read_epic_kitchens(EPIC)[0][:6]))
    with pytest.MonkeyPatch.context() as patch, JudgeServer(reply) as server:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        records = []
        for source, narrations in (("epic-kitchens", EPIC), ("ego4d", ego4d)):
            out = folder / source
            arguments = ("data", "build", "egoplan", narrations, "--source", source, "--out", out)
            # More than 10 % of the prompts have no usable reply.
            assert "10%" in command(*arguments, exit_code=1)
            records += spread(
                json.loads((out / "EgoPlan_validation.json").read_text(encoding="utf-8"))
            )
        records = [record | {"sample_id": number} for number, record in enumerate(records)]
        media = render_media(records, folder / "media")
        command(
            *("data", "prepare", "egoplan", media.annotations, "--split", "val"),
            *("--epic-kitchens", media.epic_kitchens, "--ego4d", media.ego4d, "--verify"),
        )
        yield EGOPLAN.load("val")


@pytest.mark.whole
def test_no_visual_input_reaches_the_answers_action(prepared):
    """Rendered videos have other frame numbers, but in the same order."""
    for row in prepared:
        past = [(action["start_frame"], action["stop_frame"]) for action in row["past_actions"]]
        observation = row["current_observation_frame"]
        assert max([observation, *(stop for _, stop in past)]) == observation
        assert max(uniform_frames(past, observation, 8)) == observation
        assert all(max(clip) <= observation for clip in clip_frames(past, observation))


@pytest.mark.nightly
def test_egoplan_val_scores_built_questions(prepared, folder):
    from runs.harness import metric, run
    from runs.prepared_set import save_letter_lover
    from runs.slow_egoplan import logged

    checkpoint = save_letter_lover("llava", folder / "llava")
    model = ("--model", "hf_vlm", "--model_args", f"pretrained={checkpoint},dtype=float32")
    finished = run(folder, folder / "run", "--tasks", "egoplan_val", *model)
    details = finished.details["egoplan_val"]
    predictions = logged(finished, "egoplan_val")
    assert details["num_questions"] == details["split_size"] == 2 * COUNT == len(predictions)
    golden = {row["sample_id"]: row["golden_choice_idx"] for row in prepared}
    right = [
        golden[sample_id] == prediction["prediction"]
        for sample_id, prediction in predictions.items()
    ]
    assert metric(finished.results["egoplan_val"], "acc") == pytest.approx(sum(right) / len(right))
