"""Questions and responses for tests of scores."""

from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText

CHOICES = ["put", "take cereal bag", "éplucher l'oignon", "open cupboard"]


def make_doc(gold="B", **changes):
    return {
        "sample_id": 115,
        "video_source": "EpicKitchens",
        "video_id": "P01_13",
        "choices": CHOICES,
        "golden_choice_idx": gold,
        "split_size": 10,
        "question_set": "official",
    } | changes


def encode(losses, tokens=(1, 3, 9, 2)):
    return [
        str(LoglikelihoodText.from_score(Loglikelihood(loss, number, False)))
        for loss, number in zip(losses, tokens, strict=True)
    ]
