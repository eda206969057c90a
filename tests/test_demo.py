"""The demo: its scenes, its checkpoint, and one run of the whole command."""

import hashlib
import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import av
import pytest
import torch
from PIL import Image, ImageChops, ImageStat
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForImageTextToText, AutoProcessor
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.actplan import demo as actplan
from lmms_egoplan.benchmarks.actplan.instances import SETTINGS, activity_type, find_instances, read_instance
from lmms_egoplan.benchmarks.actplan.reply import form_validity
from lmms_egoplan.benchmarks.egointent import demo as egointent
from lmms_egoplan.benchmarks.egointent import records as egointent_records
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS, RELEASE_NAMES, prompt_text
from lmms_egoplan.benchmarks.egointent.visuals import step_frames
from lmms_egoplan.benchmarks.egoplan.demo import EGOPLAN
from lmms_egoplan.benchmarks.egoplan.records import EGO4D, EPIC_KITCHENS, Record, read_annotations
from lmms_egoplan.benchmarks.egothink import demo as egothink
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.cli import app
from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
from lmms_egoplan.demo.scenes import FPS, SCENES, Scene
from lmms_egoplan.media.frames import count_video_frames, read_frame_folder, read_video_frames
from lmms_egoplan.outputs import MANIFEST

EGOTHINK = Path(__file__).parents[2] / "shared" / "data" / "egothink"
# A judge that answers nothing, and a key that nobody may see.
USERS_JUDGE = {
    "LMMS_EGOPLAN_JUDGE_MODEL": "users-own-judge",
    "LMMS_EGOPLAN_JUDGE_BASE_URL": "http://127.0.0.1:9/v1",
    "LMMS_EGOPLAN_JUDGE_API_KEY": "users-own-key",
    "LMMS_EGOPLAN_JUDGE_CONCURRENCY": "many",
    "MODEL_VERSION": "users-own-judge",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "OPENAI_API_KEY": "users-own-key",
    "API_TYPE": "azure",
    "AZURE_API_KEY": "users-own-key",
    "LMMS_EGOPLAN_ENCODER": "/users-own-encoder",
    "LMMS_EGOPLAN_BLEURT": "/users-own-classifier",
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("rendered")
    EGOPLAN.write(folder)
    return folder / "egoplan"


@pytest.fixture(scope="module")
def records(rendered) -> list[Record]:
    return read_annotations(rendered / "EgoPlan_validation.json", "val")


@pytest.fixture(scope="module")
def asked(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    egothink.write(folder)
    return folder / "egothink"


@pytest.fixture(scope="module")
def annotated(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("annotated")
    egointent.write(folder)
    return folder / egointent.FOLDER


@pytest.fixture(scope="module")
def steps(annotated) -> list[egointent_records.Record]:
    return egointent_records.read_annotations(annotated / "steps.jsonl")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


def difference(first: Image.Image, second: Image.Image) -> float:
    """Share of pixels that differ clearly."""
    changed = ImageChops.difference(first, second).convert("L").point(lambda level: 255 * (level > 24))
    return ImageStat.Stat(changed).mean[0] / 255


def frames(rendered: Path, record: Record, numbers: list[int]) -> list[Image.Image]:
    if record.video_source == EGO4D:
        return read_video_frames(rendered / "ego4d" / f"{record.video_id}.mp4", numbers)
    folder = rendered / "epic-kitchens" / record.video_id.split("_")[0] / "rgb_frames" / record.video_id
    return read_frame_folder(folder, numbers)


def test_annotations_are_of_the_official_layout(records):
    assert len(records) == 24
    assert len({record.task_goal for record in records}) == 6
    assert {record.video_source for record in records} == {EPIC_KITCHENS, EGO4D}
    assert len({record.golden_choice_idx for record in records}) == 4


def test_no_question_is_about_a_step_that_has_been_taken(records):
    for record in records:
        past = [action.narration_text for action in record.past_actions]
        assert past
        assert record.answer not in past


def test_past_actions_are_seen(rendered, records):
    for record in records:
        action = record.past_actions[-1]
        middle = (action.start_frame + action.stop_frame) // 2
        before, during = frames(rendered, record, [action.start_frame, middle])
        assert difference(before, during) > 0.03


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.goal)
def test_hands_are_seen_and_move(scene):
    images = list(scene.frames())
    moving = [difference(*pair) > 0 for pair in pairwise(images)]
    assert sum(moving) > len(moving) / 2
    assert {image.size for image in images} == {(160, 120)}


def test_observation_lies_half_a_second_before_the_next_action(records):
    by_video: dict[str, list[Record]] = {}
    for record in records:
        by_video.setdefault(record.video_id, []).append(record)
    for questions in by_video.values():
        for question, following in pairwise(questions):
            next_action = following.past_actions[-1]
            assert next_action.narration_text == question.answer
            assert next_action.start_frame - question.current_observation_frame == FPS / 2
            assert question.past_actions[-1].stop_frame < question.current_observation_frame


def test_clips_are_h264_and_hold_the_whole_scene(rendered, annotated):
    clips = [*(rendered / "ego4d").iterdir(), *(annotated / "videos").iterdir()]
    assert len(clips) == 3 + 6
    for clip in clips:
        with av.open(clip) as container:
            assert container.streams.video[0].codec_context.name == "h264"
        assert count_video_frames(clip) == len(list(SCENES[0].frames()))


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_dimensions_are_of_the_official_layout(asked, dimension: Dimension):
    folder = asked / dimension.folder
    questions = json.loads((folder / "annotations.json").read_text())
    assert [question["image_path"] for question in questions] == [["1.jpg"], ["2.jpg"]]
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["1.jpg", "2.jpg"]
    for question in questions:
        assert question["question"].endswith("?")
        assert {"I", "my", "me"} & set(question["question"].strip("?").replace(",", "").split())
        assert question["answer"].strip()
        assert (len(question["answer"].split()) > 10) == (dimension.capability == "planning")
        with Image.open(folder / "images" / question["image_path"][0]) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (160, 120))
            # Drawn with many colours, not a blank.
            assert len(image.getcolors(160 * 120) or ()) > 100


@pytest.mark.skipif(not EGOTHINK.is_dir(), reason=f"EgoThink's published files are not in {EGOTHINK}")
@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_questions_have_the_published_fields(asked, dimension: Dimension):
    rendered, published = (
        json.loads((root / dimension.folder / "annotations.json").read_text()) for root in (asked, EGOTHINK)
    )
    assert rendered[0].keys() == published[0].keys()
    assert not {question["answer"] for question in rendered if dimension.capability == "planning"} & {
        question["answer"] for question in published
    }


def test_no_dimension_is_missing_or_unknown(asked):
    assert {path.parent for path in asked.rglob("annotations.json")} == {
        asked / dimension.folder for dimension in DIMENSIONS
    }


def test_egothink_is_the_same_each_time(asked, tmp_path):
    egothink.write(tmp_path)
    assert digests(tmp_path / "egothink") == digests(asked)


def test_colors_asked_for_are_seen(asked):
    """The red box in the cupboard, where it is, and the yellow sleeve."""
    for number, spot, low, high in (
        (1, (37, 29), (180, 40, 30), (230, 90, 80)),
        (2, (99, 98), (190, 150, 60), (240, 210, 120)),
    ):
        with Image.open(asked / "Object" / "attribute" / "images" / f"{number}.jpg") as image:
            color = image.getpixel(spot)
        assert all(a <= b <= c for a, b, c in zip(low, color, high, strict=True)), color


def scene_step(record: egointent_records.Record) -> tuple[Scene, int]:
    """The scene, and the position of the step that comes before the record's next one."""
    (scene,) = (scene for scene in SCENES if scene.goal == record.goal)
    return scene, [step.narration for step in scene.steps].index(record.next_step_plan) - 1


def test_a_dozen_steps_indoors_and_outdoors(steps):
    assert len(steps) == 12
    assert {record.goal for record in steps} == {scene.goal for scene in SCENES}
    assert {record.environment for record in steps} == set(egointent_records.ENVIRONMENTS)
    assert not any(record.unverified for record in steps)


def test_labels_are_the_steps_own(steps):
    labels = [getattr(record, field) for record in steps for field in FIELDS]
    assert len(set(labels)) == len(labels)
    assert not [label for label in labels for record in steps if label in prompt_text(vars(record))]
    places = [scene_step(record)[1] for record in steps]
    assert all(place >= 0 for place in places)


def test_steps_end_before_the_hand_has_changed_anything(annotated, steps):
    """What is shown looks the same as if the step had no effect; what follows does not."""
    for record in steps:
        scene, number = scene_step(record)
        idle = replace(scene.steps[number], to={}, meanwhile={})
        effect, none = (
            [frame.tobytes() for frame in each.frames()]
            for each in (scene, replace(scene, steps=(*scene.steps[:number], idle, *scene.steps[number + 1 :])))
        )
        shown = step_frames(annotated / "videos" / f"{record.video_id}.mp4", record.start_sec, record.end_sec)
        start, end = scene.span(number)
        assert all(effect[frame] == none[frame] for frame in shown)
        assert any(effect[frame] != none[frame] for frame in range(shown[-1] + 1, end + 1))
        # The hand is on its way.
        assert start < shown[-1] == scene.first_change(number) - 1


def test_replies_end(checkpoint):
    """Random weights would write on to the limit."""
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    for text in ("What is this?", "Plan the steps.", "Where am I?"):
        content = [{"type": "image", "image": Image.new("RGB", (160, 120), "red")}, {"type": "text", "text": text}]
        inputs = processor.apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        reply = model.generate(**inputs, max_new_tokens=200, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        assert 1 <= len(reply) < 100


def test_activities_are_a_release(tmp_path):
    actplan.write(tmp_path)
    instances, strays = find_instances(tmp_path / actplan.FOLDER)
    assert (len(instances), strays) == (6, {})
    records = [read_instance(tmp_path / actplan.FOLDER, instance) for instance in instances]
    assert not [problem for record in records for problem in record.problems]
    assert {instance.setting for instance in instances} == set(SETTINGS)
    assert len({activity_type(instance.activity) for instance in instances}) == 3
    for record in records:
        assert len(record.images) == 3
        assert record.gold_plan_1 != record.gold_plan_2
        assert form_validity([*record.gold_plan_1, *record.gold_plan_2]) == 1


def test_encoder_tells_steps_apart_and_is_the_same_each_time(tmp_path):
    for name in ("first", "second"):
        write_encoder(tmp_path / name)
    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    embeddings = SentenceTransformer(str(tmp_path / "first"), device="cpu").encode(
        ["grab(cup)", "grab(the cup)", "open(door)"], normalize_embeddings=True
    )
    same, other = embeddings[0] @ embeddings[1], embeddings[0] @ embeddings[2]
    assert other < 0.8
    assert other < same


def test_checkpoint_loads_and_tells_images_apart(checkpoint):
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    losses = []
    for colour in ("red", "blue"):
        content = [{"type": "image", "image": Image.new("RGB", (160, 120), colour)}] * 33
        messages = [
            {"role": "user", "content": [*content, {"type": "text", "text": "What comes next?"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "close the drawer"}]},
        ]
        inputs = processor.apply_chat_template(
            messages, tokenize=True, return_dict=True, return_tensors="pt", padding=True
        )
        assert inputs["input_ids"].shape[1] < model.config.text_config.max_position_embeddings
        with torch.inference_mode():
            losses.append(model(**inputs, labels=inputs["input_ids"]).loss.item())
    assert losses[0] != pytest.approx(losses[1], rel=1e-3)


def test_prompt_is_llavas(checkpoint):
    processor = AutoProcessor.from_pretrained(checkpoint)
    question = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}]}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "A cup."}]}
    prompt = "USER: <image>\nWhat is this? ASSISTANT:"
    assert processor.apply_chat_template([question], add_generation_prompt=True) == prompt
    assert processor.apply_chat_template([question, answer]) == f"{prompt} A cup.</s>"
    text = "Crème brûlée, ½ l"
    assert processor.tokenizer.decode(processor.tokenizer(text).input_ids, skip_special_tokens=True) == text


