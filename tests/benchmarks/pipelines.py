"""Run functions of published pipelines on questions and replies of ours, from checkouts by
`tools/pipelines.py`.

`python tests/benchmarks/pipelines.py DIR` writes their answers to golden_pipelines.json. The
functions are read from the checkouts and compiled here, without their modules' imports. What they
read from disk, decode or send is replaced: a frame is an image whose only value is its number, and
a model's reply is given.
"""

import argparse
import ast
import copy
import json
import math
import os
import random
import re
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Optional
from unittest import mock

import numpy as np
import torch
import yaml

GOLDEN = Path(__file__).with_name("golden_pipelines.json")
QUESTIONS, REPLIES = 60, 112
EPIC, EGO4D = "EpicKitchens", "Ego4D"
VIDEOS = {"P01_13": 60, "0a1b-2c": 30, "P01_102": 50, "3d4e-5f": 30}  # frames per second
GOALS = (
    *(
        "make tea",
        "Fry an Egg.",
        "deal with cup and pan",
        "tie a knot!",
        "caf\u00e9 cr\u00e8me",
        "washing up",
    ),
    *(
        "The goal is to cut bread",
        "goal: to store cereal",
        "Making coffee!",
        "cook 100% rice",
        "wash {the} car",
    ),
)
# The question of SEED-Bench-R1's records, as the preset states it.
SEED_QUESTION = (
    "Considering {progress}my current observation shown in the image, what action should I take "
    "next in order to {goal}?"
)
PROGRESS = "the progress shown in the video and "

Record = dict[str, Any]
Answers = dict[str, Any]


def digest(text: str) -> str:
    """Return a short fingerprint of a prompt."""
    return sha256(text.encode()).hexdigest()[:16]


def parse(path: Path) -> ast.Module:
    """Parse a module of a checkout."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def functions(path: Path, *names: str, **known: Any) -> SimpleNamespace:
    """Compile functions, classes and constants of a module's top level, in a namespace of `known`
    names.

    Raises:
        KeyError: The module does not define a name.
    """
    defined = {}
    for node in parse(path).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        for name in [
            getattr(node, "name", None),
            *(getattr(target, "id", None) for target in targets),
        ]:
            if name in names:
                defined[name] = node
    body = [defined[name] for name in names]
    namespace = {"__name__": "pipeline", **known}
    exec(compile(ast.Module(body, []), str(path), "exec", dont_inherit=True), namespace)
    return SimpleNamespace(**{name: namespace[name] for name in names})


def method(path: Path, owner: str, name: str, **known: Any) -> Callable[..., Any]:
    """Compile one method of a class as a function."""
    (cls,) = (
        node for node in parse(path).body if isinstance(node, ast.ClassDef) and node.name == owner
    )
    (node,) = (node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == name)
    namespace = dict(known)
    exec(compile(ast.Module([node], []), str(path), "exec", dont_inherit=True), namespace)
    return namespace[name]


def literals(call: ast.Call) -> dict[str, Any]:
    """Return the keyword arguments of a call that are literals."""
    return {
        item.arg: item.value.value
        for item in call.keywords
        if item.arg and isinstance(item.value, ast.Constant)
    }


class Picture:
    """An image whose only value is a frame's number."""

    def __init__(self, number: int) -> None:
        self.pixels = np.full((1, 1, 3), number)

    def convert(self, _mode: str) -> np.ndarray:
        return self.pixels


class Pictures:
    """Replace PIL.Image: frames are named ``frame_<number>.jpg``."""

    @staticmethod
    def open(path: str) -> Picture:
        return Picture(int(re.search(r"frame_(\d+)\.", path)[1]))

    @staticmethod
    def fromarray(pixels: np.ndarray) -> Picture:
        return Picture(int(pixels.flat[0]))


class Video:
    """Replace a video in OpenCV, of any length."""

    def __init__(self, _path: str) -> None:
        self.position = 0

    def set(self, _property: int, position: int) -> None:
        self.position = position

    def read(self) -> tuple[bool, np.ndarray]:
        return True, Picture(self.position).pixels

    def release(self) -> None:
        pass


OPENCV = SimpleNamespace(
    VideoCapture=Video,
    CAP_PROP_POS_FRAMES=1,
    COLOR_BGR2RGB=4,
    cvtColor=lambda frame, _: frame,
    destroyAllWindows=lambda: None,
)
FILES = SimpleNamespace(path=SimpleNamespace(join=os.path.join, exists=lambda _: True))


