"""Record the settings of loaded objects, and the counts of the questions of a run."""

import hashlib
import json
import math
from copy import copy, deepcopy
from dataclasses import asdict
from operator import attrgetter
from types import SimpleNamespace

import pytest
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from benchmarks.egoplan.synthetic import prepare
from lmms_egoplan.benchmarks.subset import SUBSET
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.generation import Question
from lmms_egoplan.harnesses.rank import RequestReader, rank
from lmms_egoplan.harnesses.weights import WeightsSource, weights_digest
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import EngineResponse
from ranking.engine.test_engine import TableEngine
from ranking.reference import user_turn
from zoo import build, save

# Settings that the zoo gives to the processors of its families.
SETTINGS = {
    "qwen2_5_vl": {
        "image_processor": {
            "size": {"shortest_edge": 28**2, "longest_edge": 16 * 28**2},
            "merge_size": 2,
        },
        "video_processor": {
            "size": {"shortest_edge": 28**2, "longest_edge": 16 * 28**2},
            "cap_pixels_per_frame": True,
        },
    },
    "qwen3_vl": {
        "image_processor": {
            "patch_size": 16,
            "temporal_patch_size": 2,
            "rescale_factor": pytest.approx(1 / 255),
        },
        "video_processor": {"fps": 2, "max_frames": 768, "patch_size": 16},
    },
    "llava": {
        "image_processor": {
            "size": {"shortest_edge": 56},
            "crop_size": {"height": 56, "width": 56},
            "resample": 3,
        },
        "patch_size": 14,
        "vision_feature_select_strategy": "default",
    },
    "llava_onevision": {
        "video_processor": {"size": {"height": 56, "width": 56}},
        "num_image_tokens": 16,
    },
    "idefics3": {
        "image_processor": {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}
    },
    "internvl": {
        "image_processor": {"crop_to_patches": True, "max_patches": 4},
        "image_seq_length": 4,
    },
    "instructblip": {"num_query_tokens": 4},
}
IMAGE = Image.effect_mandelbrot((300, 200), (-2, -1.5, 1, 1.5), 60).convert("RGB")
CHOICES = ["wash the cup", "open the drawer"]
MEDIA_TOKENS = 30


def request(doc_id, task="task"):
    return SimpleNamespace(task_name=task, doc_id=doc_id)


def evaluated(questions, logged=None, backend=None, configs=None, **arguments):
    """Return results with the record. `questions` contains pairs of a request and its counts."""
    plain = {"results": {}, "configs": deepcopy(configs or {})} | (
        {} if logged is None else {"samples": logged}
    )

    def evaluate(lm, **_):
        for asked, counts in questions:
            record.note(asked, **counts)
        return plain

    return record.recorded(evaluate)(backend, **arguments)


@pytest.mark.parametrize("family", SETTINGS)
def test_settings_are_those_of_the_loaded_objects(family):
    model, processor = build(family)
    settings = record.settings_of(processor, model)
    assert json.loads(json.dumps(settings)) == settings
    recorded = settings["processor"]
    assert recorded["processor_class"] == type(processor).__name__
    for name, value in SETTINGS[family].items():
        part = recorded[name]
        assert ({key: part[key] for key in value} if isinstance(value, dict) else part) == value, (
            name
        )
    for name in ("image_processor", "video_processor"):
        if (part := getattr(processor, name, None)) is not None:
            assert recorded[name][f"{name}_type"] == type(part).__name__
    template = processor.chat_template or processor.tokenizer.chat_template
    digest = template and hashlib.sha256(json.dumps(template).encode()).hexdigest()
    assert recorded["chat_template_sha256"] == digest
    names = {"class": type(model).__name__, "dtype": "torch.float32", "attention": "sdpa"}
    names["quantisation"] = record.NOT_QUANTISED
    assert settings["model"] == names | {"parameters": sum(x.numel() for x in model.parameters())}
    assert set(settings["packages"]) == {"torch", "transformers"}
    (quantised := copy(model)).hf_quantizer = object()
    assert record.settings_of(processor, quantised)["model"]["parameters"] == record.NOT_KNOWN


