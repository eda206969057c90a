import pytest

from lmms_egoplan.judging.cache import default_cache_path
from lmms_egoplan.judging.judge import judge_all
from lmms_egoplan.judging.judgement import JudgeRequest, RatingScale
from lmms_egoplan.judging.probe import probe
from lmms_egoplan.judging.settings import JudgeSettings


@pytest.mark.parametrize("best", [1.0, 10.0])
@pytest.mark.parametrize(
    ("answer", "reference", "rating"),
    [
        ("A red Cup!", "a red cup.", 1.0),
        ("the cup", "A red cup.", 0.5),
        ("cup red a", "a red cup", 0.5),
        ("knife", "a red cup", 0.0),
        ("cupboard", "cup", 0.0),
        ("", "cup", 0.0),
        ("Löffel, 3", "löffel 3", 1.0),
    ],
)
def test_compares_words(tmp_path, monkeypatch, answer, reference, rating, best):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path))
    settings = JudgeSettings("demo")
    scale = RatingScale(read=lambda verdict: None, best=best)
    (judgement,) = judge_all([JudgeRequest("q/1", "?", reference, answer)], scale, settings)
    assert (judgement.rating, judgement.judge, judgement.error) == (rating * best, "demo", None)
    assert f"[[{rating * best:g}]]" in judgement.reply
    assert probe(settings) == "demo"
    assert not default_cache_path().exists()
