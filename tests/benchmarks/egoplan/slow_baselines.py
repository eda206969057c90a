"""Compute the baselines without a model independently of the package, question by question."""

import re
from functools import cache

NAMES = (
    "always A",
    "most common action",
    "words of the goal",
    "not done yet",
    "longest choice",
)
ARTICLES = {"a", "an", "the"}
LINKS = {
    *(
        "about",
        "across",
        "against",
        "around",
        "at",
        "away",
        "back",
        "behind",
        "beside",
        "between",
        "by",
        "down",
        "for",
    ),
    *(
        "from",
        "in",
        "inside",
        "into",
        "near",
        "of",
        "off",
        "on",
        "onto",
        "out",
        "over",
        "through",
        "to",
        "together",
    ),
    *("towards", "under", "up", "with", "and", "then"),
}


@cache
def plain(text):
    return [word for word in re.split(r"\W+", text.lower()) if word and word not in ARTICLES]


@cache
def stems(text):
    from nltk.stem import SnowballStemmer

    return {SnowballStemmer("english").stem(word) for word in plain(text) if word not in LINKS}


def values(docs, doc, choice):
    """Return what each baseline compares, by its name."""
    return {
        "always A": choice == doc["choices"][0],
        "most common action": sum(
            plain(other["answer"]) == plain(choice)
            for other in docs
            if other["video_id"] != doc["video_id"]
        ),
        "words of the goal": len(stems(doc["task_goal"]) & stems(choice)),
        "not done yet": all(
            plain(past["narration_text"]) != plain(choice) for past in doc["past_actions"]
        ),
        "longest choice": len(choice),
    }


def points(docs):
    """Return the expected points for each question, by baseline, if one of the best choices is
    drawn.
    """
    expected = {name: [] for name in NAMES}
    for doc in docs:
        compared = {choice: values(docs, doc, choice) for choice in doc["choices"]}
        for name in NAMES:
            best = max(of_choice[name] for of_choice in compared.values())
            winners = [choice for choice, of_choice in compared.items() if of_choice[name] == best]
            expected[name].append(1 / len(winners) if doc["answer"] in winners else 0)
    return expected
