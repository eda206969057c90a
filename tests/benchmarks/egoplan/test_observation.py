"""Load all tasks in lmms-eval, and check that none shows a frame after the observation."""

import json
from types import SimpleNamespace

import pytest

from benchmarks.egoplan import shortcut_set
from benchmarks.egoplan.shortcut_set import BASES, LENGTH, first_of, video_of
from lmms_egoplan.benchmarks.egoplan.prepare import Media, prepare_egoplan
from lmms_egoplan.harnesses.evaluation import evaluating
from lmms_egoplan.media.frames import count_video_frames, read_video_frames, write_video
from lmms_egoplan.paths import LMMS_EVAL_TASKS
from media.files import SIZE, number_image, read_numbers

# The authors' code shows whole actions, which may run past the observation.
EXCEPTIONS = {"egoplan_val_clips_published"}
# Tasks that alter the frames refuse a backend that takes a video file.
WITHOUT_VIDEO = ("_last_frame", "_first_frame", "_frozen", "_shuffled", "_reversed")
# The last two take only images, and only a video file.
MODELS = (None, "hf_vlm", "llava", "llava_vid")


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    records = shortcut_set.prepare(tmp_path)
    prepare_test(
        tmp_path,
        records["egoplan"],
        Media({"EpicKitchens": tmp_path / "epic", "Ego4D": tmp_path / "ego4d"}),
    )
    return records


def prepare_test(folder, records, media):
    """Prepare the questions without answers as the test split."""
    path = folder / "egoplan_test.json"
    path.write_text(
        json.dumps([record | {"golden_choice_idx": None, "answer": None} for record in records])
    )
    prepare_egoplan(path, "test", media)


def prepare_long_clips(folder, records):
    """Prepare clips that continue to the end of the video, except where only the observation is
    shown.
    """
    for record in records:
        base, observation = BASES[video_of(record)], record["current_observation_frame"]
        end = LENGTH if record["task_progress_metadata"] else observation + 1
        frames = map(number_image, range(base + first_of(record), base + end))
        write_video(
            folder / "clips" / f"{record['sample_id']}.mp4", frames, 60 if base < 3000 else 30
        )
    media = Media({"EpicKitchens": None, "Ego4D": None}, folder / "clips")
    summary = prepare_egoplan(folder / "egoplan.json", "val", media)
    assert summary["clips"]["cut off"] == len(records) - 2
    prepare_test(folder, records, media)


def numbers_in(parts):
    """Return the numbers that the frames of a visual input show."""
    images = []
    for part in parts:
        if isinstance(part, str):
            images += (
                read_video_frames(part, range(count_video_frames(part)))
                if part.endswith(".mp4")
                else []
            )
        else:
            images += part if isinstance(part, list) else [part]
    return read_numbers([image.resize(SIZE) for image in images])


def after_the_observation(benchmark, records):
    """Return task, model, question and frames of each visual input with a wrong frame, and the
    kinds of media seen.
    """
    from lmms_eval.tasks import TaskManager

    by_id, wrong, kinds = {record["sample_id"]: record for record in records}, [], set()
    manager = TaskManager(
        "ERROR", include_path=str(LMMS_EVAL_TASKS / benchmark), include_defaults=False
    )
    for model in MODELS:
        manager.model_name = model
        for name in sorted({*manager.all_subtasks} - EXCEPTIONS):
            if model == "llava_vid" and name.endswith(WITHOUT_VIDEO):
                continue
            task = manager.load_task_or_group(name)[name]
            for doc in task.eval_docs:
                record = by_id[(doc.get("partner") or doc)["sample_id"]]
                first, last = first_of(record), record["current_observation_frame"]
                base = BASES[video_of(record)]
                parts = task.doc_to_visual(doc)
                kinds |= {type(part).__name__ for part in parts}
                numbers = numbers_in(parts)
                if not all(base + first <= number <= base + last for number in numbers):
                    wrong.append((name, model, doc["sample_id"], numbers))
    return wrong, kinds


@pytest.mark.whole
def test_no_task_shows_a_frame_after_the_observation(made, tmp_path):
    from lmms_egoplan.harnesses.lmms_eval.loaded_checkpoint import LoadedModel

    loaded = LoadedModel("hf_vlm", "x", takes_video=True, has_system_turn=True)
    with evaluating(SimpleNamespace(loaded_model=loaded)):
        wrong, kinds = after_the_observation("egoplan", made["egoplan"])
        assert (wrong, kinds) == ([], {"Image", "Clip", "MediaMarker", "str"})
        wrong, kinds = after_the_observation("egoplan_bench2", made["egoplan_bench2"])
        assert (wrong, kinds) == ([], {"Image", "Clip", "str"})
        prepare_long_clips(tmp_path, made["egoplan"])
        wrong, kinds = after_the_observation("egoplan", made["egoplan"])
        assert (wrong, kinds) == ([], {"Image", "Clip", "MediaMarker", "str"})
