"""Generate EgoPlan questions and random answers from a seed."""

import json
import random
from pathlib import Path

from lmms_egoplan.benchmarks.splits import EGOPLAN
from lmms_egoplan.generated_reply import GeneratedReply
from media.files import write_epic_folder, write_numbered_video
from report.answers import Answers

LETTERS = "ABCD"
_LAST_FRAME = 48


def egoplan_docs(count):
    """Return questions with 0 to 12 past actions; three quarters are in-domain, and 7 share a
    video.
    """
    chance = random.Random(count)
    verbs, things = (
        ("take", "wash", "open", "put down", "pour", "cut"),
        ("cup", "lid", "knife", "box", "tap", "pan"),
    )
    docs = []
    for number in range(count):
        video, source = number // 7, "Ego4D" if number // 7 % 4 == 3 else "EpicKitchens"
        choices = [f"{verb} {chance.choice(things)}" for verb in chance.sample(verbs, 4)]
        gold, goal = chance.randrange(4), f"{chance.choice(verbs)} the {chance.choice(things)}"
        past = range(chance.randrange(13))
        docs.append(
            {
                "sample_id": number + 1,
                "video_source": source,
                "video_id": f"0a{video}-2c"
                if source == "Ego4D"
                else f"P{video % 32 + 1:02}_{video}",
                "task_goal": goal,
                "question": "Considering the progress shown in the video and my "
                "current observation in the "
                "last frame, "
                f"what action should I take next in order to {goal}?",
                "choices": choices,
                "golden_choice_idx": LETTERS[gold],
                "answer": choices[gold],
                "current_observation_frame": _LAST_FRAME,
                "past_actions": [
                    {
                        "narration_text": f"{chance.choice(verbs)} {chance.choice(things)}",
                        "start_frame": 1 + 3 * position,
                        "stop_frame": 3 + 3 * position,
                    }
                    for position in past
                ],
                "media_path": "/nowhere",
                "split_size": count,
                "question_set": "official",
            }
        )
    return docs


def egoplan_answers(count, accuracy, seed=0, unscored=0.0):
    """Return likelihoods of the choices.

    Args:
        accuracy: Fraction of questions for which the mean prefers the right choice; sum and bytes
            do less often.
        unscored: Fraction of questions that the model could not score.
    """
    chance, docs, responses = random.Random(seed), egoplan_docs(count), []
    for doc in docs:
        gold = LETTERS.index(doc["golden_choice_idx"])
        best = gold if chance.random() < accuracy else (gold + chance.randrange(1, 4)) % 4
        losses = [
            chance.uniform(0.5, 1.5) if choice == best else chance.uniform(2, 4)
            for choice in range(4)
        ]
        if chance.random() < unscored:
            losses[0] = float("nan")
        responses.append(
            [
                json.dumps({"loss": loss, "num_tokens": chance.randint(2, 5), "is_greedy": False})
                for loss, _ in zip(losses, doc["choices"], strict=True)
            ]
        )
    return Answers(docs, responses)


def egoplan_replies(count, accuracy, seed=0, unparsed=0.05):
    """Return letters; `accuracy` and `unparsed` are the fractions of right letters and of replies
    without a letter.

    The limit on new tokens ended the replies without a letter.
    """
    chance, docs, responses = random.Random(seed), egoplan_docs(count), []
    for doc in docs:
        gold = LETTERS.index(doc["golden_choice_idx"])
        letter = LETTERS[
            gold if chance.random() < accuracy else (gold + chance.randrange(1, 4)) % 4
        ]
        is_cut = chance.random() < unparsed
        responses.append([GeneratedReply("I do not know." if is_cut else f"{letter}.", is_cut)])
    return Answers(docs, responses)


def prepare(folder: Path, count: int) -> None:
    """Prepare `count` questions in `folder`, which must be ``LMMS_EGOPLAN_DATA``."""
    from datasets import Dataset

    media = {
        "EpicKitchens": write_epic_folder(folder / "media" / "frames", 1, _LAST_FRAME),
        "Ego4D": write_numbered_video(folder / "media" / "video.mp4", _LAST_FRAME + 1),
    }
    rows = [doc | {"media_path": str(media[doc["video_source"]])} for doc in egoplan_docs(count)]
    EGOPLAN.save(
        "val",
        Dataset.from_list(rows),
        split_size=count,
        questions=count,
        fingerprint="0" * 64,
        missing=[],
    )
