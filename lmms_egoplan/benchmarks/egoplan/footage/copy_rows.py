"""Read the rows of public copies: the fields and folders of each copy, with their sources."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len

from lmms_egoplan.benchmarks.egoplan.prompts import LETTERS
from lmms_egoplan.benchmarks.egoplan.records import Question, load_list
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import parse_record, read_lines
from lmms_egoplan.validation import Text, quoted, read_as

PROGRESS = "task_progress_metadata"
# Fields that must have the official value if a row has them.
_SAME = ("video_id", "current_observation_frame", "task_start_frame")
_GOAL = re.compile(r"in order to (.+?)\s*\?", re.DOTALL)
# Table rows in memory at a time, with their images.
_BATCH = 16
_Choices = Annotated[list[Text], Len(len(LETTERS), len(LETTERS))]


@dataclass(frozen=True)
class Layout:
    """Fields and folders of a public copy of questions with media.

    Attributes:
        rows: For each benchmark and split, globs below the copy's folder. The files of the first
            glob with files are read.
        choices: One field with a list, or one field per choice.
        answer: Fields with the letter or the text of the right choice. All that exist must agree.
        goal: Field with the goal, or with a question that contains "in order to GOAL?".
        video: File of the progress, with fields in braces, in the copy's folder or in one of its
            subfolders.
        image: File of the observation, as for `video`; None if the copy has no such files.
        frames: Fields with images or lists of images, oldest first, the observation last; instead
            of `video` and `image`.
        is_lettered: True if the choices begin with their letters.
    """

    rows: Mapping[str, Sequence[str]]
    choices: Sequence[str]
    answer: Sequence[str]
    goal: str
    video: str = ""
    image: str | None = None
    frames: Sequence[str] | None = None
    is_lettered: bool = False


_CHOICE_FIELDS = ("choice_a", "choice_b", "choice_c", "choice_d")

# https://huggingface.co/datasets/TencentARC/SEED-Bench-R1; fields and folders as in infer.py and
# grpo.py of commit 12e8fcc
SEED_BENCH_R1 = Layout(
    rows={
        "egoplan val": ["annotations/validation_L[12].jsonl"],
        "egoplan_bench2 test": ["annotations/validation_L3.jsonl"],
    },
    choices=_CHOICE_FIELDS,
    answer=["golden_choice_idx", "answer"],
    goal="task_goal",
    video="videos/{video_source}/{video_basename}",
    image="images/{video_source}/{current_observation_basename}",
)
# https://huggingface.co/datasets/EgoLife-v1/EgoPlan, also lmms-lab/EgoPlan; fields as on the card,
# video names as in lmms-eval 0.7.3, tasks/egoplan/utils.py
EGOLIFE = Layout(
    rows={"egoplan val": ["**/*.parquet"]},
    choices=_CHOICE_FIELDS,
    answer=["golden_choice_idx", "answer"],
    goal="task_goal",
    video="{sample_id}.mp4",
)
# https://huggingface.co/datasets/IffYuan/ego-plan; fields as in EgoPlan2Dataset of
# DeepCybo-PhysAI/PhysBrainEvalKit, commit c95d9ee. The wording of its questions was not seen
IFFYUAN = Layout(
    rows={"egoplan_bench2 test": ["**/*.parquet", "**/*.jsonl", "**/*.json"]},
    choices=["options"],
    answer=["answer"],
    goal="question",
    frames=["video", "image"],
    is_lettered=True,
)
# https://huggingface.co/datasets/nv-njb/egoplan-bench2; fields as in lmms-eval 0.7.3,
# tasks/egoplan2/utils.py
NV_NJB = Layout(
    rows={"egoplan_bench2 test": ["**/*.parquet"]},
    choices=_CHOICE_FIELDS,
    answer=["ground_truth"],
    goal="task_goal",
    frames=["keyframes"],
)

LAYOUTS = {
    "seed-bench-r1": SEED_BENCH_R1,
    "egolife": EGOLIFE,
    "iffyuan": IFFYUAN,
    "nv-njb": NV_NJB,
}
"""The layouts by the name that ``data prepare ... --copy NAME DIR`` gets."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a copy. `goal`, `choices` and `right` are words, see `words_of`."""

    where: str
    sample_id: str
    values: Mapping[str, Any]
    goal: str
    choices: list[str]
    right: str

    def differences(self, question: Question) -> list[str]:
        """List the parts that differ from a question with the same goal."""
        differences = []
        choices = [words_of(choice) for choice in question.choices]
        if {*self.choices} != {*choices}:
            differences.append("choices")
        elif self.choices != choices:
            differences.append("order of choices")
        if self.right != words_of(question.answer):
            differences.append("right choice")
        if self._has_other_progress(question):
            differences.append(PROGRESS)
        for name in _SAME:
            value = self.values.get(name)
            if value is not None and value != getattr(question, name, value):
                differences.append(name)
        return differences

    def _has_other_progress(self, question: Question) -> bool:
        """Return True if the row has past actions that differ from those of a question."""
        actions = self.values.get(PROGRESS)
        if actions is None:
            return False
        spans = [(action.get("start_frame"), action.get("stop_frame")) for action in actions or ()]
        return spans != [(past.start_frame, past.stop_frame) for past in question.past_actions]


