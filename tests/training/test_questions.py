"""Encode answers for training."""

import pytest

from lmms_egoplan.training.questions import AnswerEncoder
from lmms_egoplan.training.samples import Sample, draw
from zoo import build


@pytest.mark.parametrize(("negatives", "end"), [((), "<|im_end|>"), (("A pan.",), "")])
def test_only_answers_without_negatives_include_the_end_of_the_turn(negatives, end):
    _, processor = build("qwen2_5_vl")
    sample = Sample("cup", (("What is this?", "A cup."),), negatives)
    answer = (
        AnswerEncoder(processor, is_encoder_decoder=False).encode(draw(sample, "0")).candidates[0]
    )
    assert processor.tokenizer.decode(answer.scored_tokens) == f"A cup.{end}"
