"""Chat templates: who needs one, what happens without it, and the marks of results."""

import json
import shutil
from functools import partial

import pytest
from lm_eval.api.instance import Instance

from harnesses.lmms_eval.small_requests import generate, ranking_requests
from launch.test_checks import plan
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.command_line import check_chat_template
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.harnesses.lmms_eval.llava import Llava
from lmms_egoplan.harnesses.template_files import stored_template
from lmms_egoplan.launch.checks import find_problems
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.chat_templates import (
    NO_TEMPLATE,
    NOT_APPLIED,
    template_problem,
    uses_template,
)
from lmms_egoplan.ranking.loglikelihood import parse_loglikelihood
from lmms_egoplan.training.questions import AnswerEncoder
from ranking.reference import picture, user_turn
from zoo import FAMILIES, build, save

TEMPLATE = "chat_template.jinja"
TURNS = "{% for message in messages %}{{ message['role'] + ': ' }}"
# Templates of text models, which a checkpoint may have got with a tokenizer.
OF_TEXT_MODELS = {
    "reads only texts": TURNS
    + "{% for item in message['content'] %}{{ item['text'] }}{% endfor %}{% endfor %}",
    "reads one text": TURNS + "{{ message['content'][0]['text'] }}{% endfor %}",
    "joins strings": TURNS + "{{ message['content'] + '\n' }}{% endfor %}",
    "prints the content": TURNS + "{{ message['content'] }}{% endfor %}",
    "fails": "{{ raise_exception('only texts, please') }}",
}
CHOICES = ["take the mug", "sauté the onion", "pour water"]
QUESTION = "Which action comes next?"
ON_CPU = {"dtype": "float32", "device": "cpu"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folders of three checkpoints."""
    root = tmp_path_factory.mktemp("templates")
    return {name: save(name, root / name) for name in ("qwen2_5_vl", "llava", "blip2_opt")}


@pytest.fixture
def copied(folders, tmp_path):
    """Return a function that copies a checkpoint with another chat template, or none; and without
    its weights.
    """

    def copy(name, template=None, weights=True):
        folder = tmp_path / f"{name}-{len([*tmp_path.iterdir()])}"
        shutil.copytree(folders[name], folder)
        (folder / TEMPLATE).unlink(missing_ok=True)
        if template is not None:
            (folder / TEMPLATE).write_text(template)
        if not weights:
            (folder / "model.safetensors").unlink()
        return folder

    return copy


def losses(model, images=1):
    doc = {
        "text": QUESTION,
        "visuals": [picture(number) for number in range(images)],
        "choices": CHOICES,
    }
    return [
        parse_loglikelihood(result.text).loss
        for result in model.loglikelihood(ranking_requests(model, [doc]))
    ]


def error_of(call):
    with pytest.raises(LmmsEgoplanError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava"])
def test_a_chat_model_needs_a_template_that_shows_images_before_its_weights_are_loaded(
    copied, tmp_path, name
):
    """``run --check`` says the same as the backend."""
    for template in (None, *OF_TEXT_MODELS.values()):
        folder = copied(name, template, weights=False)
        (check,) = [
            line for line in find_problems(plan(tmp_path, model=str(folder))) if "template" in line
        ]
        for backend in (HFVLM, Llava):
            message = error_of(partial(backend, str(folder), **ON_CPU))
            assert message == f"{backend.NAME}: {check}"
            assert message.startswith(f"{backend.NAME}: {folder}: ")
            assert "chat_template=none" in message
            assert (f"the chat template {TEMPLATE} " in message) == (template is not None)
        in_lm_eval = {"harness": "lm-eval", "backend_name": "hf-vlm-ranker", "model": str(folder)}
        (line,) = [
            line for line in find_problems(plan(tmp_path, **in_lm_eval)) if "template" in line
        ]
        assert (
            error_of(partial(check_chat_template, HFVLMRanker.NAME, str(folder)))
            == f"{HFVLMRanker.NAME}: {line}"
        )


def test_every_family_has_the_template_that_it_needs(tmp_path):
    for name, family in FAMILIES.items():
        config, processor = family.parts()
        assert uses_template(config.to_dict(), processor) == family.has_chat_template, name
        processor.save_pretrained(tmp_path / name)
        stored = stored_template(str(tmp_path / name))
        assert (stored is not None) == family.has_chat_template, name
        if stored is not None:
            assert template_problem(name, processor.apply_chat_template) is None
            turns = user_turn(QUESTION, [None])
            assert stored.render(turns) == processor.apply_chat_template(
                turns, add_generation_prompt=True
            ), name


@pytest.mark.parametrize(
    "template", [None, *OF_TEXT_MODELS.values()], ids=["missing", *OF_TEXT_MODELS]
)
def test_rankers_and_encoders_of_training_need_a_template_too(copied, template):
    model, processor = build("llava")
    processor = type(processor).from_pretrained(copied("llava", template))
    for make in (partial(CandidateRanker, model), partial(AnswerEncoder, is_encoder_decoder=False)):
        assert "chat template" in error_of(partial(make, processor))


def test_plain_text_must_be_asked_for_and_is_marked(copied, folders):
    """With or without a template, the prompt is the same: an image's placeholder, the text, a
    space, the candidate.
    """
    model, processor = build("llava")
    expected = [
        -CandidateRanker(model, processor, apply_chat_template=False, separate_candidates=False)
        .score(user_turn(QUESTION, [picture(0)]), [f" {choice}"])[0]
        .logprob
        for choice in CHOICES
    ]
    applied = HFVLM(str(folders["llava"]), **ON_CPU)
    assert applied.plain_text is None
    for folder in (folders["llava"], copied("llava")):
        plain = HFVLM(str(folder), chat_template="none", **ON_CPU)
        assert plain.plain_text == NOT_APPLIED
        sums = [loss * len(processor.tokenizer(choice, add_special_tokens=False)["input_ids"])
                for loss, choice in zip(losses(plain), CHOICES, strict=True)]  # fmt: skip
        assert sums == pytest.approx(expected, abs=1e-3)
        assert losses(applied) != pytest.approx(losses(plain), abs=1e-2)
    blip = HFVLM(str(folders["blip2_opt"]), **ON_CPU)
    assert blip.plain_text == NO_TEMPLATE
    assert losses(HFVLM(str(folders["blip2_opt"]), chat_template="none", **ON_CPU)) == losses(blip)
    assert "chat_template" in error_of(
        partial(HFVLM, str(folders["llava"]), chat_template="plain", **ON_CPU)
    )


def test_several_images_in_plain_text_are_refused_if_the_model_takes_them_for_one(copied):
    plain = HFVLM(str(copied("qwen2_5_vl")), chat_template="none", **ON_CPU)
    assert len(losses(plain)) == 3
    for images in (2, 8):
        message = error_of(partial(losses, plain, images))
        assert f"{images} adjacent images" in message
        doc = {"text": QUESTION, "visuals": [picture(number) for number in range(images)]}
        assert error_of(partial(generate, plain, [doc], max_new_tokens=2)) == message


def test_the_template_of_the_tokenizer_alone_is_used(copied, folders):
    """Some programs save it there."""
    folder = copied("qwen2_5_vl")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    template = (folders["qwen2_5_vl"] / TEMPLATE).read_text()
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | {"chat_template": template})
    )
    model, usual = (HFVLM(str(path), **ON_CPU) for path in (folder, folders["qwen2_5_vl"]))
    assert losses(model, 2) == losses(usual, 2)
    assert stored_template(str(folder)).name == "tokenizer_config.json"


def test_in_lm_eval_only_requests_in_chat_need_a_template(copied, folders):
    """``--apply_chat_template`` decides."""
    base, tuned = (
        HFVLMRanker(str(folder), **ON_CPU) for folder in (copied("llava"), folders["llava"])
    )
    requests = [
        Instance(
            "loglikelihood",
            {},
            ("<image>" + QUESTION, f" {choice}", {"visual": [picture(0)]}),
            index,
            ("t", 0, 1),
        )
        for index, choice in enumerate(CHOICES)
    ]
    assert base.loglikelihood(requests) == tuned.loglikelihood(requests)
    turns = [{"role": "user", "content": QUESTION}]
    message = error_of(partial(base.apply_chat_template, turns))
    assert "no chat template" in message
    assert "--apply_chat_template" in message
    assert "blip-2" in error_of(
        partial(check_chat_template, HFVLMRanker.NAME, str(folders["blip2_opt"]))
    )