def numbers_of(clip: torch.Tensor) -> list[int]:
    """Return the frames' numbers of a clip with the axes channel, time, height, width."""
    return [int(number) for number in clip[0, :, 0, 0]]


def authors_known(asked: list[str]) -> dict[str, Any]:
    """Return names that the authors' modules of EgoPlan-Bench import.

    Questions to the model are added to `asked`.
    """

    def preprocess_multimodal(
        conversation_list: list[dict[str, str]], *_: Any, **__: Any
    ) -> list[Any]:
        asked.append(conversation_list[0]["q"])
        return [conversation_list]

    return {
        **{
            "np": np,
            "torch": torch,
            "os": FILES,
            "cv2": OPENCV,
            "Image": Pictures,
            "copy": copy,
            "string": string,
        },
        "preprocess_multimodal": preprocess_multimodal,
        "convert_source_vicuna_format": lambda sources: sources,
        "preprocess_for_llama_v2": lambda *_: {"input_ids": torch.zeros(4, 1)},
        "NUM_VIDEO_QUERY_TOKEN": 32,
        "N_ACTIONS": 4,
    }


def predict(
    code: SimpleNamespace, record: Record, losses: list[float], processor: Any
) -> tuple[str, Answers]:
    """Run the authors' predict_choice with the losses of the choices.

    Returns:
        The letter of the choice with the lowest loss, and what the model gets.
    """
    inputs: Answers = {}

    class Model:
        llama_tokenizer = SimpleNamespace(pad_token_id=0)

        def __call__(self, samples: Answers, reduction: str) -> dict[str, torch.Tensor]:
            inputs.update(samples)
            return {"loss": torch.tensor(losses)}

    sample = record | {"video_rgb_frame_dir": "frames", "video_path": "video.mp4"}
    with mock.patch.object(torch.Tensor, "cuda", lambda tensor: tensor):
        choice, _ = code.predict_choice(
            Model(), processor, "llama_v2", sample, subset_name=record["video_source"]
        )
    return next(letter for letter in "ABCD" if record[f"choice_{letter.lower()}"] == choice), inputs


def egoplan_official(folder: Path, inputs: Answers) -> Answers:
    """Run predict_choice of src/video_llama_interface.py: one video.

    Prompt and frames are None if the code fails.
    """
    path, asked = folder / "official-egoplan" / "src" / "video_llama_interface.py", []
    names = ("ego4d_video_process", "epic_kitchens_video_process", "predict_choice")
    code = functions(path, *names, **authors_known(asked))
    processor = SimpleNamespace(transform_video=lambda clip: clip)
    prompts, frames = [], []
    for record, losses in zip(inputs["egoplan"], inputs["losses"], strict=False):
        try:
            _, sent = predict(code, record, losses, processor)
        except ZeroDivisionError:  # a progress of one frame
            prompts.append(None)
            frames.append(None)
            continue
        prompts.append(digest(asked[-1]))
        frames.append(numbers_of(sent["images"][0]))
    letters = [
        predict(code, inputs["egoplan"][0], losses, processor)[0] for losses in inputs["losses"]
    ]
    return {"prompts": prompts, "frames": frames, "letters": letters}


def egoplan_clips(folder: Path, inputs: Answers) -> Answers:
    """Run predict_choice of src/egoplan_video_llama_interface.py: clips, and the question to the
    tuned model.

    Frames are None if the code fails. Masked clips are not among them.
    """
    source = folder / "official-egoplan" / "src"
    asked: list[str] = []
    known = authors_known(asked)
    dataset = source / "video_llama/video_llama/datasets/datasets/egoplan_video_instruct_dataset.py"
    name = "create_question_for_egoplan_task_planning"
    known[name] = getattr(functions(dataset, name, string=string), name)
    path = source / "egoplan_video_llama_interface.py"
    code = functions(path, "ego4d_video_image_process", "predict_choice", **known)
    processors = source / "video_llama/video_llama/processors/egoplan_video_processor.py"
    load_video = functions(processors, "load_video", **known, MAX_INT=0, rnd=random).load_video
    configuration = source / "video_llama/eval_configs/egoplan_video_llama_eval_only_vl.yaml"
    settings = yaml.safe_load(configuration.read_text(encoding="utf-8"))["datasets"]["webvid"][
        "vis_processor"
    ]["eval"]

    class Processor:
        """Replace EgoplanVideoEvalProcessor, without the transforms."""

        transform_image, transform_video = (
            staticmethod(torch.as_tensor),
            staticmethod(torch.as_tensor),
        )

        def __call__(self, sample: Record) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            image, clips, mask = load_video(
                sample, settings["n_frms"], settings["n_actions"], sampling="uniform"
            )
            return torch.as_tensor(image), torch.stack(clips), mask

    prompts, frames = [], []
    for record, losses in zip(inputs["egoplan"], inputs["losses"], strict=False):
        prompts.append(digest(known[name](record["task_goal"], mode="eval")))
        try:
            _, sent = predict(code, record, losses, Processor())
        except (AssertionError, ValueError):  # an action of too few frames
            frames.append(None)
            continue
        assert digest(asked[-1]) == prompts[-1]
        assert int(sent["image"].flatten()[0]) == record["current_observation_frame"]
        frames.append([numbers_of(clip) for clip in sent["clips"][0][sent["clip_mask"][0]]])
    return {"prompts": prompts, "frames": frames}