def test_checkpoint_is_the_same_each_time(checkpoint, tmp_path):
    torch.manual_seed(1)
    write_checkpoint(tmp_path)
    assert digests(tmp_path) == digests(checkpoint)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "data" / "thesis.txt"):
        result = CliRunner().invoke(app, ["demo", "--out", str(out)])
        assert result.exit_code == 1
        assert "--out" in result.output
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "thesis.txt"]


def check_marks(out: Path) -> None:
    """All that the report and `show` say of the demo's scores calls them meaningless."""
    report = json.loads((out / "report" / "report.json").read_text())
    assert {section["key"] for section in report["benchmarks"]} == {benchmark.name for benchmark in BENCHMARKS}
    for section in report["benchmarks"]:
        assert section["scores"]
        assert all(score["is_demo"] and "rendered scenes" in score["apart"] for score in section["scores"])
        assert [remark for remark in section["remarks"] if "meaningless" in remark]
        own = [table for table in section["tables"] if any(row["own"] for row in table["rows"])]
        assert own
        assert all("meaningless" in shown["title"] for shown in own + section["figures"])
    figures = [*(out / "report" / "figures").glob("*.svg")]
    assert figures
    assert all("meaningless" in figure.read_text() for figure in figures)
    for path in (out / "report" / "gallery").glob("*.js"):
        for question in json.loads(path.read_text().partition(",")[2].rpartition(")")[0]):
            assert question["answers"]
            assert all(answer["rating"].startswith("demo: meaningless") for _, answer in question["answers"])
    for form in ("text", "md"):
        shown = CliRunner().invoke(app, ["show", "--format", form, str(out / "results")])
        assert "These scores are meaningless" in " ".join(shown.stdout.split())


