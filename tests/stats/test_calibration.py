"""Calibration and conformal sets, with slow references and for planted models."""

import math
import random

import numpy as np
import pytest

from lmms_egoplan.stats import calibration
from lmms_egoplan.stats.calibration import (
    BINS,
    bins_of,
    brier_score,
    calibration_error,
    choices,
    conformal_sets,
    conformal_threshold,
    cross_fitted,
    fit_temperature,
    folds_of,
    gaps_of,
)

VIDEOS = [f"P01_{number // 7:03}" for number in range(1400)]


def planted(model, seed=3):
    """Return scores and right candidates of a model."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0, 1, (len(VIDEOS), 4))
    scores[:, 0] += rng.gamma(2, 0.9, len(VIDEOS))
    # Gumbel's trick draws from the softmax
    gold = (scores + rng.gumbel(size=scores.shape)).argmax(1)
    if model == "ignores the video":
        gold = rng.integers(0, 4, len(VIDEOS))
    return scores * (3 if model == "overconfident" else 1), gold


@pytest.fixture(scope="module")
def models():
    measures = {}
    for model in ("calibrated", "overconfident", "ignores the video"):
        scores, gold = planted(model)
        pair = choices(scores, gold)
        fitted = choices(scores, gold, cross_fitted(scores, gold, VIDEOS))
        measures[model] = {
            "ece": calibration_error(*pair, VIDEOS),
            "fitted": calibration_error(*fitted, VIDEOS),
            "temperature": fit_temperature(scores, gold),
            "sets": conformal_sets(scores, gold, VIDEOS, 0.9),
        }
    return measures


def test_planted_models_are_separated(models):
    calibrated, over, blind = models.values()
    assert calibrated["ece"].interval[0] == 0
    assert calibrated["ece"].interval[1] < over["ece"].interval[0]
    assert over["ece"].interval[1] < blind["ece"].interval[0]
    assert over["fitted"].interval[0] == 0
    assert calibrated["temperature"] == pytest.approx(1, abs=0.1)
    assert over["temperature"] == pytest.approx(3, abs=0.3)
    assert blind["temperature"] > 20
    # a temperature does not change the sets
    assert calibrated["sets"] == pytest.approx(over["sets"])
    assert calibrated["sets"]["size"] + 0.5 < blind["sets"]["size"]
    assert calibrated["sets"]["asks"] + 10 < blind["sets"]["asks"]
    for model in models.values():
        assert model["sets"]["low"] < 90 < model["sets"]["high"]


def test_brier_score_as_in_scikit_learn():
    from sklearn.metrics import brier_score_loss

    scores, gold = planted("calibrated")
    probabilities = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    by_class = [brier_score_loss(gold == index, probabilities[:, index]) for index in range(4)]
    assert brier_score(scores, gold, 1.0, VIDEOS).value == pytest.approx(sum(by_class))


def test_the_best_temperature_of_a_grid():
    from sklearn.metrics import log_loss

    scores, gold = planted("overconfident")
    grid = np.linspace(2, 4, 401)
    exponentials = [np.exp(scores / temperature) for temperature in grid]
    means = [
        log_loss(gold, exponential / exponential.sum(1, keepdims=True))
        for exponential in exponentials
    ]
    assert fit_temperature(scores, gold) == pytest.approx(grid[np.argmin(means)], abs=5e-3)


def test_questions_use_temperatures_and_thresholds_of_other_videos():
    scores, gold = planted("overconfident")
    folds, temperatures = folds_of(VIDEOS), cross_fitted(scores, gold, VIDEOS)
    assert all(
        len({fold for fold, x in zip(folds, VIDEOS, strict=True) if x == video}) == 1
        for video in set(VIDEOS)
    )
    assert len(set(folds)) == calibration.FOLDS
    for fold in set(folds):
        elsewhere = folds != fold
        assert set(temperatures[~elsewhere]) == {
            fit_temperature(scores[elsewhere], gold[elsewhere])
        }
    order = np.random.default_rng(0).permutation(len(VIDEOS))
    assert (folds_of(np.array(VIDEOS)[order]) == folds[order]).all()


def test_plain_error_by_plain_loops():
    scores, gold = planted("calibrated")
    # rounded scores have ties
    scores, gold, videos = (
        np.round(scores[:203], 1),
        gold[:203],
        VIDEOS[:203],
    )
    confidence, is_right = (x.tolist() for x in choices(scores, gold))
    expected = 0
    parts = bins_of(np.array(confidence)).tolist()
    for number in range(BINS):
        members = [i for i, part in enumerate(parts) if part == number]
        expected += abs(sum(is_right[i] - confidence[i] for i in members)) / 203
    assert calibration_error(
        np.array(confidence), np.array(is_right), videos
    ).value == pytest.approx(expected)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_thresholds_and_sets_by_plain_loops(level):
    chance = random.Random(5)
    videos = [f"v{number}" for number in range(40) for _ in range(chance.choice([1, 2, 9]))]
    scores = np.array([[chance.gauss(0, 1) for _ in range(4)] for _ in videos])
    gold = np.array([chance.randrange(4) for _ in videos])
    gaps = [max(row) - row[right] for row, right in zip(scores.tolist(), gold, strict=True)]
    assert gaps_of(scores, gold).tolist() == gaps

    def threshold(members):
        names = {videos[i] for i in members}
        shares = {
            i: 1 / sum(videos[j] == videos[i] for j in members) / (len(names) + 1) for i in members
        }
        for gap in sorted(gaps[i] for i in members):
            if sum(share for i, share in shares.items() if gaps[i] <= gap) >= level - 1e-9:
                return gap
        return math.inf

    assert conformal_threshold(np.array(gaps), videos, level) == threshold(range(len(videos)))
    folds = folds_of(videos)
    by_video = {}
    for i, video in enumerate(videos):
        limit = threshold([j for j in range(len(videos)) if folds[j] != folds[i]])
        size = sum(max(scores[i]) - score <= limit for score in scores[i])
        by_video.setdefault(video, []).append((gaps[i] <= limit, size, size > 1))
    covered, size, asks = np.mean([np.mean(values, axis=0) for values in by_video.values()], axis=0)
    sets = conformal_sets(scores, gold, videos, level)
    assert (sets["covered"], sets["size"], sets["asks"]) == pytest.approx(
        (100 * covered, size, 100 * asks)
    )
    assert sets["low"] < sets["covered"] < sets["high"]


def test_too_few_videos_have_no_threshold():
    scores, gold = (x[:28] for x in planted("calibrated"))
    videos = VIDEOS[:28]
    assert conformal_threshold(gaps_of(scores, gold), videos, 0.81) == math.inf
    assert conformal_threshold(gaps_of(scores, gold), videos, 0.8) == gaps_of(scores, gold).max()


def test_perfect_coverage_has_an_interval_below_1():
    scores, gold = np.log([[0.7, 0.3]] * 60), np.zeros(60, dtype=int)
    sets = conformal_sets(scores, gold, [f"v{number // 3}" for number in range(60)], 0.8)
    assert (sets["covered"], sets["size"], sets["asks"]) == (100, 1, 0)
    assert 70 < sets["low"] < sets["high"] == 100


@pytest.mark.parametrize("margin", [0.5, 5, 50, 800])
def test_the_best_temperature_beyond_a_limit_is_the_limit(margin):
    scores = np.tile([margin, 0.0, 0.0, 0.0], (40, 1))
    assert fit_temperature(scores, np.zeros(40, int)) == 0.01
    assert fit_temperature(scores, np.ones(40, int)) == 100
    assert fit_temperature(np.zeros((40, 4)), np.zeros(40, int)) == 100


def test_the_calibration_error_is_at_most_one():
    rng = np.random.default_rng(0)
    error = calibration_error(rng.uniform(0.8, 1, 10), rng.random(10) < 0.1, range(10))
    assert error.value < error.interval[1] == 1