def bench2_official(folder: Path, inputs: Answers) -> Answers:
    """Run run_inference and cut_keyframes of eval.py with an image model."""
    path = folder / "official-egoplan-bench2" / "eval.py"
    asked, cut = [], []

    class Model:
        reply = ""

        def inference(self, text: str, _visual: Any) -> str:
            asked.append(text)
            return self.reply

    reader = SimpleNamespace(get_data=int)
    known = {
        **{"np": np, "re": re, "os": os, "json": json, "print": lambda *_: None},
        "imageio": SimpleNamespace(
            get_reader=lambda _: reader, imwrite=lambda _, frame: cut[-1].append(frame)
        ),
        "glob": SimpleNamespace(glob=lambda pattern: [pattern]),
    }
    names = ("QA_template", "extract_characters_regex", "cut_keyframes", "run_inference")
    code, model, letters = functions(path, *names, **known), Model(), []
    with tempfile.TemporaryDirectory() as name:
        for record in inputs["egoplan_bench2"]:
            cut.append([])
            arguments = ("videos", f"{name}/answers", f"{name}/clips", f"{name}/keyframes", 8)
            code.run_inference(model, "image", [record], *arguments)
        Path(name, "answers").unlink()
        for reply in inputs["replies"]:
            model.reply = reply
            code.run_inference(model, "image", [inputs["egoplan_bench2"][0]], *arguments)
        lines = Path(name, "answers").read_text(encoding="utf-8").splitlines()
        letters = [json.loads(line)["extracted_answer"] for line in lines]
    prompts = [*map(digest, asked[: len(cut)])]
    return {
        "prompts": prompts,
        "frames": cut,
        "letters": letters,
        "decoding": longva_decoding(folder),
    }


def longva_decoding(folder: Path) -> Answers:
    """Return the generation arguments of the authors' code for LongVA. InternVL2 has the defaults
    of its library.
    """
    sent: list[Answers] = []

    class Model:
        def stream_generate_until(self, _query: Any, arguments: Answers) -> Iterator[bytes]:
            sent.append(arguments)
            yield b'{"text": "A"}\0'

    path = folder / "official-egoplan-bench2" / "models" / "LongVA" / "inference.py"
    functions(path, "video_demo", json=json).video_demo(Model(), "video.mp4", "What?", 32)
    return {name: value for name, value in sent[0].items() if name != "sample_frames"}


class Container:
    """Replace a video in PyAV, of a given length."""

    def __init__(self, length: int) -> None:
        self.streams = SimpleNamespace(video=[SimpleNamespace(frames=length)])

    def seek(self, _position: int) -> None:
        pass

    def decode(self, video: int) -> Iterator[Any]:
        for number in range(self.streams.video[video].frames):
            yield SimpleNamespace(to_ndarray=lambda format, number=number: Picture(number).pixels)


