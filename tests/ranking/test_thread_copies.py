"""`ThreadCopies`: several threads use a processor at the same time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from lmms_egoplan.media.frames import Clip
from lmms_egoplan.ranking import CandidateRanker
from lmms_egoplan.ranking.thread_copies import ThreadCopies
from patience import FOREVER_S
from ranking.reference import picture
from zoo import build


class Shared:
    def __init__(self, may_be_copied=True):
        self.may_be_copied = may_be_copied
        self.users = 0

    def __deepcopy__(self, memo):
        if not self.may_be_copied:
            raise TypeError("cannot pickle")
        return Shared()


def use(copies, meeting=None):
    with copies.borrow() as lent:
        lent.users += 1
        assert lent.users == 1
        if meeting:
            meeting.wait(FOREVER_S)
        lent.users -= 1
        return lent


def test_each_thread_reuses_its_own_copy():
    original = Shared()
    copies = ThreadCopies(original)
    assert use(copies) is original
    made = set()
    for _ in range(2):
        with ThreadPoolExecutor(3) as pool:
            made |= {id(lent) for lent in pool.map(use, [copies] * 3, [threading.Barrier(3)] * 3)}
    assert len(made) == 3
    assert id(original) not in made


def test_threads_take_turns_if_copying_fails():
    original = Shared(may_be_copied=False)
    copies = ThreadCopies(original)
    with ThreadPoolExecutor(4) as pool:
        assert {id(lent) for lent in pool.map(lambda _: use(copies), range(50))} == {id(original)}
        users = [pool.submit(use, copies) for _ in range(50)]
        assert all(use(copies) is original for _ in range(50))
        assert {id(user.result()) for user in users} == {id(original)}


def question(number, media):
    frames = [picture(seed, (60, 40 + number)) for seed in range(2 + number % 3)]
    media_items = (
        [{"type": "video", "video": Clip(frames, 2.0)}]
        if media == "video"
        else [{"type": "image", "image": frame} for frame in frames]
    )
    text = {"type": "text", "text": f"What should I do {'next ' * number}?"}
    return (
        [{"role": "user", "content": [*media_items, text]}],
        ["wash", "put mug on the counter"],
        f"q{number}",
    )


@pytest.mark.parametrize(
    ("name", "media"),
    [("llava", "image"), ("qwen2_5_vl", "video"), ("internvl", "video"), ("instructblip", "image")],
)
def test_questions_are_encoded_equally_in_every_thread(name, media):
    ranker = CandidateRanker(*build(name))
    questions = [question(number, media) for number in range(8)]
    expected = [ranker.encode(*arguments) for arguments in questions]
    with ThreadPoolExecutor(4) as pool:
        encoded = list(pool.map(lambda arguments: ranker.encode_ahead(*arguments), questions * 3))
    for here, there in zip(expected * 3, encoded, strict=True):
        assert replace(here, inputs={}) == replace(there, inputs={})
        assert list(here.inputs) == list(there.inputs)
        for name in here.inputs:
            assert torch.equal(
                torch.as_tensor(here.inputs[name]), torch.as_tensor(there.inputs[name])
            )
