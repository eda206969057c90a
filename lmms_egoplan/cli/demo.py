"""``lmms-egoplan demo``: run an evaluation without a GPU, a network or datasets."""

from pathlib import Path

from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder

# Seconds before the loading of torch is named.
_SILENT_S = 1.0


def demo(out: OutFolder = Path("lmms-egoplan-demo")) -> None:
    """Run a full evaluation with toy models, from images to the report.

    The demo contains small rendered sets in the formats of all benchmarks. It prepares them, runs
    lmms-eval on them and writes the report. It takes about a minute and needs no network and no
    GPU. All scores are meaningless: one model has random weights, and the other two and the judge
    read their replies from a script.

    Example: `lmms-egoplan demo --out /tmp/demo`
    """
    from rich.console import Console

    from lmms_egoplan.benchmarks.base import DEMO_SETS
    from lmms_egoplan.harnesses.requirements import require
    from lmms_egoplan.report.show import show_scores
    from lmms_egoplan.status_line import StatusLine

    with output_folder(out, "demo"):
        with StatusLine(_SILENT_S) as status:
            status.begin("Loading")
            require("lmms_eval", "lmms-eval", "lmms-egoplan")
            from lmms_egoplan.demo.run import run_demo

        def show_table(results: Path) -> None:
            show_scores([results], "text")

        run_demo(out, Console(), [*DEMO_SETS.values()], show_table)
