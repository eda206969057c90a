"""The kinds of record files that EgoPlan-Bench and EgoPlan-Bench2 publish."""

from lmms_egoplan.file_kinds import FileKind

BENCH2_ANNOTATIONS = FileKind(
    order=1,
    keys=frozenset({"sample_id", "choice_a", "domain"}),
    name="EgoPlan-Bench2's annotation file",
    is_annotation=True,
)
ANNOTATIONS = FileKind(
    order=2,
    keys=frozenset({"sample_id", "choice_a"}),
    name="EgoPlan-Bench's annotation file",
    is_annotation=True,
)
INSTRUCTIONS = FileKind(
    order=3,
    keys=frozenset({"sample_id", "negative_answers"}),
    name="EgoPlan-IT, the data of `lmms-egoplan train egoplan`",
    is_annotation=True,
)
FILE_KINDS = (BENCH2_ANNOTATIONS, ANNOTATIONS, INSTRUCTIONS)