def flageval(folder: Path, inputs: Answers) -> Answers:
    """Run FlagEvalMM's reader of videos and of replies, and its prompt, which process.py of this
    commit never calls.
    """
    source = folder / "flageval"
    frames, letters, prompts = [], [], []
    most = default_of(source / "flagevalmm/models/http_client.py", "HttpClient", "max_num_frames")
    for record in inputs["egoplan_bench2"]:
        first = record["task_start_frame"]
        opened = SimpleNamespace(
            open=lambda _, length=record["current_observation_frame"] - first + 1: Container(length)
        )
        read = functions(
            source / "flagevalmm/common/video_utils.py",
            "read_video_pyav",
            np=np,
            av=opened,
            torch=torch,
        ).read_video_pyav
        frames.append([first + int(picture.flat[0]) for picture in read("video.mp4", most)])
        prompts.append(flageval_prompt(source, record))
    cleaning = functions(
        source / "flagevalmm/evaluator/pre_process.py",
        *("strip_answer", "remove_special_characters", "process_multiple_choice"),
        re=re,
    )
    evaluate = functions(
        source / "flagevalmm/evaluator/common_types.py",
        *("maybe_clean_answer", "evaluate_multiple_choice"),
        **{
            "re": re,
            "Dict": dict,
            "Tuple": tuple,
            "process_multiple_choice": cleaning.process_multiple_choice,
        },
    ).evaluate_multiple_choice
    adapter = source / "model_zoo/vlm/api_model/model_adapter.py"
    split = method(
        adapter, "ModelAdapter", "_process_single_result", ApiResponse=None, Dict=dict, Any=Any
    )
    for reply in inputs["replies"]:
        answer = {"answer": split(None, SimpleNamespace(content=reply, usage=None))["answer"]}
        evaluate({"answer": "A"}, answer)
        letters.append(answer["answer"])
    client = source / "flagevalmm/models/http_client.py"
    decoding = {"max_new_tokens": default_of(client, "HttpClient", "max_tokens")}
    assert default_of(client, "HttpClient", "temperature") is None
    return {"prompts": prompts, "frames": frames, "letters": letters, "decoding": decoding}


def flageval_prompt(source: Path, record: Record) -> str:
    process, prompts = (
        source / "tasks/embodied_verse" / name for name in ("process.py", "prompt.py")
    )
    texts = [node.targets[0].id for node in parse(prompts).body if isinstance(node, ast.Assign)]
    module = ModuleType("tasks.embodied_verse.prompt")
    vars(module).update(vars(functions(prompts, *texts)))
    code = functions(process, "add_prompt", "format_options_optimized")
    packages = {
        "tasks": ModuleType("tasks"),
        "tasks.embodied_verse": ModuleType("tasks.embodied_verse"),
    }
    with mock.patch.dict(sys.modules, {**packages, module.__name__: module}):
        question = code.format_options_optimized(
            record["question"], [record[f"choice_{letter}"] for letter in "abcd"]
        )
        return digest(code.add_prompt(question, "egoplan_bench2", "multiple-choice"))


def default_of(path: Path, owner: str, argument: str) -> Any:
    """Return the default of an argument of a class's ``__init__``."""
    (cls,) = (
        node for node in parse(path).body if isinstance(node, ast.ClassDef) and node.name == owner
    )
    (init,) = (
        node for node in cls.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"
    )
    arguments = init.args.args[-len(init.args.defaults) :]
    names = [item.arg for item in arguments]
    return ast.literal_eval(init.args.defaults[names.index(argument)])


def mimo(folder: Path, inputs: Answers) -> Answers:
    """Run the prompt, the filter and the scorer of MiMo-Embodied's task."""
    task = folder / "mimo" / "lmms_eval" / "tasks" / "egoplan"
    shared = folder / "mimo" / "lmms_eval" / "tasks" / "_task_utils" / "eval_utils.py"
    code = functions(
        task / "utils.py",
        "QA_TEMPLATE",
        "extract_after_think",
        "doc_to_text",
        "process_results",
        re=re,
    )
    boxed = functions(
        shared, "extract_final_boxed_content", "BoxedFilter", re=re, ExtendedRegexFilter=object
    )
    lines = (task / "egoplan.yaml").read_text(encoding="utf-8").splitlines()
    settings = yaml.safe_load("\n".join(line for line in lines if "!function" not in line))
    asking = settings["lmms_eval_specific_kwargs"]["default"]
    letters = []
    for reply in inputs["replies"]:
        (filtered,) = boxed.BoxedFilter().apply([[reply]], None)
        scores = {
            letter: code.process_results({"golden_choice_idx": letter}, [filtered])
            for letter in "ABCD"
        }
        letters.append(only(letter for letter, score in scores.items() if score["accuracy"]))
    arguments = {
        name: value for name, value in settings["generation_kwargs"].items() if name != "num_beams"
    }
    prompts = [digest(code.doc_to_text(record, asking)) for record in inputs["egoplan_bench2"]]
    return {
        "prompts": prompts,
        "letters": letters,
        "decoding": arguments | mimo_limit(folder, arguments),
    }


class SentError(Exception):
    """Stops a pipeline after it has stated what it would send."""


