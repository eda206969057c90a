"""Simulate the false and the right findings on judges of a panel: `lmms_egoplan.report.panels.bias_rows`.

Three judges rate the answers of four models to 100 questions: two models of the family of the first judge, two of the
family of the second. The third judge has no family. A rating is the answer's quality plus noise, rounded to 0, 50 or
100. Answers have 1 to 128 words.

The first row has 500 panels, the others have 100.

    python perf/panels.py                               # 13 minutes on one busy core
"""

import platform
import time
from types import SimpleNamespace

import numpy as np
import scipy

from lmms_egoplan.report.panels import Panel, bias_rows

QUESTIONS = 100
FAMILIES = ("OpenAI", "OpenAI", "Qwen", "Qwen")
JUDGES = ("gpt-4o", "qwen3", "other")
SCENARIOS = {
    "no bias": {},
    "no bias, longer answers are better": {"quality": 4},
    "gpt-4o: 4 points per doubling": {"length": 4},
    "gpt-4o: 10 points for its family": {"family": 10},
    "gpt-4o: 60 % of the scale, longer answers are better": {"quality": 4, "scale": 0.6},
}
PLANTED = {"length": ("gpt-4o", "longer answers"), "family": ("gpt-4o", "its own family")}
MOST_ERRORS = 0.0695
"""Largest accepted rate of panels with a false finding: 5 % and two standard errors of 500 panels."""


def panels(
    rng: np.random.Generator, quality: float = 0, length: float = 0, family: float = 0, scale: float = 1
) -> list[Panel]:
    """Draw a panel per model; the first judge has the stated bias."""
    drawn = []
    for number, name in enumerate(FAMILIES):
        words = 2 ** rng.integers(0, 8, QUESTIONS)
        doublings = np.log2(words) - 3.5
        true = rng.normal(50, 25, QUESTIONS) + quality * doublings
        ratings = true[:, None] + rng.normal(0, 20, (QUESTIONS, len(JUDGES)))
        ratings[:, 0] = 50 + scale * (ratings[:, 0] - 50) + length * doublings + family * (name == "OpenAI")
        texts = {question: {"": ("word " * count, None)} for question, count in enumerate(words)}
        answers = {x: SimpleNamespace(texts=text, cluster=str(x)) for x, text in texts.items()}
        run = SimpleNamespace(name=f"model {number}", answers=answers)
        parts = [(question, "") for question in range(QUESTIONS)]
        drawn.append(Panel((run,) * len(JUDGES), name, parts, 50 * np.clip(np.round(ratings / 50), 0, 2)))
    return drawn


def main() -> None:
    """Print a row per scenario; exit with an error if there are too many false findings without a bias."""
    started = time.monotonic()
    print("| panels | number | planted bias found % | another judge favours something % | any finding % |")
    print("|---|---:|---:|---:|---:|")
    for scenario, options in SCENARIOS.items():
        rng, right, other, either = np.random.default_rng(0), 0, 0, 0
        planted = next((PLANTED[kind] for kind in options if kind in PLANTED), None)
        count = 100 if options else 500
        for _ in range(count):
            rows = bias_rows({(JUDGES, frozenset()): panels(rng, **options)})
            findings = {(row["judge"], row["kind"]): row["finding"] for row in rows if row["finding"]}
            right += planted in findings
            other += any(x.startswith("favours") for name, x in findings.items() if name != planted)
            either += bool(findings)
        cells = (f"{100 * number / count:.1f}" for number in (right, other, either))
        print(f"| {scenario} | {count} | {' | '.join(cells)} |", flush=True)
        if not options and either > MOST_ERRORS * count:
            raise SystemExit("too many false findings")
    seconds = time.monotonic() - started
    print(f"\nscipy {scipy.__version__}, Python {platform.python_version()}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
