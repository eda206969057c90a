"""Write people's questions in the layout of EgoThink's release (sec. 3.2).

Count them for Table 4 and Fig. 3.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmms_egoplan.annotation.egothink_questions import QUESTIONS, WrittenQuestion, read_image
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import compare_with_table_4
from lmms_egoplan.construction.folders import read_export
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import whole_folder, write_whole
from lmms_egoplan.text import clean_text, join_list

LAYOUT = "egothink"
STATISTICS = "statistics.json"


def build_benchmark(labels: Path, out: Path) -> dict[str, Any]:
    """Write the benchmark and its statistics, from the questions of an export.

    Args:
        labels: Folder of the export.
        out: Folder with the frames. Receives the folder `LAYOUT` and the file `STATISTICS`.

    Returns:
        The result of `statistics`.

    Raises:
        LmmsEgoplanError: As in `read_questions`.
        OSError: The folder cannot be written.
    """
    questions = read_questions(labels, out)
    write_layout(questions, out / LAYOUT)
    result = statistics([question for question, _ in questions])
    write_whole(out / STATISTICS, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return result


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


def summary_lines(result: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield the lines that the command prints below the table of dimensions.

    Args:
        result: Result of `statistics`.
        out: Output folder.
    """
    scenes = ", ".join(f"{scene}: {count}" for scene, count in result["scenes"].items())
    yield f"Scenes: {scenes}"
    yield (
        f"Other scenes, each below 1 %: {result['other_scenes']} (paper: 13), with "
        f"{result['other_questions']} questions. The paper has 700 questions on images of 595 "
        "videos."
    )
    yield (
        "Concepts, scenes and videos: different ones, as people named them. Words and question "
        "types: as data prepare egothink counts them."
    )
    with_questions = {dimension["split"] for dimension in result["dimensions"]}
    missing = sorted(set(DIMENSION_NAMES) - with_questions)
    yield (
        "Dimensions without a question (data prepare egothink needs all twelve): "
        f"{join_list(missing) or 'none'}"
    )
    yield (
        f"{result['questions']} questions on images of {result['videos']} videos written to "
        f"{out / LAYOUT}, {result['by_lead']} of them accepted by the lead, not by all reviewers"
    )