def test_another_pixel_limit_changes_the_record_and_the_tokens(tmp_path):
    """The limit is an argument of the processor, so the files of the checkpoint do not change."""
    model, processor = build("qwen2_5_vl")
    folder = save("qwen2_5_vl", tmp_path / "checkpoint")
    limited = AutoProcessor.from_pretrained(folder, max_pixels=4 * 28**2)
    settings, tokens = [], []
    for one in (processor, limited):
        settings.append(record.settings_of(one, model)["processor"]["image_processor"])
        question = CandidateRanker(model, one).encode(user_turn("Next?", [IMAGE]), CHOICES)
        height, width = question.inputs["image_grid_thw"][0, 1:].tolist()
        tokens.append((question.prefix_length, height * width // 4))
    assert [one["size"]["longest_edge"] for one in settings] == [16 * 28**2, 4 * 28**2]
    assert tokens[0][1] > tokens[1][1]
    assert tokens[0][0] - tokens[1][0] == tokens[0][1] - tokens[1][1]


def test_another_chat_template_changes_the_record():
    model, processor = build("llava")
    processor = copy(processor)
    hashes = [record.settings_of(processor, model)["processor"]["chat_template_sha256"]]
    processor.chat_template += " "
    hashes.append(record.settings_of(processor, model)["processor"]["chat_template_sha256"])
    assert len(set(hashes)) == 2


def test_counts_are_summarised_by_task():
    lengths = [7, 11, 31]
    questions = [(request(number), {"tokens": tokens}) for number, tokens in enumerate(lengths)]
    # answers from a cache have no counts
    questions += [(request(number), {}) for number in range(5)]
    questions += [(request(0, "other"), {"tokens": 5, "images": 8})]
    tasks = evaluated(questions)["record"]["tasks"]
    mean = math.fsum(lengths) / 3
    assert tasks["task"] == {
        "questions": 5,
        "tokens": {"mean": pytest.approx(mean), "minimum": 7, "maximum": 31, "not_known": 2},
        "images": {"not_known": 5},
    }
    assert tasks["other"]["images"] == {"mean": 8, "minimum": 8, "maximum": 8, "not_known": 0}


def test_samples_have_the_counts_of_their_questions():
    questions = [(request(0), {"tokens": 3}), (request(1), {"images": lambda: 2}), (request(2), {})]
    samples = {"task": [{"doc_id": number} for number in (2, 0, 1, 0)], "foreign": [{"doc_id": 0}]}
    done = evaluated(questions, samples)["samples"]
    counts = [(sample["record"]["tokens"], sample["record"]["images"]) for sample in done["task"]]
    assert counts == [(None, None), (3, None), (None, 2), (3, None)]
    assert done["foreign"] == [{"doc_id": 0}]


def test_selected_documents_are_counted_from_zero_by_the_harness():
    """lm-eval's ``--samples`` logs a document's index in the data, but numbers requests from 0."""
    questions = [(request(number), {"tokens": 10 + number}) for number in range(2)]
    samples = {"task": [{"doc_id": 40}, {"doc_id": 70}]}
    done = evaluated(questions, samples, samples={"task": [40, 70]})["samples"]["task"]
    assert [sample["record"]["tokens"] for sample in done] == [10, 11]


def test_no_counts_remain_from_an_earlier_run():
    evaluated([(request(0), {"tokens": 3})])
    assert evaluated([(request(1), {"tokens": 4})])["record"]["tasks"]["task"]["questions"] == 1


def test_settings_of_other_backends_are_not_known():
    recorded = evaluated([(request(0), {})])["record"]
    assert recorded["processor"] == recorded["model"] == record.NOT_KNOWN
    assert recorded["packages"]["torch"]
    model, processor = build("llava")
    backend = SimpleNamespace(recorded_settings=record.settings_of(processor, model))
    assert evaluated([], backend=backend)["record"]["model"]["class"] == type(model).__name__


def test_weights_are_those_of_the_loaded_checkpoint(tmp_path):
    """A harness's own backend has its model in ``_model``; lm-eval wraps it to cache answers."""
    folder = save("llava", tmp_path / "checkpoint")
    model = AutoModelForImageTextToText.from_pretrained(folder)
    digest = asdict(weights_digest(WeightsSource(str(folder))))
    assert record.NOT_KNOWN not in digest.values()
    own = SimpleNamespace(_model=model)
    for backend in (own, SimpleNamespace(lm=own), SimpleNamespace(lm=own, rank=0)):
        recorded = evaluated([], backend=backend)["record"]["model"]
        assert recorded.items() >= digest.items()
        assert recorded["dtype"] == "torch.float32"
    stated = SimpleNamespace(weights_source=WeightsSource(str(folder)))
    assert evaluated([], backend=stated)["record"]["model"] == digest
    model.peft_config = {}  # an adapter from an unknown folder
    recorded = evaluated([], backend=own)["record"]["model"]
    assert {recorded[name] for name in digest} == {record.NOT_KNOWN}


def test_a_process_without_results_returns_none():
    assert record.recorded(lambda lm: None)(None) is None


def test_a_server_has_no_known_precision_and_version():
    settings = record.settings_of(build("llava")[1], TableEngine())
    unknown = dict.fromkeys(("dtype", "attention", "parameters", "quantisation"), record.NOT_KNOWN)
    assert settings["model"] == {"class": "TableEngine"} | unknown
    assert settings["packages"]["vllm"] == record.NOT_KNOWN


class ExpandingEngine(TableEngine):
    """An engine that replaces the placeholder of an image by more tokens, as vLLM does."""

    def answer(self, name, question, request):
        response = super().answer(name, question, request)
        more = MEDIA_TOKENS * len(question.media.get("image", ()))
        return EngineResponse(response.prompt_length + more, response.tokens, response.logprobs)


@pytest.mark.parametrize("method", ["auto", "forced", "prompt_logprobs"])
def test_tokens_on_an_engine_include_those_of_the_media(method):
    processor = build("llava")[1]
    ranker = EngineRanker(ExpandingEngine(), processor, method=method)
    counts = [0, 2, 1, 3, 0]

    def load(asked: SimpleNamespace) -> Question:
        return user_turn("Next?", [IMAGE] * counts[asked.doc_id]), str(asked.doc_id)

    def evaluate(lm):
        requests = [request(number) for number in range(len(counts)) for _ in CHOICES]
        candidates = dict(zip(map(id, requests), CHOICES * len(counts), strict=True))
        by_document = attrgetter("doc_id")
        done = rank(
            requests,
            ranker,
            RequestReader(
                load, by_document, by_document, candidate_of=lambda asked: candidates[id(asked)]
            ),
            workers=1,
            ledger=None,
        )
        assert len(list(done)) == len(requests)
        return {
            "results": {},
            "samples": {"task": [{"doc_id": number} for number in range(len(counts))]},
        }

    samples = record.recorded(evaluate)(None)["samples"]["task"]
    for sample, count in zip(samples, counts, strict=True):
        messages = user_turn("Next?", [IMAGE] * count)
        text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prefix = len(processor.tokenizer(text)["input_ids"])
        # the answer's space
        assert abs(sample["record"]["tokens"] - prefix - MEDIA_TOKENS * count) <= 1


def test_a_run_without_a_chat_template_is_marked_in_the_metadata_of_its_tasks():
    configs = {"task": {"metadata": {"version": 1.0}}, "foreign": {}}
    noted = [(request(0), {})]
    marked = evaluated(noted, backend=SimpleNamespace(plain_text="not applied"), configs=configs)
    assert marked["configs"] == {
        "task": {"metadata": {"version": 1.0, "chat_template": "not applied"}},
        "foreign": {},
    }
    for backend in (SimpleNamespace(plain_text=None), object()):
        assert evaluated(noted, backend=backend, configs=configs)["configs"] == configs


def test_a_compact_run_is_marked_without_samples_and_has_no_standard_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    prepare(tmp_path, 13)
    values = {"acc,none": 0.5, "acc_stderr,none": 0.1, "acc_stderr_clt,none": 0.2}

    def results_of(wanted, effective=13):
        monkeypatch.setenv(SUBSET, wanted)
        results = {
            "results": {"egoplan_val": dict(values), "group": {}},
            "versions": {"egoplan_val": 1.4},
            "configs": {
                "egoplan_val": {
                    "test_split": "val",
                    "metadata": {"version": 1.4, "benchmark": "egoplan"},
                }
            },
            "n-samples": {"egoplan_val": {"original": 13, "effective": effective}},
        }
        return record.recorded(lambda _: results)(None)

    compact = results_of("5")
    design = compact["configs"]["egoplan_val"]["metadata"]["subset"]
    assert (design["asked"], design["of"]) == (5, 13)
    assert compact["n-samples"]["egoplan_val"] == {"original": 13, "effective": 5}
    limited = results_of("5", effective=3)["n-samples"]["egoplan_val"]  # --limit 3
    assert limited == {"original": 13, "effective": 3}
    assert compact["results"]["egoplan_val"] == {
        "acc,none": 0.5,
        "acc_stderr,none": "N/A",
        "acc_stderr_clt,none": "N/A",
    }
    for wanted in ("", "13"):
        whole = results_of(wanted)
        assert whole["results"]["egoplan_val"] == values
        assert "subset" not in whole["configs"]["egoplan_val"]["metadata"]


def test_only_the_details_of_own_tasks_leave_the_table():
    entries = {"num_questions": 2}
    values = {"acc,none": 0.5, "details,none": entries, "details_stderr,none": "N/A"}
    results = {
        "results": {"own": dict(values), "foreign": dict(values)},
        "configs": {
            "own": {"metadata": {"count_metric": "num_questions"}},
            "foreign": {"metadata": {"version": 1}},
        },
    }
    recorded = record.recorded(lambda _: results)(None)
    assert recorded["results"] == {"own": {"acc,none": 0.5}, "foreign": values}
    assert recorded["details"] == {"own": entries}