def mimo_limit(folder: Path, arguments: Answers) -> Answers:
    """Return the token limit that MiMo-Embodied's adapter for vLLM makes of a task's arguments."""

    def sample(**parameters: Any) -> None:
        raise SentError(parameters)

    path = folder / "mimo" / "lmms_eval" / "models" / "mivllm.py"
    read = method(path, "MiVLLMDataset", "__getitem__", SamplingParams=sample)
    request = SimpleNamespace(arguments=("text", dict(arguments), None, 0, "egoplan", "train"))
    try:
        read(SimpleNamespace(requests=[request]), 0)
    except SentError as sent:
        (parameters,) = sent.args
    assert parameters["temperature"] == arguments["temperature"]
    return {"max_new_tokens": parameters["max_tokens"]}


def physbrain_evalkit(folder: Path, inputs: Answers, *, thinking: bool) -> Answers:
    """Run prepare_dataset and process_raw_output of PhysBrainEvalKit, and its command line for all
    benchmarks.

    The stored questions and options were not seen, so they are those of the records, with letters.
    """

    class Base:
        def __init__(self, _instruct: Any) -> None:
            pass

    types = {"Any": Any, "Dict": dict, "List": list, "Optional": Optional}
    path = folder / "physbrain-evalkit" / "benchmark" / "egoplan2.py"
    benchmark = functions(path, "EgoPlan2Dataset", BaseDataset=Base, re=re, **types).EgoPlan2Dataset
    data = benchmark(thinking_model=thinking)
    names = ("video", "image", "answer", "id", "domain", "scenario", "video_source")
    rows = [
        dict.fromkeys(names, "")
        | {
            "question": record["question"],
            "options": [f"{letter.upper()}. {record[f'choice_{letter}']}" for letter in "abcd"],
        }
        for record in inputs["egoplan_bench2"]
    ]
    prepared = data.prepare_dataset(rows)
    letters = [
        data.process_raw_output(prepared[0], reply)["processed_answer"] or ""
        for reply in inputs["replies"]
    ]
    registry = folder / "physbrain-evalkit" / "scripts" / "benchmark_registry.py"
    words = functions(registry, "common_cli", Path=Path).common_cli("model", Path("model"), "qwen3")
    options = dict(zip(words[::2], map(ast_number, words[1::2]), strict=True))
    # no restriction
    assert (options["--top_p"], options["--top_k"], options["--presence_penalty"]) == (
        1.0,
        -1,
        0.0,
    )
    decoding = {
        "max_new_tokens": options["--max_tokens"],
        "temperature": options["--temperature"],
        "repetition_penalty": options["--repetition_penalty"],
    }
    return {
        "prompts": [digest(row["question"]) for row in prepared],
        "letters": letters,
        "decoding": decoding,
    }


def ast_number(word: str) -> Any:
    """Return a command line's word as a number, if it is one."""
    try:
        return ast.literal_eval(word)
    except (ValueError, SyntaxError):
        return word


def only(letters: Iterator[str]) -> str:
    """Return the only letter, or "" without one."""
    found = [*letters]
    assert len(found) <= 1
    return "".join(found)


