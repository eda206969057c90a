"""Conditions of one question share decoding, encoding and results in one run, and keep their
numbers.
"""

import threading
from collections import Counter

import pytest
from lmms_eval.api.instance import Instance, unwrap_generation_output

from lmms_egoplan.benchmarks.conditions import apply_condition
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import prefetch
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.lmms_eval.response_cache import ModelCache
from lmms_egoplan.media import frames as frame_files
from lmms_egoplan.media.frames import Clip, read_frame_folder, read_video_frames
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood
from media.files import damage_packet, write_epic_folder, write_numbered_video
from zoo import save

CHOICES = ["take the mug", "take the mug and rinse it", "pour water"]
SHOWN = [0, 3, 6, 8]
CONDITIONS = (
    None,
    "last_frame",
    "first_frame",
    "frozen",
    "shuffled",
    "reversed",
    "without_goal",
    "blind",
    "other_video",
)
FEW = (None, "reversed", "blind", "other_video")
SPLIT = "val"


class Conditions:
    """Questions about videos and frame folders, in several conditions, and their requests in the
    harness's order.
    """

    def __init__(self, model, folder, *, as_clip=False, conditions=CONDITIONS):
        self.model, self.as_clip = model, as_clip
        paths = [write_numbered_video(folder / f"{number}.mp4", 9 + number) for number in range(2)]
        paths.append(write_epic_folder(folder / "folder", 0, 9))
        rows = [{"sample_id": 10 + number, "path": path} for number, path in enumerate(paths)]
        self.tasks = {
            f"task_{condition}": [
                {
                    **row,
                    "condition": condition,
                    **({"partner": rows[number - 1]} if condition == "other_video" else {}),
                }
                for number, row in enumerate(rows)
            ]
            for condition in conditions
        }
        for task, docs in self.tasks.items():
            model.task_dict[task] = {SPLIT: docs}

    def requests(self, *tasks):
        return [
            self.request(
                "loglikelihood", (self.text(doc), choice, self.visuals), doc_id, task, index
            )
            for task in tasks or self.tasks
            for doc_id, doc in enumerate(self.tasks[task])
            for index, choice in enumerate(CHOICES)
        ]

    def generation_requests(self, *tasks, **arguments):
        return [
            self.request(
                "generate_until", (self.text(doc), dict(arguments), self.visuals), doc_id, task
            )
            for task in tasks or self.tasks
            for doc_id, doc in enumerate(self.tasks[task])
        ]

    @staticmethod
    def request(kind, arguments, doc_id, task, index=0):
        metadata = {"task": task, "doc_id": doc_id, "repeats": 1}
        return Instance(
            request_type=kind,
            arguments=(*arguments, doc_id, task, SPLIT),
            idx=index,
            metadata=metadata,
        )

    @staticmethod
    def text(doc):
        goal = "" if doc["condition"] == "without_goal" else " to brew tea"
        return f"What comes next{goal}, question {doc['sample_id']}?"

    def visuals(self, doc):
        if doc["condition"] == "blind":
            return []
        path = doc.get("partner", doc)["path"]
        images = (read_frame_folder if path.is_dir() else read_video_frames)(path, SHOWN)
        images = apply_condition(images, doc["condition"], str(doc["sample_id"]))
        return [Clip(images, 2.0)] if self.as_clip and len(images) > 1 else images


def scores(responses):
    parsed = [parse_loglikelihood(unwrap_generation_output(response)[0]) for response in responses]
    return [(score.loss, score.num_tokens, score.is_greedy) for score in parsed]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    return lambda name: str(save(name, folder / name))


@pytest.fixture
def decoded(monkeypatch):
    """Count the decoded frames of each file."""
    counts, lock, decode, read = (
        Counter(),
        threading.Lock(),
        frame_files.decode,
        frame_files.read_image,
    )

    def counting_decode(path, table, positions, convert):
        with lock:
            counts.update((path, position) for position in positions)
        return decode(path, table, positions, convert)

    def counting_read(path):
        with lock:
            counts[path] += 1
        return read(path)

    monkeypatch.setattr(frame_files, "decode", counting_decode)
    monkeypatch.setattr(frame_files, "read_image", counting_read)
    return counts


