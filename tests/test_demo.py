"""The demo: its data, its scripted models and judge, its checkpoint, and one run of the whole
command.
"""

import hashlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

import av
import pytest
import torch
from PIL import Image, ImageChops, ImageStat
from sentence_transformers import SentenceTransformer
from transformers import AutoModelForImageTextToText, AutoProcessor
from typer.testing import CliRunner

from lmms_egoplan.benchmarks.actplan.instances import (
    SETTINGS,
    activity_type,
    find_instances,
    read_instance,
)
from lmms_egoplan.benchmarks.actplan.reply import parsed_steps
from lmms_egoplan.benchmarks.actplan.reply.calls import form_validity
from lmms_egoplan.benchmarks.base import DEMO_SETS
from lmms_egoplan.benchmarks.egointent import judge_protocol as egointent_judge
from lmms_egoplan.benchmarks.egointent import records as egointent_records
from lmms_egoplan.benchmarks.egointent.frames import step_frames
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS, RELEASE_NAMES, v1_prompt_text
from lmms_egoplan.benchmarks.egoplan.records import (
    DOMAINS,
    EGO4D,
    EPIC_KITCHENS,
    Record,
    read_annotations,
)
from lmms_egoplan.benchmarks.egothink import judge_protocol as egothink_judge
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS, Dimension
from lmms_egoplan.cli import app
from lmms_egoplan.demo import DATA
from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
from lmms_egoplan.demo.folder import _EXPECTED_WARNINGS
from lmms_egoplan.demo.run import serve_judge, verdict_on
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import JudgeRequest
from lmms_egoplan.judging.settings import JudgeSettings
from lmms_egoplan.media.frames import count_video_frames, read_frame_folder, read_video_frames
from lmms_egoplan.stats.intervals import FEWEST_CLUSTERS
from markers import write_marker
from ranking.reference import user_turn

ROOT = Path(__file__).parents[1]
EGOTHINK = ROOT.parent / "shared" / "data" / "egothink"
FPS, FRAMES = 10, 118
GOOD, POOR, RANDOM = "scripted-good", "scripted-poor", "random-weights"
# The user's judge, which does not answer, and the user's keys, which no output may contain.
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


def read(path: str):
    return json.loads((DATA / path).read_text())


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return read_annotations(DATA / "egoplan" / "EgoPlan_validation.json", "val")


@pytest.fixture(scope="module")
def steps() -> list[egointent_records.Record]:
    return egointent_records.read_annotations(DATA / "egointent-steps" / "steps.jsonl")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


def difference(first: Image.Image, second: Image.Image) -> float:
    """Return the fraction of pixels that differ clearly."""
    changed = (
        ImageChops.difference(first, second).convert("L").point(lambda level: 255 * (level > 24))
    )
    return ImageStat.Stat(changed).mean[0] / 255


def test_data_take_at_most_two_megabytes():
    assert sum(path.stat().st_size for path in DATA.rglob("*")) < 2e6


@pytest.mark.nightly
def test_the_script_makes_the_same_questions(tmp_path):
    """Only texts: the bytes of images and videos depend on the versions of libraries."""
    subprocess.run(
        [sys.executable, ROOT / "perf" / "demo" / "render.py", tmp_path / "data"], check=True
    )
    media = (".mp4", ".jpg", ".png")
    made, stored = (
        {
            path.relative_to(root): None if path.suffix in media else path.read_bytes()
            for path in root.rglob("*")
            if path.is_file()
        }
        for root in (tmp_path / "data", DATA)
    )
    assert made == stored


def test_every_benchmark_has_enough_clusters_for_intervals(records, steps):
    instances = find_instances(DATA / "actplan-annotation")[0]
    clusters = {
        "egoplan": {record.video_id for record in records},
        "egoplan_bench2": {
            row["sample_id"].partition("_")[0] for row in read("egoplan-bench2/EgoPlan-Bench2.json")
        },
        "egothink": {*(DATA / "egothink").rglob("*.jpg")},
        "egointent": {step.video_id for step in steps},
        "actplan": {instance.activity for instance in instances},
    }
    assert clusters.keys() == DEMO_SETS.keys()
    assert {name: len(of_name) for name, of_name in clusters.items()} == dict.fromkeys(
        clusters, 12
    ) | {"egothink": 24}
    assert FEWEST_CLUSTERS < 12


