import pytest
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from lm_eval.api.instance import Instance
from lm_eval.models.hf_vlms import HFMultimodalLM


WORDS = [
    "what",
    "comes",
    "next",
    "?",
    "wash",
    "take",
    "the",
    "mug",
    "open",
    "drawer",
    "and",
    "knife",
]
SPECIAL_TOKENS = {
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "pad_token": "<pad>",
}
CHOICES = [" wash", " take the mug", " open the drawer and take the knife"]
CONTEXT = "<image> what comes next ?"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A LLaVA of two layers with random weights."""
    tokens = [*SPECIAL_TOKENS.values(), "<image>", *WORDS]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, SPECIAL_TOKENS["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    processor = transformers.LlavaProcessor(
        transformers.CLIPImageProcessor(
            size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}
        ),
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            additional_special_tokens=["<image>"],
            **SPECIAL_TOKENS,
        ),
        patch_size=14,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )
    layers = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    config = transformers.LlavaConfig(
        vision_config={
            "model_type": "clip_vision_model",
            "image_size": 28,
            "patch_size": 14,
            **layers,
        },
        text_config={
            "model_type": "llama",
            "vocab_size": len(vocabulary),
            "max_position_embeddings": 64,
            **layers,
        },
        image_token_index=vocabulary["<image>"],
        image_seq_length=4,
    )
    torch.manual_seed(0)
    model = transformers.LlavaForConditionalGeneration(config)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, 0, 0.3)
    folder = str(tmp_path_factory.mktemp("checkpoint"))
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def lm(checkpoint):
    return HFMultimodalLM(checkpoint, device="cpu", dtype="float32", batch_size=1)


def picture(color):
    return Image.new("RGB", (40, 30), color)


def request(context, continuation, images, number=0):
    return Instance(
        "loglikelihood",
        {},
        (context, continuation, {"visual": images}),
        number,
        ("task", number, 1),
    )


def expected(lm, images, choice):
    inputs = lm.processor(images=images, text=CONTEXT + choice, return_tensors="pt")
    count = len(choice.split())
    with torch.no_grad():
        logprobs = lm.model(**inputs).logits[0, -count - 1 : -1].log_softmax(-1)
    targets = inputs["input_ids"][0, -count:, None]
    return logprobs.gather(-1, targets).sum().item()


@pytest.mark.parametrize("color", ["tomato", "navy"])
def test_sums_are_those_of_plain_passes(lm, color):
    requests = [request(CONTEXT, choice, [picture(color)]) for choice in CHOICES]
    answers = lm.loglikelihood(requests, disable_tqdm=True)
    sums = [expected(lm, [picture(color)], choice) for choice in CHOICES]
    assert [logprob for logprob, _ in answers] == pytest.approx(sums, abs=1e-4)


def test_the_image_matters(lm):
    (red, _), (blue, _) = lm.loglikelihood(
        [request(CONTEXT, CHOICES[1], [picture(c)]) for c in ("tomato", "navy")],
        disable_tqdm=True,
    )
    assert abs(red - blue) > 1e-3


def test_greedy_flag_matches_generate(lm):
    inputs = lm.tok_batch_multimodal_encode([CONTEXT], [[picture("navy")]])
    generated = lm.model.generate(**inputs, max_new_tokens=1, do_sample=False)[0, -1:]
    greedy = " " + lm.tok_decode(generated)
    (_, is_greedy), (_, other) = lm.loglikelihood(
        [request(CONTEXT, text, [picture("navy")]) for text in (greedy, " wash mug")],
        disable_tqdm=True,
    )
    assert is_greedy
    assert not other


def test_requests_with_and_without_images_keep_their_order(lm):
    text_only = Instance("loglikelihood", {}, ("what comes next", " ?"), 1)
    with_image = request(CONTEXT, CHOICES[0], [picture("navy")])
    alone = lm.loglikelihood([text_only], disable_tqdm=True)
    both = lm.loglikelihood([with_image, text_only], disable_tqdm=True)
    assert both[1] == pytest.approx(alone[0])
    assert both[0][0] == pytest.approx(expected(lm, [picture("navy")], CHOICES[0]))


@pytest.mark.parametrize(
    ("context", "continuation", "message"),
    [
        (CONTEXT, "", "may be empty"),
        ("", " wash", "may be empty"),
        (CONTEXT + " mug" * 60, " wash", "max_length=64"),
    ],
)
def test_invalid_requests_raise(lm, context, continuation, message):
    images = [picture("navy")]
    with pytest.raises(ValueError, match=message):
        lm.loglikelihood([request(context, continuation, images)], disable_tqdm=True)
