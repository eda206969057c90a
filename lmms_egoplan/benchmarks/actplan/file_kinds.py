"""The kind of record files with judged errors in ActPlan-1K's plans."""

from lmms_egoplan.file_kinds import FileKind

ERROR_TYPES = FileKind(
    order=10,
    keys=frozenset({"id", "judge_model"}),
    name=(
        "types of errors in plans; pass `report` the folder that `lmms-egoplan judge actplan` wrote"
    ),
)
FILE_KINDS = (ERROR_TYPES,)