def read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield location and values of each row of a table in JSON lines, JSON or parquet."""
    from pyarrow import ArrowException, parquet

    if path.suffix == ".jsonl":
        for where, line in read_lines(path):
            yield where, parse_record(where, line)
    elif path.suffix == ".json":
        for index, row in enumerate(load_list(path, "train")):
            yield f"{path}, record {index}", row
    else:
        try:
            with parquet.ParquetFile(path) as table:
                index = 0
                for batch in table.iter_batches(_BATCH):
                    for row in batch.to_pylist():
                        yield f"{path}, row {index}", row
                        index += 1
        except (OSError, ArrowException) as error:
            raise LmmsEgoplanError(
                f"{path}: cannot be read as parquet: {error}; download it again"
            ) from error


def read_row(layout: Layout, where: str, values: Any) -> Row:
    """Read the content of a row.

    Raises:
        LmmsEgoplanError: A field is wrong.
    """
    values = read_as(dict[str, Any], where, values)
    sample_id = values.get("sample_id", values.get("id"))
    where = f"{where}, sample_id {quoted(sample_id)}"
    read_as(list[dict[str, Any]], f"{where}, {PROGRESS}", values.get(PROGRESS) or [])
    goal = read_as(Text, f"{where}, {layout.goal}", values.get(layout.goal))
    choices = _read_choices(layout, where, values)
    right = _read_right_choice(layout, where, values, choices)
    question = _GOAL.search(goal)
    return Row(
        where=where,
        sample_id=str(sample_id),
        values=values,
        goal=words_of(question[1] if question else goal),
        choices=choices,
        right=right,
    )


def _read_choices(layout: Layout, where: str, values: Mapping[str, Any]) -> list[str]:
    """Return the words of a row's choices, without their letters."""
    names = layout.choices
    options = values.get(names[0]) if len(names) == 1 else [values.get(name) for name in names]
    texts = read_as(_Choices, f"{where}, {'/'.join(names)}", options)
    choices = [words_of(text) for text in texts]
    if not layout.is_lettered:
        return choices
    if [choice[:2] for choice in choices] != [f"{letter} " for letter in LETTERS.lower()]:
        raise LmmsEgoplanError(
            f"{where}, {names[0]}: expected the letters A to D, found {quoted(options)}"
        )
    return [choice[2:] for choice in choices]


def _read_right_choice(
    layout: Layout, where: str, values: Mapping[str, Any], choices: Sequence[str]
) -> str:
    """Return the words of a row's right choice."""
    answers = []
    for key in layout.answer:
        if values.get(key) is not None:
            answers.append(words_of(str(values[key])))
    by_letter = dict(zip(LETTERS.lower(), choices, strict=True))
    right = {by_letter.get(answer, answer) for answer in answers}
    if len(right) != 1 or not right <= {*choices}:
        fields = "/".join(layout.answer)
        raise LmmsEgoplanError(
            f"{where}, {fields}: expected the letter or text of one choice, found {answers}"
        )
    return right.pop()


def words_of(text: str) -> str:
    """Return a text in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", text.casefold()))
