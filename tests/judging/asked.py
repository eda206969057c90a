"""Define a small judge's scale and requests.

``python asked.py URL FIRST LAST LEASE`` judges a range of them.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.version import Version

from lmms_egoplan.judging import leases
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
    url: str,
    prompts: Iterable[str],
    concurrency: int = 8,
    *,
    scale: RatingScale = SCALE,
    **settings: Any,
) -> list[Judgement]:
    judge = JudgeSettings(
        **{"model": "judge", "base_url": url, "api_key": KEY, "concurrency": concurrency} | settings
    )
    return judge_all([request(prompt) for prompt in prompts], scale, judge)


def start(server: Any, first: int, last: int, lease: float = 30.0) -> subprocess.Popen[str]:
    """Start a process that judges a range of prompts, 4 at a time, and prints the ratings."""
    command = [sys.executable, __file__, server.url, str(first), str(last), str(lease)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def environment(server: Any, data: Path, **settings: Any) -> dict[str, str]:
    """Return the environment of a process with this judge and data root.

    The tests' modules can be imported there.
    """
    settings |= {"MODEL": "judge", "BASE_URL": server.url}
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("LMMS_EGOPLAN")
    }
    inherited |= {"LMMS_EGOPLAN_DATA": str(data), "PYTHONPATH": str(Path(__file__).parents[1])}
    return inherited | {
        f"LMMS_EGOPLAN_JUDGE_{name}": str(value) for name, value in settings.items()
    }


if __name__ == "__main__":
    # as in a terminal, even if the parent ignores Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    url, first, last, leases.LEASE_S = (
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        float(sys.argv[4]),
    )
    print(
        *(
            judgement.rating
            for judgement in judge(url, [f"prompt {n}" for n in range(first, last)], concurrency=4)
        )
    )
