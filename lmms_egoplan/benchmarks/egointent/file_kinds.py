"""The kinds of record files with EgoIntent's steps, with answers about them, and of Goal-Step."""

from lmms_egoplan.file_kinds import FileKind

JUDGED_ANSWERS = FileKind(
    order=5,
    keys=frozenset({"step_id", "judge_prompt"}),
    name="judged answers to EgoIntent's steps",
    judged="egointent",
)
ANNOTATIONS = FileKind(
    order=6,
    keys=frozenset({"step_id", "local_intent", "start_sec"}),
    name="EgoIntent's annotation file",
    is_annotation=True,
)
GOALSTEP_ANNOTATIONS = FileKind(
    order=7,
    keys=frozenset({"goal_category", "segments"}),
    name=("Ego4D Goal-Step's annotation file, the input of `lmms-egoplan data build egointent`"),
    is_annotation=True,
)
ANSWERS = FileKind(
    order=13,
    keys=frozenset({"step_id"}),
    name=(
        "answers about EgoIntent's steps; judge them first: "
        "lmms-egoplan judge egointent {path} --out FILE"
    ),
)
FILE_KINDS = (JUDGED_ANSWERS, ANNOTATIONS, GOALSTEP_ANNOTATIONS, ANSWERS)
