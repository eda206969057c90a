"""Chat messages of other tasks, whose functions name their settings in several ways."""

from types import SimpleNamespace

import pytest

from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from lmms_egoplan.media.messages import MediaLoader
from media.files import number_image


def turns(doc, settings):
    image = {"type": "image", "url": doc["image"]}
    user = {"role": "user", "content": [image, {"type": "text", "text": settings["prompt"]}]}
    return [{"role": "system", "content": [{"type": "text", "text": "Be short."}]}, user]


class Task:
    def __init__(self, to_messages):
        self.lmms_eval_specific_kwargs = {"prompt": "What next?"}
        self.config = SimpleNamespace(doc_to_messages=to_messages)

    def doc_to_visual(self, doc):
        return [doc["image"]]


@pytest.mark.parametrize(
    "to_messages",
    [
        lambda doc, lmms_eval_specific_kwargs=None: turns(doc, lmms_eval_specific_kwargs),
        lambda sample, lmms_kwargs=None: turns(sample, lmms_kwargs),
        lambda doc, **settings: turns(doc, settings["lmms_eval_specific_kwargs"]),
    ],
    ids=["the harness's name", "another name", "any names"],
)
def test_settings_are_passed_under_any_parameter_name(to_messages):
    backend = SimpleNamespace(_media=MediaLoader(8, takes_video=False))
    request = SimpleNamespace(
        request_type="generate_until", args=("", {}, Task(to_messages).doc_to_visual)
    )
    sent = HFVLM._task_messages(backend, request, {"image": number_image(3)})
    assert [message["role"] for message in sent] == ["system", "user"]
    assert sent[1]["content"][1]["text"] == "What next?"
