"""The demo: write its files into a folder, run lmms-eval on them and write the report, as a user would."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from lmms_egoplan.demo import RenderedSet
from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
from lmms_egoplan.demo.folder import LOG, OWN_COMMAND, DemoFolder
from lmms_egoplan.judging.judgement import DEMO
from lmms_egoplan.paths import yaml_beside

_CHECKPOINT, _ENCODER, _DATA, _RESULTS, _REPORT = "checkpoint", "encoder", "data", "results", "report"
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "LMMS_EGOPLAN_DATA": _DATA,
    "LMMS_EGOPLAN_JUDGE_MODEL": DEMO,
    "LMMS_EGOPLAN_ENCODER": _ENCODER,
    "OMP_NUM_THREADS": "1",  # more threads would only wait for each other: the model is tiny
}
_TEXTS = yaml_beside(__file__)


def run_demo(out: Path, console: Console, sets: Sequence[RenderedSet], show_scores: Callable[[Path], None]) -> None:
    """Make a tiny random LLaVA and rendered questions, run lmms-eval on them, write the report and print the scores.

    Args:
        out: folder for everything; files of an earlier demo there are replaced.
        sets: of the benchmarks.
        show_scores: prints the scores of the runs in a folder.

    Raises:
        LmmsEgoplanError: `out` has other files, or a command failed or gave no results; then with the end of the log.
        OSError: `out` cannot be written to.
    """
    contents = (_CHECKPOINT, _ENCODER, _DATA, _RESULTS, _REPORT, *(rendered.FOLDER for rendered in sets))
    folder = DemoFolder(out, contents, console, _TEXTS["steps"], _ENVIRONMENT)
    console.print(_TEXTS["note"].format(judge=DEMO), markup=False, highlight=False)
    with folder.status:
        folder.begin_step()
        write_checkpoint(folder.path / _CHECKPOINT)
        write_encoder(folder.path / _ENCODER)
        folder.begin_step()
        preparations = [rendered.write(folder.path) for rendered in sets]
        folder.begin_step()
        for arguments in preparations:
            folder.run([*OWN_COMMAND, "data", "prepare", *arguments])
        folder.begin_step()
        tasks = [task for rendered in sets for task in rendered.TASKS]
        scores = {task: metric for rendered in sets for task, metric in rendered.SCORES.items()}
        command, written, _ = folder.evaluate(tasks, f"pretrained={_CHECKPOINT},dtype=float32", _RESULTS, scores)
        folder.begin_step()
        folder.run([*OWN_COMMAND, "report", _RESULTS, "--out", _REPORT])
        folder.begin_step()
    show_scores(folder.path / _RESULTS)
    _print_files(folder, command, written, console, sets)


def _print_files(
    folder: DemoFolder, command: Sequence[str], written: Path, console: Console, sets: Sequence[RenderedSet]
) -> None:
    def line(text: str) -> None:
        console.print(text, soft_wrap=True, markup=False, highlight=False)

    line(f"\nThe lmms-eval command was:\n  cd {shlex.quote(str(folder.path))} && {folder.as_typed(command)}\n")
    line(f"Files, in {folder.path}:")
    written = written.relative_to(folder.path)
    for content, name in (
        ("tiny LLaVA", _CHECKPOINT),
        ("sentence encoder", _ENCODER),
        *(("scenes, questions", rendered.FOLDER) for rendered in sets),
        ("prepared data", _DATA),
        ("results", written),
        ("samples, by task", written.with_name("*_samples_*.jsonl")),
        ("log", LOG),
    ):
        line(f"  {content:<20}{name}")
    line(f"\nReport, to open in a browser: {folder.path / _REPORT / 'index.html'}")
    line("\nNext: the real benchmarks, step by step in the README (lmms-egoplan data prepare --help).")
