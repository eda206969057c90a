"""Write people's questions in the layout of EgoThink's release (sec. 3.2).

Count them for Table 4 and Fig. 3.
"""

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.egothink_questions import QUESTIONS, WrittenQuestion, read_image
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import compare_with_table_4
from lmms_egoplan.construction.folders import read_export
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder
from lmms_egoplan.text import clean_text

LAYOUT = "egothink"
STATISTICS = "statistics.json"


def read_questions(labels: Path, frames: Path) -> list[tuple[WrittenQuestion, bytes]]:
    """Read the questions of an export, each with its image from the folder of frames.

    Raises:
        LmmsEgoplanError: The export is missing, invalid or empty, or an image is missing or has
            changed since people saw it. The message names the line.
    """
    questions: list[tuple[WrittenQuestion, bytes]] = []
    for where, question in read_export(
        "--questions", labels, QUESTIONS, "EgoThink's questions", WrittenQuestion
    ):
        image = read_image(where, frames, question.image)
        if sha256(image).hexdigest() != question.digest:
            raise LmmsEgoplanError(
                f"{where}: image: {question.image} has changed since people saw it; restore it"
            )
        questions.append((question, image))
    if not questions:
        raise LmmsEgoplanError(
            f"--questions {labels}: {QUESTIONS} is empty; export the labels again"
        )
    return questions


def write_layout(questions: Sequence[tuple[WrittenQuestion, bytes]], out: Path) -> None:
    """Write all files of the layout atomically.

    Files are ``Object/existence/annotations.json``, ``Object/existence/images/1.jpg`` and so on.

    Each record has the release's fields and those of the export. Dimensions without a question get
    no folder.

    Raises:
        OSError: The folder cannot be written.
    """
    with whole_folder(out) as root:
        for dimension in DIMENSIONS:
            part = [pair for pair in questions if pair[0].dimension == dimension.name]
            records = []
            for number, (question, image) in enumerate(part, 1):
                path = root / dimension.folder / "images" / f"{number}.jpg"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(image)
                source = {"source_dataset": "built", "origin": "built", "image_path": [path.name]}
                records.append(source | question.model_dump(exclude={"image", "digest"}))
            if records:
                text = clean_text(json.dumps(records, indent=4, ensure_ascii=False))
                (root / dimension.folder / "annotations.json").write_text(
                    text + "\n", encoding="utf-8"
                )


def statistics(questions: Sequence[WrittenQuestion]) -> dict[str, Any]:
    """Count the rows of Table 4, and the scenes of Fig. 3.

    Concepts and scenes are compared without regard to case.

    Returns:
        ``dimensions``, with ``split`` (the name) and ``counts`` (see `compare_with_table_4`) of
        each dimension that has questions; ``questions``, ``by_lead`` (those accepted by the lead,
        not by all reviewers) and ``videos``, their numbers; ``scenes``, the number of questions by
        scene, most frequent first, without those below one percent; and ``other_scenes`` and
        ``other_questions``, the numbers of these scenes and of their questions.

    >>> values = {"image": "a.jpg", "digest": "0", "video": "a", "frame": 0, "unanimous": True}
    >>> values |= {"question": "Where am I?", "answer": "bar", "dimension": "location"}
    >>> question = WrittenQuestion(**values, concept="bar", scene="Bar")
    >>> result = statistics([question, question])
    >>> result["scenes"], result["dimensions"][0]["counts"]["concepts"]
    ({'bar': 2}, {'prepared': 1, 'paper': 46, 'matches': False})
    """
    dimensions = []
    for dimension in DIMENSIONS:
        part = [question for question in questions if question.dimension == dimension.name]
        if part:
            counts = compare_with_table_4(
                dimension,
                [(question.question, question.answer) for question in part],
                concepts=len({question.concept.casefold() for question in part}),
                scenes=len({question.scene.casefold() for question in part}),
                videos=len({question.video for question in part}),
            )
            dimensions.append({"split": dimension.name, "counts": counts})
    scenes = Counter(question.scene.casefold() for question in questions)
    common = {
        scene: count for scene, count in scenes.most_common() if count / len(questions) >= 0.01
    }
    return {
        "dimensions": dimensions,
        "questions": len(questions),
        "by_lead": sum(not question.unanimous for question in questions),
        "videos": len({question.video for question in questions}),
        "scenes": common,
        "other_scenes": len(scenes) - len(common),
        "other_questions": len(questions) - sum(common.values()),
    }
