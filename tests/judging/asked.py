"""Define a small judge's scale and requests. ``python asked.py URL FIRST LAST`` judges a range of them."""

import re
import signal
import sys
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from packaging.version import Version

from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import Judgement, JudgeRequest, RatingScale
from lmms_egoplan.judging.settings import JudgeSettings

KEY = "sk-very-secret-key-123"
# Earlier releases of openai do not read OPENAI_CUSTOM_HEADERS.
READS_CUSTOM_HEADERS = Version(version("openai")) >= Version("2.34")


def read(verdict: str) -> float | None:
    ratings = re.findall(r"\[\[([^\[\]]*)\]\]", verdict)
    return float(ratings[-1]) if ratings and ratings[-1] in ("0", "0.5", "1") else None


SCALE = RatingScale(read=read, best=1.0)


def request(prompt: str) -> JudgeRequest:
    return JudgeRequest(id=prompt, prompt=prompt, reference="reference", answer="answer")


def judge(
    url: str, prompts: Iterable[str], concurrency: int = 8, *, scale: RatingScale = SCALE, **settings: Any
) -> list[Judgement]:
    judge = JudgeSettings(**{"model": "judge", "base_url": url, "api_key": KEY, "concurrency": concurrency} | settings)
    return judge_all([request(prompt) for prompt in prompts], scale, judge)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, even if the parent ignores Ctrl-C
    url, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(*(judgement.rating for judgement in judge(url, [f"prompt {n}" for n in range(first, last)], concurrency=4)))