@pytest.mark.parametrize(
    ("name", "as_clip"),
    [
        pytest.param("qwen2_5_vl", True, marks=pytest.mark.whole),
        *(
            pytest.param(name, as_clip, marks=pytest.mark.nightly)
            for name, as_clip in [
                ("llava", False),
                ("qwen2_5_vl", False),
                ("idefics3", False),
                ("internvl", True),
            ]
        ),
    ],
)
def test_numbers_are_those_of_separate_runs(checkpoint, tmp_path, decoded, name, as_clip):
    model = HFVLM(checkpoint(name), dtype="float32", workers=3)
    questions = Conditions(model, tmp_path, as_clip=as_clip)
    together = scores(model.loglikelihood(questions.requests()))
    assert set(decoded.values()) == {1}
    assert len(decoded) == 3 * len(SHOWN)
    separate = [
        score
        for task in questions.tasks
        for score in scores(model.loglikelihood(questions.requests(task)))
    ]
    assert max(decoded.values()) > 1
    assert together == separate
    assert len(set(together)) > len(together) / 2


def texts(responses):
    return [unwrap_generation_output(response)[0] for response in responses]


@pytest.mark.parametrize(
    ("name", "as_clip", "conditions"),
    [
        ("llava", False, FEW),
        pytest.param("llava", False, CONDITIONS, marks=pytest.mark.nightly),
        pytest.param("qwen2_5_vl", True, CONDITIONS, marks=pytest.mark.nightly),
    ],
)
def test_written_answers_are_those_of_separate_runs(
    checkpoint, tmp_path, decoded, name, as_clip, conditions
):
    model = HFVLM(checkpoint(name), dtype="float32", workers=3)
    questions = Conditions(model, tmp_path, as_clip=as_clip, conditions=conditions)
    together = texts(model.generate_until(questions.generation_requests(max_new_tokens=6)))
    assert set(decoded.values()) == {1}
    separate = [
        text
        for task in questions.tasks
        for text in texts(
            model.generate_until(questions.generation_requests(task, max_new_tokens=6))
        )
    ]
    assert max(decoded.values()) > 1
    assert together == separate
    assert len(set(together)) > len(together) / 3


def test_equal_conditions_are_answered_once_unless_sampled(checkpoint, tmp_path, monkeypatch):
    model = HFVLM(checkpoint("llava"), dtype="float32")
    questions = Conditions(model, tmp_path, conditions=(None, "last_4_actions"))
    answered, generate = [], model._generator._generate
    monkeypatch.setattr(
        model._generator,
        "_generate",
        lambda batch: answered.append(*batch.question_ids) or generate(batch),
    )
    greedy = texts(model.generate_until(questions.generation_requests(max_new_tokens=6)))
    assert [name.split(" (")[0] for name in answered] == [
        "task_None/0",
        "task_None/1",
        "task_None/2",
    ]
    assert greedy[:3] == greedy[3:]
    for settings in ({"do_sample": True, "temperature": 50.0}, {"do_sample": None}):
        answered.clear()
        sampled = questions.generation_requests(max_new_tokens=6, **settings)
        assert len(set(texts(model.generate_until(sampled)))) == len(answered) == 6
        # for the next settings
        model._model.generation_config.update(do_sample=True, temperature=50.0)


def test_an_interrupted_generation_loses_no_response(checkpoint, tmp_path, monkeypatch):
    model = HFVLM(checkpoint("llava"), dtype="float32", workers=2)
    requests = Conditions(model, tmp_path, conditions=FEW).generation_requests(max_new_tokens=4)
    expected = texts(model.generate_until(requests))
    answered, generate, stop_at = [], model._generator._generate, 5

    def interrupted(batch):
        if len(answered) == stop_at:
            raise KeyboardInterrupt
        answered.extend(batch.question_ids)
        return generate(batch)

    monkeypatch.setattr(model._generator, "_generate", interrupted)
    cache = open_cache(model, tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt):
        cache.execute(model, "generate_until", requests)
    stop_at = None
    resumed = open_cache(model, tmp_path / "cache").execute(model, "generate_until", requests)
    assert texts(resumed) == expected
    assert len(set(answered)) == len(answered) == len(FEW) * 3


