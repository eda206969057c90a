"""Print which of our modules are loaded after one question is scored, each in a fresh process.

Usage: python tools/loaded_modules.py
"""

import subprocess
import sys

RANKED_QUESTION = """
from lmms_egoplan.benchmarks.egoplan.metrics import EGOPLAN_VAL
from lmms_egoplan.benchmarks.egoplan.rank import score_ranking

question = {
    "sample_id": 7,
    "video_id": "P01_01",
    "video_source": "EpicKitchens",
    "golden_choice_idx": "B",
    "choices": ["open the tap", "take a cup", "close the door", "cut the bread"],
    "split_size": 3355,
}
losses = [(2.5, False), (1.5, True), (3.0, False), (2.0, False)]
assert score_ranking(question, losses, EGOPLAN_VAL)["acc"]["score"] == 1
"""

JUDGED_ANSWER = """
from lmms_egoplan.benchmarks.egothink.answers import JudgedAnswer
from lmms_egoplan.benchmarks.egothink.metrics import score_answer

answer = JudgedAnswer(
    id="existence/1",
    answer="a cup",
    truncated=False,
    suspect=False,
    rating=0.5,
    judgement="Rating: [[0.5]]",
    judge="gpt-4o-2024-11-20",
    error=None,
)
assert score_answer({"id": "existence/1"}, [answer.to_text()])["score"]["score"] == 50
"""

CASES = {
    "one ranked question of EgoPlan-Bench": RANKED_QUESTION,
    "one judged answer of EgoThink": JUDGED_ANSWER,
}
LIST_MODULES = """
import sys

for name in sorted(sys.modules):
    if name.partition(".")[0] == "lmms_egoplan":
        print(name)
"""


def loaded_modules(code: str) -> list[str]:
    """Return the names of our modules that a fresh process has loaded after it ran some code."""
    finished = subprocess.run(
        [sys.executable, "-c", code + LIST_MODULES], capture_output=True, text=True, check=True
    )
    return finished.stdout.split()


def main() -> None:
    """Print the modules of each case."""
    for case, code in CASES.items():
        modules = loaded_modules(code)
        print(f"{case}: {len(modules)} modules")
        for module in modules:
            print(f"  {module}")


if __name__ == "__main__":
    main()
