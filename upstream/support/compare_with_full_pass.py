"""Compare the pull request's ranker with `full_pass.Reference`; print one line of JSON per checkpoint."""

import json
import sys

from full_pass import Reference
from lmms_eval.models.model_utils.candidate_ranker import CandidateRanker
from PIL import Image

QUESTION = "I have filled the kettle. What should I do next?"
CANDIDATES = ["pour", "take the mug from the shelf", "switch the kettle on and wait", "wash both hands"]
COLOURS = ("tomato", "olive", "navy", "gold", "teal", "plum")

for folder in sys.argv[1:]:
    reference = Reference(folder)
    ranker = CandidateRanker(reference.model, reference.processor)
    largest, passes = 0.0, []
    reference.model.model.register_forward_hook(lambda *_, passes=passes: passes.append(1))
    for number, count in enumerate([1, 2, 4]):  # the first two are checked, the third is shared
        sizes = [(70 + 30 * number, 56 + 7 * index) for index in range(count)]
        images = [Image.new("RGB", size, COLOURS[number + index]) for index, size in enumerate(sizes)]
        content = [*({"type": "image", "image": image} for image in images), {"type": "text", "text": QUESTION}]
        passes.clear()
        scores = ranker.score([{"role": "user", "content": content}], CANDIDATES, str(number))
        num_passes = len(passes)
        for candidate, (loss, is_greedy) in zip(CANDIDATES, scores, strict=True):
            expected, expected_greedy, _ = reference.score(images, QUESTION, candidate)
            largest = max(largest, abs(loss - expected))
            assert is_greedy == expected_greedy
    print(json.dumps({"model": reference.model.config.model_type, "difference": largest, "passes": num_passes}))