def test_questions_are_about_a_step_that_has_not_been_taken(records):
    assert len(records) == 24
    assert Counter(record.video_source for record in records) == {EPIC_KITCHENS: 12, EGO4D: 12}
    assert len({record.golden_choice_idx for record in records}) == 4
    for record in records:
        past = [action.narration_text for action in record.past_actions]
        assert past
        assert record.answer not in past
        # The observation is in the pause, half a second before the next step, which starts at the
        # pause's eighth frame.
        assert record.current_observation_frame - record.past_actions[-1].stop_frame == 9 - FPS / 2
    bench2 = read("egoplan-bench2/EgoPlan-Bench2.json")
    assert Counter(row["domain"] for row in bench2) == dict.fromkeys(DOMAINS, 6)


def test_past_actions_are_visible(records, tmp_path):
    root = copy_set(DEMO_SETS["egoplan"], tmp_path)
    for record in records:
        action = record.past_actions[-1]
        numbers = [action.start_frame, (action.start_frame + action.stop_frame) // 2]
        if record.video_source == EGO4D:
            frames = read_video_frames(root / "ego4d" / f"{record.video_id}.mp4", numbers)
        else:
            folder = root / "epic-kitchens" / "rendered" / "rgb_frames" / record.video_id
            assert len([*folder.iterdir()]) == FRAMES
            frames = read_frame_folder(folder, numbers)
        assert difference(*frames) > 0.03, record.sample_id


def test_clips_are_h264_and_of_one_length():
    clips = [*DATA.rglob("*.mp4")]
    assert len(clips) == 3 * 12
    for clip in clips:
        with av.open(clip) as container:
            assert container.streams.video[0].codec_context.name == "h264"
        assert count_video_frames(clip) == FRAMES


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_dimensions_are_of_the_official_layout(dimension: Dimension):
    folder = DATA / "egothink" / dimension.folder
    questions = json.loads((folder / "annotations.json").read_text())
    assert [question["image_path"] for question in questions] == [["1.jpg"], ["2.jpg"]]
    assert sorted(path.name for path in (folder / "images").iterdir()) == ["1.jpg", "2.jpg"]
    for question in questions:
        assert question["question"].endswith("?")
        assert {"I", "my", "me"} & set(question["question"].strip("?").replace(",", "").split())
        assert (len(question["answer"].split()) > 10) == (dimension.capability == "planning")
        with Image.open(folder / "images" / question["image_path"][0]) as image:
            assert (image.format, image.mode, image.size) == ("JPEG", "RGB", (160, 120))
            # A drawing with many colours, not a blank image.
            assert len(image.getcolors(160 * 120) or ()) > 100
    if EGOTHINK.is_dir():
        published = json.loads((EGOTHINK / dimension.folder / "annotations.json").read_text())
        assert questions[0].keys() == published[0].keys()


def test_colors_in_questions_are_visible():
    """Check the red box in the cupboard and the yellow sleeve, each at its position."""
    for number, spot, low, high in (
        (1, (37, 29), (180, 40, 30), (230, 90, 80)),
        (2, (99, 98), (190, 150, 60), (240, 210, 120)),
    ):
        with Image.open(
            DATA / "egothink" / "Object" / "attribute" / "images" / f"{number}.jpg"
        ) as image:
            color = image.getpixel(spot)
        assert all(a <= b <= c for a, b, c in zip(low, color, high, strict=True)), color


def test_steps_end_as_the_hand_arrives(steps):
    assert len(steps) == 12
    assert Counter(record.environment for record in steps) == {"indoor": 9, "outdoor": 3}
    assert not any(record.unverified for record in steps)
    labels = [getattr(record, field) for record in steps for field in FIELDS]
    assert len(set(labels)) == len(labels)
    for record in steps:
        assert not [label for label in labels if label in v1_prompt_text(vars(record))]
        video = DATA / "egointent-steps" / "videos" / f"{record.video_id}.mp4"
        numbers = step_frames(video, record.start_sec, record.end_sec)
        # A pause of eight frames, and three frames in which the hand arrives.
        assert numbers[-1] - numbers[0] == 10


def test_activities_are_a_release():
    root = DATA / "actplan-annotation"
    instances, strays = find_instances(root)
    assert (len(instances), strays) == (14, {})
    records = [read_instance(root, instance) for instance in instances]
    assert not [problem for record in records for problem in record.problems]
    assert Counter(instance.setting for instance in instances) == {SETTINGS[0]: 12, SETTINGS[1]: 2}
    assert len({activity_type(instance.activity) for instance in instances}) == 5
    for record in records:
        assert len(record.images) == 3
        assert record.gold_plan_1 != record.gold_plan_2
        assert form_validity([*record.gold_plan_1, *record.gold_plan_2]) == 1


@pytest.mark.parametrize(("model", "low", "high"), [(GOOD, 0.75, 0.85), (POOR, 0.35, 0.45)])
def test_scripted_models_are_as_good_as_they_are_called(model, low, high, records, steps):
    replies = read(f"{model}/replies.json")
    golden = {str(record.sample_id): record for record in records}
    bench2 = {row["sample_id"]: row for row in read("egoplan-bench2/EgoPlan-Bench2.json")}
    shares = {
        "egoplan_val": fmean(
            golden[name].answer == reply for name, reply in replies["egoplan_val"].items()
        ),
        "egoplan_bench2": fmean(
            bench2[name]["answer"] == reply for name, reply in replies["egoplan_bench2"].items()
        ),
        "egothink": fmean(rating for rating in egothink_ratings(replies)),
        "egointent": fmean(rating / 100 for rating in egointent_ratings(replies, steps)),
    }
    assert all(low <= share <= high for share in shares.values()), shares
    assert len(replies["egoplan_val"]) == len(replies["egoplan_bench2"]) == 24
    for name, reply in replies["egoplan_val_generate"].items():
        assert getattr(golden[name], f"choice_{reply.lower()}") == replies["egoplan_val"][name]
    for task in ("actplan", "actplan_text_only"):
        assert len(replies[task]) == 14
        assert all(form_validity(parsed_steps(reply)) == 1 for reply in replies[task].values())


def test_both_scripted_models_are_right_where_the_other_is_not():
    good, poor = (read(f"{model}/replies.json")["egoplan_val"] for model in (GOOD, POOR))
    right = {
        str(row["sample_id"]): row["answer"] for row in read("egoplan/EgoPlan_validation.json")
    }
    kinds = Counter((good[name] == answer, poor[name] == answer) for name, answer in right.items())
    assert kinds[True, False] > kinds[False, True] > 0


def egothink_ratings(replies):
    """Yield the judge's ratings of a model's answers. A reason must precede each rating."""
    for dimension in DIMENSIONS:
        questions = json.loads(
            (DATA / "egothink" / dimension.folder / "annotations.json").read_text()
        )
        for number, question in enumerate(questions, 1):
            answer = replies[dimension.task][f"{dimension.name}/{number}"]
            prompt = egothink_judge.PROTOCOLS["paper"].prompt.format(
                question=question["question"], ref_answer_1=question["answer"], answer=answer
            )
            yield rating_with_reason(egothink_judge.read_rating, prompt)


def egointent_ratings(replies, steps):
    for step in steps:
        reply = json.loads(replies["egointent"][step.step_id])
        for field, name in RELEASE_NAMES.items():
            prompt = egointent_judge.judge_prompt(
                vars(step), {field: reply[name]}, egointent_judge.RELEASE
            )
            yield rating_with_reason(egointent_judge.read_rating, prompt)


def rating_with_reason(read_rating, prompt):
    verdict = verdict_on(prompt)
    assert "no verdict" not in verdict, prompt
    assert re.match(r"[A-Z].{15,}\.\n", verdict)
    return read_rating(verdict)


def test_unknown_answers_get_the_lowest_rating(tmp_path, monkeypatch):
    """The server names itself, and rates on the scales of both benchmarks."""
    request = JudgeRequest(
        "existence/1", "What?\n\na carton of juice\n\na ball\n", "a carton of juice", "a ball"
    )
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    with serve_judge() as url:
        for scale in (egothink_judge.SCALE, egointent_judge.SCALE):
            (judgement,) = judge_all([request], scale, JudgeSettings("scripted-judge", url, "none"))
            assert (judgement.rating, judgement.judge, judgement.error) == (
                0,
                "scripted-judge",
                None,
            )


def test_equal_texts_count_as_reference_and_answer():
    """An answer that equals the reference has a verdict; another answer to the same question has
    none.
    """
    entry = next(row for row in read("verdicts.json") if row["reference"] == row["answer"])
    assert verdict_on(f"{entry['reference']}\n\n{entry['answer']}\n") == entry["verdict"]
    assert verdict_on(f"{entry['reference']}\n\na ball\n") != entry["verdict"]


def test_replies_end(checkpoint):
    """Without special measures, random weights would generate up to the token limit."""
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    for text in ("What is this?", "Plan the steps.", "Where am I?"):
        inputs = processor.apply_chat_template(
            user_turn(text, [Image.new("RGB", (160, 120), "red")]),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        reply = model.generate(**inputs, max_new_tokens=200, do_sample=False)[
            0, inputs["input_ids"].shape[1] :
        ]
        assert 1 <= len(reply) < 100


def test_encoder_distinguishes_steps_and_is_reproducible(tmp_path):
    for name in ("first", "second"):
        write_encoder(tmp_path / name)
    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    embeddings = SentenceTransformer(str(tmp_path / "first"), device="cpu").encode(
        ["grab(cup)", "grab(the cup)", "open(door)"], normalize_embeddings=True
    )
    same, other = embeddings[0] @ embeddings[1], embeddings[0] @ embeddings[2]
    assert other < 0.8
    assert other < same


def test_checkpoint_loads_and_distinguishes_images(checkpoint):
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    losses = []
    for colour in ("red", "blue"):
        messages = [
            *user_turn("What comes next?", [Image.new("RGB", (160, 120), colour)] * 33),
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
    question = {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": "What is this?"}],
    }
    answer = {"role": "assistant", "content": [{"type": "text", "text": "A cup."}]}
    prompt = "USER: <image>\nWhat is this? ASSISTANT:"
    assert processor.apply_chat_template([question], add_generation_prompt=True) == prompt
    assert processor.apply_chat_template([question, answer]) == f"{prompt} A cup.</s>"
    text = "Crème brûlée, ½ l"
    assert (
        processor.tokenizer.decode(processor.tokenizer(text).input_ids, skip_special_tokens=True)
        == text
    )


def test_checkpoint_is_reproducible(checkpoint, tmp_path):
    torch.manual_seed(1)
    write_checkpoint(tmp_path)
    assert digests(tmp_path) == digests(checkpoint)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_other_files_are_not_changed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("mine")
    for out in (tmp_path, tmp_path / "data" / "thesis.txt"):
        result = CliRunner().invoke(app, ["demo", "--out", str(out)])
        assert result.exit_code == 1
        assert "--out" in result.output
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "thesis.txt"]


def check_marks(out: Path) -> None:
    """Report and `show` call the demo's scores meaningless wherever they appear."""
    report = json.loads((out / "report" / "report.json").read_text())
    assert {section["key"] for section in report["benchmarks"]} == DEMO_SETS.keys()
    for section in report["benchmarks"]:
        assert {score["run"] for score in section["scores"]} == {GOOD, POOR, RANDOM}
        assert all(
            score["is_demo"] and "rendered scenes" in score["apart"] for score in section["scores"]
        )
        tables = [table for table in section["tables"] if any(row["own"] for row in table["rows"])]
        assert tables
        assert all("meaningless" in element["title"] for element in tables + section["figures"])
    assert "These runs have meaningless scores" in (out / "report" / "index.html").read_text()
    figures = [*(out / "report" / "figures").glob("*.svg")]
    assert figures
    assert all("meaningless" in figure.read_text() for figure in figures)
    for question in gallery(out):
        assert question["answers"]
        assert all(answer["demo"] for _, answer in question["answers"])
    for form in ("text", "md"):
        result = CliRunner().invoke(app, ["show", "--format", form, str(out / "results")])
        assert "meaningless scores" in " ".join(result.stdout.split())


def gallery(out: Path) -> list[dict]:
    files = sorted((out / "report" / "gallery").glob("*.js"))
    return [
        row
        for path in files
        for row in json.loads(path.read_text().partition(",")[2].rpartition(")")[0])
    ]


def check_lessons(out: Path) -> None:
    """The report contains intervals, differences, reasons, gold plans, and questions on which two
    runs disagree.
    """
    report = json.loads((out / "report" / "report.json").read_text())
    for section in report["benchmarks"]:
        # others have few questions
        bounded = [score for score in section["scores"] if score["low"] is not None]
        assert {GOOD, POOR} <= {score["run"] for score in bounded}, section["key"]
        assert all(score["low"] <= score["value"] <= score["high"] for score in bounded), section[
            "key"
        ]
        (pair, *_) = (
            pair
            for pair in section["differences"]
            if {pair["first"], pair["second"]} == {GOOD, POOR}
        )
        assert pair["first"] == GOOD
        assert 0 < pair["low"] < pair["value"] < pair["high"]
    questions = gallery(out)
    chosen = [
        {answer.get("chosen") for _, answer in row["answers"]}
        for row in questions
        if row["choices"]
    ]
    assert len(chosen) == 48
    assert sum(len(of_question) > 1 for of_question in chosen) > 30
    texts = [json.dumps(row) for row in questions]
    assert sum("Both name a carton of juice." in text for text in texts) == 1
    assert (
        sum("The place and the action are right, the juice is missing." in text for text in texts)
        == 1
    )
    plans = [text for text in texts if "place_inside(cupboard, rice_box)" in text]
    assert len(plans) == 2
    assert all("Gold plan 1" in text and "Gold plan 2" in text for text in plans)
    page = (out / "report" / "index.html").read_text(encoding="utf-8")
    assert "Every pair of runs" in page
    assert "Two models disagree" in page
    assert "egothink/existence/1" in page


def write_earlier_folder(out: Path) -> None:
    """Write the folder of an earlier run, with results that must not be read."""
    stale = out / "results" / "checkpoint" / "20200101_000000_results.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    write_marker(out, "demo", [stale.relative_to(out)])
    (out / "notes.txt").write_text("mine")


def check_output(stdout: str, out: Path) -> None:
    """The output has the steps in their order, then a finding, the table, the page, and the next
    commands.
    """
    expected = ["random weights"]
    expected += [f"\n{number}/5  " for number in range(1, 6)]
    expected += [
        f"\n{GOOD} and {RANDOM} do not differ measurably",
        "95\u202f% interval",
        "\nModel ",
        "meaningless scores",
    ]
    expected += [f"Report, to open in a browser: {out / 'report' / 'index.html'}"]
    expected += ["lmms-egoplan run MODEL", "lmms-egoplan show runs"]
    position = 0
    for text in expected:
        position = stdout.index(text, position)
    rows = [line.split()[0] for line in stdout.splitlines() if line.strip()]
    assert [rows.count(model) for model in (GOOD, POOR, RANDOM)] == [2, 1, 1]
    assert len(stdout.splitlines()) <= 50


def check_folder(out: Path) -> None:
    """No prepared data are left in the folder, and each benchmark has tables."""
    tasks = [task for demo in DEMO_SETS.values() for task in demo.tasks]
    assert not {path.name for path in out.iterdir()} & {"actplan", *tasks}
    for name in DEMO_SETS:
        assert [*out.glob(f"report/tables/{name}_*.csv")]


def metrics_of(out: Path, model: str) -> dict[str, dict]:
    """Return a model's metrics and details of each task."""
    (results,) = out.glob(f"results/{model}/*_results.json")
    content = json.loads(results.read_text())
    return {
        task: {name.partition(",")[0]: value for name, value in named.items()}
        | content["details"].get(task, {})
        for task, named in content["results"].items()
    }


def check_counts(out: Path, model: str, metrics: dict[str, dict]) -> None:
    """All questions of the rendered scenes are asked, and all answers judged."""
    assert {of_task.get("question_set") for of_task in metrics.values()} - {None} == {
        "rendered scenes"
    }
    counts = {
        "egoplan_val": 24,
        "egoplan_bench2": 24,
        **{dimension.task: 2 for dimension in DIMENSIONS},
    }
    for task, count in counts.items():
        assert (metrics[task]["num_questions"], metrics[task]["coverage"]) == (count, 1)
        (samples,) = out.glob(f"results/{model}/*_samples_{task}.jsonl")
        assert len(samples.read_text().splitlines()) == count
    for dimension in DIMENSIONS:
        assert metrics[dimension.task]["judge_coverage"] == 1
        assert metrics[dimension.task]["judge_model"] == "scripted-judge"
    assert (metrics["egointent"]["num_steps"], metrics["egointent"]["coverage"]) == (12, 1)
    for task in ("actplan", "actplan_text_only"):
        plans = metrics[task]
        assert (plans["num_plans"], plans["num_gold_2"], plans["coverage"]) == (14, 14, 1)
        breakdown = plans["breakdown"]["setting"]
        assert {setting: means["plans"] for setting, means in breakdown.items()} == {
            "counterfactual": 2,
            "normal": 12,
        }
        assert "bleurt_correct" not in plans
        assert (plans["encoder"], "is not set" in plans["bleurt_model"]) == ("encoder", True)


def check_scores(metrics_by_model: dict[str, dict[str, dict]]) -> None:
    """The scripted models have the scores for which they were written."""
    main = {}
    for model, metrics in metrics_by_model.items():
        for demo in DEMO_SETS.values():
            main |= {(model, task): metrics[task][metric] for task, metric in demo.scores.items()}
    expected = {
        (GOOD, "egoplan_val"): 19 / 24,
        (POOR, "egoplan_val"): 10 / 24,
        (GOOD, "egoplan_val_generate"): 19 / 24,
        (GOOD, "egoplan_bench2"): 19 / 24,
        (POOR, "egoplan_bench2_generate"): 10 / 24,
        (GOOD, "egothink_bench"): 81.25,
        (POOR, "egothink_bench"): 35.41666667,
        (GOOD, "egointent"): 83.33333333,
        (POOR, "egointent"): 41.94444444,
        (GOOD, "actplan"): 0.90413059,
        (POOR, "actplan_text_only"): 0.44071068,
    }
    assert {key: main[key] for key in expected} == pytest.approx(expected)


@pytest.mark.whole
def test_demo_from_scenes_to_scores(tmp_path):
    out = tmp_path / "a demo, again"
    write_earlier_folder(out)

    result = CliRunner().invoke(
        app, ["demo", "--out", str(out)], env={"COLUMNS": "120"} | USERS_JUDGE
    )

    assert result.exit_code == 0, result.output
    assert (out / "notes.txt").read_text() == "mine"
    check_output(result.stdout, out)
    check_folder(out)
    metrics_by_model = {model: metrics_of(out, model) for model in (GOOD, POOR, RANDOM)}
    for model, metrics in metrics_by_model.items():
        check_counts(out, model, metrics)
    check_scores(metrics_by_model)

    check_lessons(out)
    check_marks(out)
    # The scores are also called meaningless if the judge has another name.
    for path in (*out.glob("results/*/*_results.json"), *out.glob("results/*/*_samples_*.jsonl")):
        path.write_text(path.read_text().replace('"scripted-judge"', '"gpt-4o"'))
    report = CliRunner().invoke(app, ["report", str(out / "results"), "--out", str(out / "report")])
    assert report.exit_code == 0, report.output
    check_marks(out)
    log = (out / "lmms-eval.log").read_text()
    assert "Ranking" in log
    assert log.index(_EXPECTED_WARNINGS) < log.index("Both target_delimiter")
    assert "users-own" not in log + result.output
    written = [path for path in out.rglob("*") if path.is_file()]
    assert not [path for path in written if b"users-own" in path.read_bytes()]
