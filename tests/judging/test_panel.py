"""Compare the combination of ratings and the biases of judges with slow versions, and find planted biases."""

import random
from statistics import fmean, median

import numpy as np
import pytest

from lmms_egoplan.judging.panel import combine, deviations, family_of, slope_rows
from lmms_egoplan.report.ledger import read_ledger


def test_combined_ratings_equal_a_slow_version():
    chance = random.Random(1)
    for judges in (2, 3, 4, 5):
        ratings = [[chance.choice((0, 50, 100)) for _ in range(judges)] for _ in range(200)]
        combined = {name: values.tolist() for name, values in combine(np.array(ratings, dtype=float)).items()}
        for number, row in enumerate(ratings):
            majority = [rating for rating in {*row} if row.count(rating) > judges / 2]
            assert combined["mean"][number] == pytest.approx(fmean(row))
            assert combined["median"][number] == median(row)
            assert combined["spread"][number] == max(row) - min(row)
            assert [rating for rating in [combined["majority"][number]] if rating == rating] == majority


def slow_slope(values, deviation, groups):
    """Solve the least-squares problem with a dummy variable for each group."""
    columns = [[float(group == name) for group in groups] for name in dict.fromkeys(groups)]
    return np.linalg.lstsq(np.array([values, *columns], dtype=float).T, np.array(deviation, dtype=float))[0][0]


def test_slope_equals_least_squares_with_a_mean_for_each_group():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 30, 100).astype(str)
    lengths = np.log2(rng.integers(1, 200, 100))
    ratings = rng.choice([0.0, 50.0, 100.0], (100, 3))
    for judge, deviation in enumerate(deviations(ratings).T):
        means = [fmean(x for number, x in enumerate(row) if number != judge) for row in ratings.tolist()]
        slow = [row[judge] - mean for row, mean in zip(ratings.tolist(), means, strict=True)]
        above, below, _ = slope_rows(lengths, deviation, groups).sum(axis=0)
        assert above / below == pytest.approx(slow_slope(lengths, slow, groups.tolist()))


def test_slope_on_the_own_family_is_the_mean_difference_within_questions():
    rng = np.random.default_rng(2)
    questions, is_own = np.repeat(np.arange(40), 5).astype(str), np.tile([True, True, False, False, False], 40)
    deviation = rng.normal(0, 10, 200)
    above, below, used = slope_rows(is_own, deviation, questions).sum(axis=0)
    differences = [fmean(row[:2]) - fmean(row[2:]) for row in deviation.reshape(40, 5).tolist()]
    assert above / below == pytest.approx(fmean(differences))
    assert used == 200
    alone = slope_rows(np.ones(200), deviation, questions)
    assert not alone[:, 1:].any()


@pytest.mark.parametrize(
    ("name", "family"),
    [
        *(("gpt-4o-2024-11-20", "OpenAI"), ("openai/gpt-oss-120b", "OpenAI"), ("o4-mini-2025-04-16", "OpenAI")),
        *(("ChatGPT-4o-latest", "OpenAI"), ("openai.gpt-4o (temperature 1)", "OpenAI"), ("o3x", None)),
        *(("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen"), ("QwQ-32B", "Qwen"), ("models/qwen3/", "Qwen")),
        *(
            ("us.anthropic.claude-sonnet-4", "Claude"),
            ("gemini-2.5-pro", "Google"),
            ("google/gemma-3-27b-it", "Google"),
        ),
        *(("meta-llama/Llama-3.2-11B-Vision", "Llama"), ("Meta-Llama-3-8B", "Llama"), ("LLaMA-Adapter-7B", None)),
        *(("OpenGVLab/InternVL3-8B", "Intern"), ("InternVideo2", None), ("LLaVA-13B-Llama2", "LLaVA")),
        *(("Video-LLaVA-7B", None), ("MiniGPT-4-7B", None), ("EgoGPT", None), ("ShareGPT4V-7B", None)),
        *(("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "DeepSeek"), ("Pixtral-12B", "Mistral"), ("GLM-4.1V", "GLM")),
        *(
            ("MiniCPM-V-2_6", "MiniCPM"),
            ("Phi-3.5-vision", "Phi"),
            ("PhilBrain", None),
            ("RoboBrain2.0-7B", "RoboBrain"),
        ),
        *(
            ('o3 (reasoning_effort="high", temperature=null)', "OpenAI"),
            ("gpt-4o, o3", "OpenAI"),
            ("gpt-4o, Qwen3-32B", None),
            ("gpt-4o, judge", None),
            ("", None),
        ),
    ],
)
def test_families_follow_from_names(name, family):
    assert family_of(name) == family


def test_published_names_of_one_maker_have_its_family():
    names = {score.cells["model"] for score in read_ledger()}
    for family, start in {"OpenAI": "gpt", "Qwen": "qwen", "Google": "gemini", "Intern": "internvl"}.items():
        of_family = {name for name in names if name.lower().startswith(start)}
        assert of_family
        assert {family_of(name) for name in of_family} == {family}
