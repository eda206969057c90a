"""The kinds of record files with EgoThink's questions, and with answers to them."""

from lmms_egoplan.file_kinds import FileKind

ANNOTATIONS = FileKind(
    order=4,
    keys=frozenset({"image_path", "question", "answer"}),
    name="EgoThink's annotation file",
    is_annotation=True,
)
JUDGED_ANSWERS = FileKind(
    order=11,
    keys=frozenset({"id", "rating", "judge"}),
    name="judged answers to EgoThink's questions",
    judged="egothink",
)
ANSWERS = FileKind(
    order=12,
    keys=frozenset({"id", "answer"}),
    name=(
        "answers without ratings; judge them first: lmms-egoplan judge egothink {path} --out FILE"
    ),
)
FILE_KINDS = (ANNOTATIONS, JUDGED_ANSWERS, ANSWERS)
