"""What the benchmarks bring to the command: their own commands, in its groups, and texts in shared helps."""

import typer

from lmms_egoplan.benchmarks.registry import BENCHMARKS
from lmms_egoplan.cli.former_options import accepting


def helps(key: str) -> list[str]:
    """The benchmarks' texts under a key of `Commands.HELPS`, one of each benchmark that has one."""
    texts = (benchmark.load_commands().HELPS for benchmark in BENCHMARKS)
    return [own[key] for own in texts if key in own]


# What each group is for, by what is typed; a benchmark's example follows. A group without a command is not there.
_GROUPS = {
    "data": "Prepare the benchmarks' data, and see what is there.",
    "data prepare": "Check a benchmark's files and write them as a dataset.\n\n"
    "The dataset is written below `$LMMS_EGOPLAN_DATA` (by default `~/.cache/lmms_egoplan`).",
    "annotate": "Have people label: one page, served on this machine. Each person gets a link of their own.",
    "data build": "Make annotations of a benchmark's form from other data.",
    "submit": "Make a submission file from a run's samples.",
    "judge": "Judge stored answers.\n\n"
    "LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and LMMS_EGOPLAN_JUDGE_MODEL set the judge. Without the "
    f"last, each benchmark asks its own default judge: {', '.join(helps('judge, defaults'))}. With it, all of them ask "
    "that model.",
    "heatmap": "Draw results of several models in one picture.",
    "score": "Score plans made anywhere.",
    "train": "Train models that a benchmark's metrics need.",
    "evaluate": "Measure models that a benchmark's metrics need.",
}


def add_benchmarks(app: typer.Typer, **own: typer.Typer) -> None:
    """Add the benchmarks' commands, in their groups.

    Args:
        own: groups that have commands already, by name.
    """
    groups = {"": app} | {group: typer.Typer(no_args_is_help=True) for group in _GROUPS} | own
    for benchmark in BENCHMARKS:
        commands = benchmark.load_commands()
        for path, command in commands.COMMANDS.items():
            group, _, name = path.rpartition(" ")
            groups[group].command(name, cls=accepting(*commands.FORMER_OPTIONS.get(path, ())))(command)
    for group, purpose in _GROUPS.items():
        if groups[group].registered_commands:
            above, _, name = group.rpartition(" ")
            examples = [f"Example: {example}" for example in helps(group)[:1]]
            groups[above].add_typer(groups[group], name=name, help="\n\n".join([purpose, *examples]))