def seed_bench_r1(folder: Path, inputs: Answers, benchmark: str) -> Answers:
    """Run the prompt and the reward of infer.py, and the reader of videos of its qwen-vl-utils.

    The record's question is not published, so it is that of the preset.
    """
    source = folder / "seed-bench-r1"
    known = {"os": os, "re": re, "parse": fails, "verify": fails}
    names = ("QUESTION_TEMPLATE", "make_conversation_egoplan", "accuracy_reward")
    code = functions(source / "infer.py", *names, **known)
    utils = source / "qwen-vl-utils/src/qwen_vl_utils/vision_process_egoplan.py"
    quiet = SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)
    names = (
        *(
            "IMAGE_FACTOR",
            "MIN_PIXELS",
            "MAX_PIXELS",
            "MAX_RATIO",
            "FRAME_FACTOR",
            "FPS",
            "FPS_MIN_FRAMES",
        ),
        *(
            "FPS_MAX_FRAMES",
            "round_by_factor",
            "ceil_by_factor",
            "floor_by_factor",
            "smart_resize",
            "smart_nframes",
        ),
        *("_read_video_decord", "extract_vision_info"),
    )
    known = {
        "math": math,
        "Image": SimpleNamespace(Image=object),
        "torch": torch,
        "logger": quiet,
        "time": time,
    }
    vision = functions(utils, *names, **known)
    prompts, frames, kinds = [], [], []
    for record in inputs[benchmark]:
        progress = PROGRESS if record["task_progress_metadata"] else ""
        question = SEED_QUESTION.format(progress=progress, goal=record["task_goal"])
        names = {"video_basename": "video.mp4", "current_observation_basename": "image.png"}
        made = code.make_conversation_egoplan(
            {"video_source": EGO4D, **record, **names, "question": question}, "data"
        )
        *media, text = made["prompt"][0]["content"]
        prompts.append(digest(text["text"]))
        kinds.append([item["type"] for item in media])
        items = vision.extract_vision_info(made["prompt"])
        (size,) = {(item["resized_height"], item["resized_width"]) for item in items}
        assert vision.smart_resize(*size, factor=vision.IMAGE_FACTOR) == (252, 252)
        frames.append(seed_frames(vision, record) if kinds[-1][0] == "video" else [])
    letters = []
    for reply in inputs["replies"]:
        capitals = string.ascii_uppercase
        letters.append(
            only(x for x in capitals if code.accuracy_reward(reply, f"<answer>{x}.</answer>"))
        )
    generate = next(
        node
        for node in ast.walk(parse(source / "infer.py"))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "generate"
    )
    decoding = {**literals(generate), "do_sample": True}  # --do_sampling is 1 by default
    return {
        "prompts": prompts,
        "frames": frames,
        "media": kinds,
        "letters": letters,
        "decoding": decoding,
    }


def fails(*_: Any) -> None:
    """Replace math-verify, which reads no letters; the pipeline ignores its errors."""
    raise ValueError


def seed_frames(vision: SimpleNamespace, record: Record) -> list[int] | None:
    first = record.get(
        "task_start_frame", (record["task_progress_metadata"] or [{}])[0].get("start_frame")
    )
    length = record["current_observation_frame"] - first + 1
    shown: list[int] = []

    class Reader:
        def __init__(self, _path: str) -> None:
            pass

        def __len__(self) -> int:
            return length

        def get_avg_fps(self) -> float:
            return VIDEOS[record["video_id"]]

        def get_batch(self, indices: list[int]) -> Any:
            shown.extend(first + index for index in indices)
            return SimpleNamespace(asnumpy=lambda: np.zeros((len(indices), 1, 1, 3)))

    with mock.patch.dict(sys.modules, {"decord": SimpleNamespace(VideoReader=Reader)}):
        try:
            vision._read_video_decord({"video": "video.mp4"})
        except ValueError:  # a video of one frame
            return None
    return shown


def egothink_official(folder: Path, inputs: Answers) -> Answers:
    """Run generate_item of gpt_eval.py, and run_judge_single of common.py.

    Returns:
        Messages, arguments and answers of the model, and messages and arguments to the judge.
    """
    sent: list[Answers] = []

    class Client:
        reply = ""

        def __init__(self, **_: Any) -> None:
            self.chat = SimpleNamespace(completions=self)

        def create(self, **arguments: Any) -> Any:
            sent.append(arguments)
            return SimpleNamespace(
                choices=[SimpleNamespace(message=SimpleNamespace(content=Client.reply))]
            )

    path = folder / "official-egothink" / "gpt_eval.py"
    api = functions(path, "LLM_API", AzureOpenAI=Client, encode_image=lambda _: "").LLM_API(
        "gpt-4o"
    )
    code = functions(path, "generate_item", llm_api=api, time=time, print=lambda *_: None)
    item = {"q_id": 1, "images": "image.jpg", "answer": "a cup"}
    for question in inputs["egothink"]:
        code.generate_item(None, item | {"question": question["question"]})
    prompts = [digest(json.dumps(as_texts(arguments["messages"]))) for arguments in sent]
    (decoding,) = {
        json.dumps({name: arguments[name] for name in ("temperature", "stop")})
        for arguments in sent
    }
    assert not {"max_tokens", "max_completion_tokens"} & sent[0].keys()
    cut = []
    for reply in inputs["answers"]:
        Client.reply = reply
        cut.append(code.generate_item(None, item | {"question": "What?"})[0])
    asked = judge_requests(
        folder, [question["question"] for question in inputs["egothink"]], inputs["answers"]
    )
    return {"prompts": prompts, "decoding": json.loads(decoding), "answers": cut, **asked}