@pytest.mark.nightly
@pytest.mark.parametrize("limit", [1, 300_000])
def test_little_memory_changes_no_number(checkpoint, tmp_path, monkeypatch, limit):
    model = HFVLM(checkpoint("qwen2_5_vl"), dtype="float32", workers=3)
    requests = Conditions(model, tmp_path).requests()
    expected = scores(model.loglikelihood(requests))
    monkeypatch.setattr(prefetch, "BYTES_AHEAD", limit)
    assert scores(model.loglikelihood(requests)) == expected


def count_rankings(model, monkeypatch, stop_at=None):
    """Return a list to which the ID of each ranked question is added.

    The model fails at the question `stop_at`.
    """
    ranked, score = [], model._ranker.score_encoded

    def counting_score(question):
        if len(ranked) == stop_at:
            raise KeyboardInterrupt
        ranked.append(question.question_id)
        return score(question)

    monkeypatch.setattr(model._ranker, "score_encoded", counting_score)
    return ranked


def open_cache(model, folder):
    return ModelCache.create(str(folder), model="hf_vlm", model_args="", task_dict={}).opened(model)


def test_questions_in_order_and_equal_conditions_are_ranked_once(checkpoint, tmp_path, monkeypatch):
    model = HFVLM(checkpoint("llava"), dtype="float32")
    conditions = (None, "last_4_actions", "blind", "other_video")  # the first two are equal
    questions = Conditions(model, tmp_path, conditions=conditions)
    ranked = count_rankings(model, monkeypatch)
    together = scores(model.loglikelihood(questions.requests()))
    questions_in_order = [name.split(" (")[0] for name in ranked]
    # The third question shows the second one's video, and so on.
    assert questions_in_order == [
        *("task_None/0", "task_blind/0", "task_other_video/1"),
        *("task_None/1", "task_blind/1", "task_other_video/2"),
        *("task_None/2", "task_blind/2", "task_other_video/0"),
    ]
    count = 3 * len(CHOICES)
    assert together[:count] == together[count : 2 * count]
    assert len({*together[:count]}) == count


def test_an_interrupted_run_loses_no_response(checkpoint, tmp_path, monkeypatch):
    undisturbed = HFVLM(checkpoint("llava"), dtype="float32", workers=2)
    requests = Conditions(undisturbed, tmp_path, conditions=FEW).requests()
    expected = scores(undisturbed.loglikelihood(requests))
    model = HFVLM(checkpoint("llava"), dtype="float32", workers=2)
    questions = Conditions(model, tmp_path, conditions=FEW)
    with monkeypatch.context() as patch:
        before, cache = (
            count_rankings(model, patch, stop_at=5),
            open_cache(model, tmp_path / "cache"),
        )
        with pytest.raises(KeyboardInterrupt):
            cache.execute(model, "loglikelihood", questions.requests())
    ranked = count_rankings(model, monkeypatch)
    resumed = open_cache(model, tmp_path / "cache").execute(
        model, "loglikelihood", questions.requests()
    )
    assert scores(resumed) == expected
    assert len(before) == 5
    assert not {*before} & {*ranked}
    assert len(before) + len(ranked) == len(FEW) * 3


def test_a_damaged_frame_raises_at_its_question_after_all_earlier_ones_are_stored(
    checkpoint, tmp_path, monkeypatch
):
    model = HFVLM(checkpoint("llava"), dtype="float32", workers=3)
    questions = Conditions(model, tmp_path, conditions=("blind", "reversed", None))
    damage_packet(tmp_path / "1.mp4", 0)
    ranked = count_rankings(model, monkeypatch)
    cache = open_cache(model, tmp_path / "cache")
    with pytest.raises(LmmsEgoplanError, match=r"task_reversed/1 \(sample_id 11\).*1\.mp4"):
        cache.execute(model, "loglikelihood", questions.requests())
    assert len(ranked) == 3
    assert cache.db.execute("SELECT COUNT(*) FROM responses").fetchone() == (3 * len(CHOICES),)
