"""Degrees of overlap, compared with a slow reference that counts frames."""

import random

import pytest

from lmms_egoplan.overlap.matching import AFTER, SIMILAR, audit, similar_texts
from lmms_egoplan.overlap.training_files import Item, items_of
from lmms_egoplan.report.overlap import DEGREES

SAME, COPY, OTHER_TIME, NO_TIME, CLEAN, _ = DEGREES
# A question of EPIC-KITCHENS that shows the frames 100 to 199 of 60 per second.
ROW = {
    "sample_id": 7,
    "video_source": "EpicKitchens",
    "video_id": "P01_13",
    "task_goal": "wash the cup",
    "answer": "open tap",
    "current_observation_frame": 199,
    "past_actions": [{"narration_text": "take cup", "start_frame": 100, "stop_frame": 240}],
}
(QUESTION, *_) = items_of(ROW, "7")


def degree_of(*items):
    (row,) = audit([QUESTION], items)
    return row["degree"], row


def frames(first, last, video="p01_13", action="", text=""):
    return Item(video, rounded(first / 60, (last + 1) / 60), action, text, f"train.csv, {first}")


def rounded(*times):
    """Round seconds as files' spans are rounded."""
    return tuple(round(time, 3) for time in times)


def test_a_question_shows_its_first_action_to_its_observation():
    assert QUESTION.span == (1.667, 3.333)
    assert (QUESTION.video, QUESTION.action, QUESTION.text) == ("p01_13", "open tap", "wash the cup open tap")
    (bench2, *_) = items_of(ROW | {"first_frame": 0, "video_id": "ab" * 4 + "-0000" * 3 + "-" + "cd" * 6}, "7")
    assert bench2.span == (0, 6.667)
    step = {"step_id": "a_1", "video_id": "b", "start_sec": 1.0, "end_sec": 2.5, "local_intent": "picks it"}
    (step_item,) = items_of(step | {"global_intent": "cook", "goal": "other"}, "a_1")
    assert step_item == Item("b", (1.0, 2.5), "picks it", "cook picks it", "a_1")


@pytest.mark.parametrize(
    ("items", "degree"),
    [
        ([frames(0, 99)], OTHER_TIME),
        ([frames(0, 100)], SAME),
        ([frames(199, 300)], SAME),
        ([frames(200, 300)], OTHER_TIME),
        ([frames(0, 900)], SAME),
        ([frames(110, 119), frames(115, 129), frames(110, 119)], SAME),
        ([Item("p01_13", None, "", "", "list")], NO_TIME),
        ([Item("p01_13", None, "", "", "list"), frames(0, 9)], OTHER_TIME),
        ([frames(100, 199, "p01_14")], CLEAN),
        ([frames(100, 199, "p02_13")], CLEAN),
        ([], CLEAN),
    ],
)
def test_spans_overlap_by_frames(items, degree):
    found_degree, row = degree_of(*items)
    assert found_degree == degree
    assert bool(row["training"]) == (degree != CLEAN)


@pytest.mark.parametrize(
    ("first", "action", "is_answer"),
    [
        (200, "Open the tap.", True),
        (200, "close tap", False),
        (200, "", False),
        (199 + int(60 * AFTER), "open tap", True),
        (201 + int(60 * AFTER), "open tap", False),
        (0, "open tap", False),
    ],
)
def test_the_answers_action_is_after_the_observation(first, action, is_answer):
    degree, _ = degree_of(frames(first, first + 9, action=action))
    assert degree == (SAME if is_answer else OTHER_TIME)


def test_near_duplicate_texts_have_their_position():
    for text, is_copy in (
        ("Wash the cup: open tap!", True),
        ("washing the cup, open the tap", False),
        ("Wash the cups: open the tap", False),
        ("open tap", False),
        ("bake bread", False),
    ):
        degree, row = degree_of(Item("other", None, "", text, "train.json, 3"))
        assert ((degree == COPY), row["similarity"] >= SIMILAR) == (is_copy, is_copy), (text, row)
        assert row["text"] == ("train.json, 3" if row["similarity"] else "")
    assert degree_of(Item("p01_13", None, "", "wash cup open tap", "x"))[0] == COPY
    assert degree_of(frames(150, 160, text="wash cup open tap"))[0] == SAME