def as_texts(messages: list[Answers]) -> list[list[Any]]:
    """Return each message's role and, in order, its texts and images."""
    texts = []
    for message in messages:
        content = message["content"]
        items = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [item["text"] if item["type"] == "text" else "IMAGE" for item in items]
        texts.append([message["role"], *kinds])
    return texts


class Judge:
    """Run run_judge_single of EgoThink's common.py with given verdicts."""

    def __init__(self, folder: Path) -> None:
        path = folder / "official-egothink" / "common.py"
        self.verdict, self.sent = "", []
        known = {"re": re, "ast": ast, "get_conversation_template": lambda _: Conversation()}
        names = ("one_score_pattern", "one_score_pattern_backup", "run_judge_single")
        self._run = functions(
            path, *names, **known, chat_compeletion_openai=self._chat
        ).run_judge_single
        prompts = (path.parent / "judge_prompts.jsonl").read_text(encoding="utf-8").splitlines()
        (template,) = (row for row in map(json.loads, prompts) if row["name"] == "single-math-v2")
        self._judge = SimpleNamespace(model_name="gpt-4o", prompt_template=template)

    def _chat(self, _model: str, conversation: "Conversation", **arguments: Any) -> str:
        self.sent.append({"messages": conversation.messages, **arguments})
        return self.verdict

    def rate(self, question: str, answer: str, reference: str) -> float:
        """Return the rating that is read from the verdict; -1 if none is read."""
        turns = [{"choices": [{"turns": [text]}]} for text in (answer, reference)]
        return self._run({"turns": [question]}, turns[0], self._judge, turns[1])[0]


class Conversation:
    """Replace a conversation of fastchat."""

    roles = ("user", "assistant")

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []

    def set_system_message(self, text: str) -> None:
        self.messages.append(["system", text])

    def append_message(self, role: str, text: str | None) -> None:
        if text is not None:
            self.messages.append([role, text])


def judge_requests(folder: Path, questions: list[str], answers: list[str]) -> Answers:
    """Return messages and arguments to the judge. The reference is ``The {reference}. [1]``."""
    judge = Judge(folder)
    judge.verdict = "[[1]]"
    for question, text in zip(questions, answers, strict=False):
        judge.rate(question, text, "The {reference}. [1]")
    messages = [digest(json.dumps(sent["messages"])) for sent in judge.sent]
    (arguments,) = {
        json.dumps({name: sent[name] for name in ("temperature", "max_tokens")})
        for sent in judge.sent
    }
    return {"judge_messages": messages, "judge_arguments": json.loads(arguments)}


def judged(folder: Path, verdicts: list[str]) -> list[float]:
    """Return the ratings that EgoThink's authors read; -1 if none is read."""
    judge, ratings = Judge(folder), []
    for verdict in verdicts:
        judge.verdict = verdict
        ratings.append(judge.rate("What?", "a cup", "a cup"))
    return ratings


PIPELINES: dict[str, Callable[[Path, Answers], Answers]] = {
    "egoplan/official": egoplan_official,
    "egoplan/clips": egoplan_clips,
    "egoplan/seed-bench-r1": lambda folder, inputs: seed_bench_r1(folder, inputs, "egoplan"),
    "egoplan_bench2/official": bench2_official,
    "egoplan_bench2/flageval": flageval,
    "egoplan_bench2/mimo": mimo,
    "egoplan_bench2/physbrain-evalkit": partial(physbrain_evalkit, thinking=False),
    "egoplan_bench2/physbrain-evalkit-thinking": partial(physbrain_evalkit, thinking=True),
    "egoplan_bench2/seed-bench-r1": lambda folder, inputs: seed_bench_r1(
        folder, inputs, "egoplan_bench2"
    ),
    "egothink/official": egothink_official,
}
"""Functions that run a preset's pipeline, by benchmark and preset; ``clips`` is
`egoplan_val_clips_published`.
"""


def make_inputs(replies: list[str]) -> Answers:
    """Return 60 questions per benchmark and 112 replies.

    Actions may overlap, be short, or pass the observation.
    """
    chance = random.Random(61)
    return {
        "egoplan": [egoplan_record(chance, number) for number in range(QUESTIONS)],
        "egoplan_bench2": [bench2_record(chance, number) for number in range(QUESTIONS)],
        "egothink": egothink_questions(),
        "replies": replies,
        "losses": [
            chance.sample([loss / 100 for loss in range(50, 400)], 4) for _ in range(REPLIES)
        ],
        "answers": [answer(chance, reply) for reply in replies],
    }