@pytest.mark.whole
def test_demo_from_scenes_to_scores(tmp_path):
    # The folder of an earlier run, with a result that must not be read again.
    out = tmp_path / "a demo, again"
    stale = out / "results" / "checkpoint" / "20200101_000000_results.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    manifest = {"command": "demo", "files": [str(stale.relative_to(out))]}
    (out / MANIFEST).write_text(json.dumps(manifest))
    (out / "notes.txt").write_text("mine")

    result = CliRunner().invoke(app, ["demo", "--out", str(out)], env={"COLUMNS": "120"} | USERS_JUDGE)

    assert result.exit_code == 0, result.output
    tasks = [task for benchmark in BENCHMARKS for task in benchmark.load_demo().TASKS]
    assert {*EGOPLAN.TASKS, *egothink.TASKS, *egointent.TASKS, *actplan.TASKS} <= {*tasks}
    assert f"-m lmms_eval --tasks {','.join(tasks)} " in result.stdout
    assert " LMMS_EGOPLAN_JUDGE_MODEL=demo " in result.stdout
    steps = [result.stdout.index(f"\n{number}/6  ") for number in range(1, 7)]
    places = [result.stdout.index("The weights are random"), *steps, result.stdout.index("egoplan_val_clips")]
    assert places == sorted(places)
    assert "acc_bytes by the sum per byte" in " ".join(result.stdout.split())
    shown = [line.split("  ") for line in result.stdout.splitlines()]
    rows = [(cells[0].strip() or cells[1].strip(), cells[-1].partition("(")[0].strip()) for cells in shown if cells[1:]]
    assert (out / "notes.txt").read_text() == "mine"
    (results,) = out.glob("results/**/*_results.json")
    metrics = {
        task: {name.partition(",")[0]: value for name, value in named.items()}
        for task, named in json.loads(results.read_text())["results"].items()
    }
    for task in EGOPLAN.TASKS:
        assert metrics[task]["num_questions"] == 24
        assert metrics[task]["coverage"] == 1
        assert len(list(out.glob(f"results/**/*_samples_{task}.jsonl"))) == 1
        assert ("acc", f"{100 * metrics[task]['acc']:.2f}") in rows
    scores = []
    for dimension in DIMENSIONS:
        task = f"egothink_{dimension.capability}_{dimension.name}"
        assert metrics[task]["num_questions"] == 2
        assert metrics[task]["judge_coverage"] == 1
        assert "demo" in metrics[task]["judge_model"]
        (samples,) = out.glob(f"results/**/*_samples_{task}.jsonl")
        assert len(samples.read_text().splitlines()) == 2
        assert (dimension.name, f"{metrics[task]['score']:.1f}") in rows
        scores.append(metrics[task]["score"])
    assert metrics["egothink_bench"]["score"] == pytest.approx(sum(scores) / 12)
    assert ("average of the twelve", f"{metrics['egothink_bench']['score']:.1f}") in rows
    assert ("judge", "demo") in rows
    intents = metrics["egointent"]
    assert (intents["num_steps"], intents["coverage"]) == (12, 1)
    assert intents["judge_coverage"] == 1 or (intents["parsed"] == 0 and math.isnan(intents["judge_coverage"]))
    assert intents["overall"] == pytest.approx(sum(intents[field] for field in RELEASE_NAMES.values()) / 3)
    (samples,) = out.glob("results/**/*_samples_egointent.jsonl")
    assert len(samples.read_text().splitlines()) == 12
    assert {(name, f"{intents[name]:.2f}") for name in ("overall", *RELEASE_NAMES.values())} <= {*rows}
    assert ("judge", "not asked") in rows
    for task in ("actplan", "actplan_text_only"):
        plans = metrics[task]
        assert (plans["num_plans"], plans["num_gold_2"], plans["coverage"]) == (6, 6, 1)
        assert plans["plans_by_setting"] == {"counterfactual": 2, "normal": 4}
        assert "bleurt_correct" not in plans
        assert (plans["encoder"], "is not set" in plans["bleurt_model"]) == ("encoder", True)
        (samples,) = out.glob(f"results/**/*_samples_{task}.jsonl")
        assert len(samples.read_text().splitlines()) == 6
        assert ("Norm. LCS", f"{plans['lcs_norm']:.3f}") in rows
    assert not {path.name for path in out.iterdir()} & {"actplan", *tasks}
    page = out / "report" / "index.html"
    assert f"Report, to open in a browser: {page}" in result.stdout
    assert "egothink/existence/1" in page.read_text(encoding="utf-8")
    for benchmark in BENCHMARKS:
        assert [*out.glob(f"report/tables/{benchmark.name}_*.csv")]
    assert {of_task.get("question_set") for of_task in metrics.values()} - {None} == {"rendered scenes"}
    check_marks(out)
    # A judge that is not the demo's changes nothing.
    results.write_text(results.read_text().replace('"demo"', '"gpt-4o"'))
    for samples in out.glob("results/**/*_samples_*.jsonl"):
        samples.write_text(samples.read_text().replace('"demo"', '"gpt-4o"'))
    report = CliRunner().invoke(app, ["report", str(out / "results"), "--out", str(out / "report")])
    assert report.exit_code == 0, report.output
    check_marks(out)
    log = (out / "lmms-eval.log").read_text()
    assert "Ranking" in log
    assert log.index("This is intended") < log.index("Both target_delimiter")
    assert "users-own" not in log + result.output
    written = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in written if b"users-own" in path.read_bytes()]