def test_a_long_text_that_differs_in_a_letter_is_a_near_duplicate():
    text = "prepare the vegetables for the soup on the kitchen counter, then cut the carrots"
    for other, is_copy in ((text.replace("carrots", "carrot"), True), (text.replace("cut", "peel and wash"), False)):
        (similarity, _), *_ = similar_texts([text], [other, "bake bread", "open tap"])
        assert (similarity >= SIMILAR) == is_copy, similarity


def test_texts_without_letters_are_ignored():
    assert degree_of(Item("other", None, "", "...", "x"))[1]["similarity"] == 0


def test_similarities_are_those_of_a_slow_reference():
    chance = random.Random(3)
    words = ["take", "cup", "open", "tap", "wash", "pan", "cut", "bread", "the", "pour"]
    made = [" ".join(chance.choices(words, k=5)) for _ in range(40)]
    texts, training = made[:30], made[25:]
    numbers = [slow_similarities(text, training, texts) for text in texts]
    for (similarity, text), slow in zip(similar_texts(texts, training), numbers, strict=True):
        assert similarity == pytest.approx(max(slow), abs=6e-4)
        assert slow[training.index(text)] == pytest.approx(max(slow), abs=1e-5)


def grams(text):
    padded = [f" {word} " for word in text.split() if word != "the"]
    return [word[start : start + 4] for word in padded for start in range(max(1, len(word) - 3))]


def slow_similarities(text, training, texts):
    from math import log, sqrt

    holders = [set(grams(other)) for other in (*training, *texts)]
    idf = {
        gram: log((1 + len(holders)) / (1 + sum(gram in grams_of for grams_of in holders))) + 1
        for grams_of in holders
        for gram in grams_of
    }

    def weights(of_text):
        return {gram: grams(of_text).count(gram) * idf[gram] for gram in grams(of_text) if gram in idf}

    def cosine(first, second):
        norms = [sqrt(sum(weight**2 for weight in side.values())) for side in (first, second)]
        return sum(first[gram] * second.get(gram, 0) for gram in first) / (norms[0] * norms[1]) if all(norms) else 0

    return [cosine(weights(text), weights(other)) for other in training]


def test_matching_agrees_with_counting_frames():
    chance = random.Random(1)
    videos, actions = ["p01_13", "p01_14", "p02_11", "b"], ["open tap", "take cup", ""]
    for _ in range(100):
        items = []
        for number in range(chance.randrange(7)):
            first = chance.randrange(600)
            span = None if chance.random() < 0.2 else rounded(first / 60, (first + chance.randint(1, 60)) / 60)
            items.append(Item(chance.choice(videos), span, chance.choice(actions), "", str(number)))
        questions = []
        for number in range(5):
            first = chance.randrange(300)
            span = rounded(first / 60, (first + chance.randint(1, 90)) / 60)
            questions.append(Item(chance.choice(videos), span, "open tap", "tap", str(number)))
        for question, row in zip(questions, audit(questions, items), strict=True):
            assert row["degree"] == slow_match(question, items)


def slow_match(question, items):
    def numbers(span):
        return set(range(round(60 * span[0]), round(60 * span[1])))

    same = [item for item in items if item.video == question.video]
    timed = [item for item in same if item.span]
    trained = set().union(*(numbers(item.span) for item in timed))
    shared = numbers(question.span) & trained
    stop = round(60 * question.span[1])
    is_answered = any(
        item.action == question.action
        and round(60 * item.span[0]) < stop + 60 * AFTER
        and round(60 * item.span[1]) >= stop
        for item in timed
    )
    if shared or is_answered:
        degree = SAME
    elif timed:
        degree = OTHER_TIME
    elif same:
        degree = NO_TIME
    else:
        degree = CLEAN
    return degree