def egoplan_record(chance: random.Random, number: int) -> Record:
    """Return a record of EgoPlan-Bench."""
    video = [*VIDEOS][number % 4]
    is_epic = video.startswith("P")
    observation = chance.randrange(4000, 9000)
    starts = sorted(
        chance.randint(is_epic, observation) for _ in range((0, 1, 3, 5, 7, 12)[number // 4 % 6])
    )
    if len(starts) > 1 and chance.random() < 0.1:
        starts[-1] = min(starts[-2] + chance.randint(0, 12), observation)
    if number % 25 == 4:
        starts = [observation]
    lengths = [
        chance.randint(*chance.choice((*[(8, 60), (8, 900), (8, 4000)] * 5, (0, 9))))
        for _ in starts
    ]
    actions = [
        {"narration_text": "act", "start_frame": start, "stop_frame": start + length}
        for start, length in zip(starts, lengths, strict=True)
    ]
    return {
        "sample_id": number,
        "video_source": EPIC if is_epic else EGO4D,
        "video_id": video,
        "question": f"What should I do next, question {number}?",
        **common(number, observation, actions),
    }


def bench2_record(chance: random.Random, number: int) -> Record:
    """Return a record of EgoPlan-Bench2."""
    observation = chance.randrange(1, (9000, 90)[number % 5 == 3])
    starts = sorted(chance.randint(0, observation) for _ in range((0, 1, 4, 7)[number % 4]))
    actions = [
        {
            "narration_text": "act",
            "start_frame": start,
            "stop_frame": start + chance.randint(1, 600),
        }
        for start in starts
    ]
    video = ("0a1b-2c", "3d4e-5f")[number % 2]
    return {
        "sample_id": f"{video}_{number}",
        "video_id": video,
        "task_start_frame": max(0, min(starts, default=observation) - chance.choice((0, 3, 400))),
        "question": f"Which action comes next in video {number}?",
        **common(number, observation, actions),
    }


def common(number: int, observation: int, actions: list[Record]) -> Record:
    verbs = ("take the", "open", "wash {a}", "put down 100% of the")
    choices = {
        f"choice_{letter}": f"{verb} cup {number}"
        for letter, verb in zip("abcd", verbs, strict=True)
    }
    return {
        "task_goal": GOALS[number % len(GOALS)],
        **choices,
        "golden_choice_idx": "ABCD"[number % 4],
        "current_observation_frame": observation,
        "task_progress_metadata": actions,
    }


def answer(chance: random.Random, reply: str) -> str:
    """Return a free answer, most of them with the mark after which the authors cut replies."""
    mark = "Short Answer: "
    forms = (
        reply,
        f"{mark}{reply}",
        f"Yes. {mark}{reply}",
        f"{mark}{reply} {mark}a cup",
        f"Short answer: {reply}",
    )
    return chance.choice(forms)


def chosen_replies() -> list[str]:
    """Return 112 different replies of the tests' corpus."""
    from benchmarks.egoplan.test_presets import AWKWARD, CORPUS, READ
    from benchmarks.egoplan.test_presets import REPLIES as CORPUS_REPLIES

    corpus = yaml.safe_load(CORPUS.read_text(encoding="utf-8"))
    own = [
        "A</think> B </think> C",
        "<answer>A</answer></think><answer>C</answer>",
        "</think>",
        "Answer: (d)",
        "5",
    ]
    first = dict.fromkeys([*own, *AWKWARD, *READ, *corpus["claims"], *corpus["unclear"]])
    rest = [reply for reply in dict.fromkeys(CORPUS_REPLIES) if reply not in first]
    missing = REPLIES - len(first)
    return [*first, *rest[:: len(rest) // missing][:missing]]


def egothink_questions() -> list[Record]:
    """Return 5 questions for each dimension."""
    from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS

    texts = (
        "What do I hold?",
        " Where is the {cup}? ",
        "How many of 100% cups?\n",
        "What is \u00e9?",
        'Am I "here"?',
    )
    return [
        {"dimension": dimension.name, "question": text}
        for dimension in DIMENSIONS
        for text in texts
    ]


def run(folder: Path, inputs: Answers) -> Answers:
    """Return the answers of all pipelines."""
    return {name: pipeline(folder, inputs) for name, pipeline in PIPELINES.items()}


def main() -> None:
    """Write the golden answers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with the checkouts")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    folder = parser.parse_args().folder
    inputs = make_inputs(chosen_replies())
    content = {"inputs": inputs, "answers": run(folder, inputs)}
    GOLDEN.write_text(
        f"{json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
