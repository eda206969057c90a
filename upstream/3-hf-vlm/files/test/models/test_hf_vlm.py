"""Test that ``hf_vlm`` returns the likelihoods of plain passes, with fewer passes."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForImageTextToText,
    AutoProcessor,
    CLIPImageProcessor,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)

from lmms_eval.api.instance import Instance
from lmms_eval.models.model_utils.candidate_ranker import CandidateRanker
from lmms_eval.models.simple.hf_vlm import HFVLM

CANDIDATES = ["wash", "take the mug", "open the drawer and take the knife"]
TEMPLATE = "{% for m in messages %}{{ m['role'] | upper }}: {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %} {% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a LLaVA of two layers with random weights."""
    words = "USER ASSISTANT : what comes next ? wash take the mug open drawer and knife".split()
    vocabulary = {word: number for number, word in enumerate(["<unk>", "<s>", "</s>", "<pad>", "<image>", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>", additional_special_tokens=["<image>"])
    size = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
    processor = LlavaProcessor(CLIPImageProcessor(**size), fast, patch_size=14, vision_feature_select_strategy="default", num_additional_image_tokens=1, chat_template=TEMPLATE)
    layers = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlavaConfig(
        vision_config={"model_type": "clip_vision_model", "image_size": 28, "patch_size": 14, **layers},
        text_config={"model_type": "llama", "vocab_size": len(vocabulary), "max_position_embeddings": 128, **layers},
        image_token_index=vocabulary["<image>"],
        image_seq_length=4,
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    folder = tmp_path_factory.mktemp("checkpoint")
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def messages(num_images: int) -> list[dict]:
    images = [{"type": "image", "image": Image.new("RGB", (40, 30), (60 * number, 90, 200))} for number in range(num_images)]
    return [{"role": "user", "content": [*images, {"type": "text", "text": "what comes next ?"}]}]


def plain_loss(model: torch.nn.Module, processor: LlavaProcessor, question: list[dict], candidate: str) -> float:
    turn = {"role": "assistant", "content": [{"type": "text", "text": candidate}]}
    inputs = processor.apply_chat_template([[*question, turn]], tokenize=True, return_dict=True, return_tensors="pt", continue_final_message=True)
    count = len(candidate.split())
    with torch.no_grad():
        logprobs = model(**inputs).logits[0, -count - 1 : -1].log_softmax(-1)
    return -logprobs.gather(-1, inputs["input_ids"][0, -count:, None]).mean().item()


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("num_images", [0, 1, 3])
def test_losses_match_plain_passes(checkpoint: Path, num_images: int, implementation: str) -> None:
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, attn_implementation=implementation).eval()
    processor = AutoProcessor.from_pretrained(checkpoint)
    ranker = CandidateRanker(model, processor)
    expected = [plain_loss(model, processor, messages(num_images), candidate) for candidate in CANDIDATES]
    for _ in range(3):  # checked on the first two questions, shared on the third
        losses = [loss for loss, _ in ranker.score(messages(num_images), CANDIDATES, "test")]
        assert losses == pytest.approx(expected, abs=1e-5)
    assert max(expected) - min(expected) > 0.1


def test_candidates_share_one_pass_over_the_context(checkpoint: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
    ranker = CandidateRanker(model, AutoProcessor.from_pretrained(checkpoint))
    lengths = []
    model.model.register_forward_pre_hook(lambda module, arguments, keywords: lengths.append(keywords["input_ids"].shape[1]), with_kwargs=True)
    for _ in range(2):
        ranker.score(messages(1), CANDIDATES, "test")
    lengths.clear()
    ranker.score(messages(1), CANDIDATES, "test")
    assert len(lengths) == 2
    assert lengths[1] == sum(len(candidate.split()) - 1 for candidate in CANDIDATES)


def test_much_longer_context_is_checked(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = CandidateRanker(AutoModelForImageTextToText.from_pretrained(checkpoint).eval(), AutoProcessor.from_pretrained(checkpoint))
    for _ in range(2):
        ranker.score(messages(1), CANDIDATES, "short")
    spoil(ranker, monkeypatch)
    ranker.score(messages(2), CANDIDATES, "not checked")
    with pytest.raises(RuntimeError, match="question long"):
        ranker.score(messages(12), CANDIDATES, "long")


def spoil(ranker: CandidateRanker, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = ranker._shared_pass
    monkeypatch.setattr(ranker, "_shared_pass", lambda question: [(loss + 0.5, greedy) for loss, greedy in shared(question)])


def test_wrong_shared_pass_is_never_used(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = AutoModelForImageTextToText.from_pretrained(checkpoint).eval(), AutoProcessor.from_pretrained(checkpoint)
    ranker = CandidateRanker(model, processor)
    spoil(ranker, monkeypatch)
    expected = [plain_loss(model, processor, messages(1), candidate) for candidate in CANDIDATES]
    for _ in range(3):
        assert [loss for loss, _ in ranker.score(messages(1), CANDIDATES, "test")] == pytest.approx(expected, abs=1e-5)


def test_later_wrong_shared_pass_ends_the_run(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = AutoModelForImageTextToText.from_pretrained(checkpoint).eval(), AutoProcessor.from_pretrained(checkpoint)
    ranker = CandidateRanker(model, processor)
    ranker.score(messages(1), CANDIDATES, "first")
    spoil(ranker, monkeypatch)
    with pytest.raises(RuntimeError, match="question second: .* run again with shared_context=False"):
        ranker.score(messages(1), CANDIDATES, "second")


def test_too_long_context_is_an_error(checkpoint: Path) -> None:
    ranker = CandidateRanker(AutoModelForImageTextToText.from_pretrained(checkpoint).eval(), AutoProcessor.from_pretrained(checkpoint))
    with pytest.raises(ValueError, match="question long: .* 128 positions"):
        ranker.score(messages(40), CANDIDATES, "long")


def test_backend_ranks_and_generates(checkpoint: Path) -> None:
    model = HFVLM(str(checkpoint), device="cpu")
    model.task_dict = {"task": {"test": [{"images": 1}]}}

    def images(doc: dict) -> list:
        return [item["image"] for item in messages(doc["images"])[0]["content"] if item["type"] == "image"]

    def request(kind: str, number: int, argument) -> Instance:
        return Instance(kind, ("what comes next ?", argument, images, 0, "task", "test"), number, {"task": "task", "doc_id": 0, "repeats": 1})

    ranked = model.loglikelihood([request("loglikelihood", number, candidate) for number, candidate in enumerate(CANDIDATES)])
    expected = [plain_loss(model._model, model._processor, messages(1), candidate) for candidate in CANDIDATES]
    assert [loss for loss, _ in ranked] == pytest.approx(expected, abs=1e-5)
    (answer,) = model.generate_until([request("generate_until", 0, {"max_new_tokens": 3, "until": ["zzz"], "temperature": 0})])
    assert answer.token_counts.output_tokens <= 3
    assert isinstance(answer.text, str)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("what comes next ?", ["image", "image", "text"]),
        ("<image> what <image> comes next ?", ["image", "text", "image", "text"]),
        ("what <image>", ["image", "image", "text"]),
    ],
)
def test_images_replace_their_placeholders(checkpoint: Path, text: str, order: list[str]) -> None:
    model = HFVLM(str(checkpoint), device="cpu")
    images = [Image.new("RGB", (40, 30), color) for color in ("tomato", "navy")]
    (turn,) = model._messages(text, images)
    assert [item["type"] for item in turn["content"]] == order
    assert [item["image"].getpixel((0, 0)) for item in turn["content"] if item["type"] == "image"] == [image.getpixel((0, 0)) for image in images]
