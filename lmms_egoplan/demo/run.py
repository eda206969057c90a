"""Run the demo, as a user would run an evaluation.

It writes its files to a folder, runs lmms-eval on them and writes the report.
"""

import json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from rich.console import Console

from lmms_egoplan.benchmarks.base import DemoSet
from lmms_egoplan.demo import DATA
from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
from lmms_egoplan.demo.folder import LOG, OWN_COMMAND, REPORT, RESULTS, DemoFolder
from lmms_egoplan.demo.sets import copy_set

_CHECKPOINT = "random-weights"
_ENCODER = "encoder"
_SCRIPTED = ("scripted-good", "scripted-poor")
MODEL = "scripted-judge"
# It contains the lowest rating on each benchmark's scale.
_DEFAULT_REPLY = (
    "The demo has no verdict on this answer: no scripted model gives it.\nRating: [[0]]\n[[0]]"
)

_NOTE = """\
The demo runs every step of an evaluation on small rendered sets. One model has random weights. \
Two other models and the judge read their replies from a script. All scores are meaningless.
"""
_END = """
Report, to open in a browser: {page}
Where to look in it:
  First screen                     this table, sortable
  Each benchmark                   a figure, and the difference of every pair of runs
  Gallery, "All models wrong"      questions without a right answer
  Gallery, "Two models disagree"   questions with two different answers
The commands, with all they printed: {log}

Next, with your model and real data (docs/tutorial.md shows every step):
  lmms-egoplan data prepare --help   which files each benchmark needs
  lmms-egoplan run MODEL             run the prepared benchmarks
  lmms-egoplan show runs             this table, with all of your models
"""


def run_demo(
    out: Path, console: Console, sets: Sequence[DemoSet], show_scores: Callable[[Path], None]
) -> None:
    """Run a tiny random LLaVA and both scripted models on the rendered sets.

    Write the report. Print a finding and the scores.

    Args:
        out: folder for all files. Files of an earlier demo are replaced.
        sets: the benchmarks' rendered sets.
        show_scores: function that prints the scores of the runs in a folder.

    Raises:
        LmmsEgoplanError: `out` has other files; or a command failed or had no results, and the
            message contains the end of the log.
        OSError: `out` is not writable.
    """
    contents = (_CHECKPOINT, _ENCODER, *_SCRIPTED, *(rendered.folder for rendered in sets))
    with serve_judge() as judge:
        environment = {
            "LMMS_EGOPLAN_JUDGE_MODEL": MODEL,
            "LMMS_EGOPLAN_JUDGE_BASE_URL": judge,
            "LMMS_EGOPLAN_ENCODER": _ENCODER,
        }
        folder = DemoFolder(out, contents, console, [*_STEPS], **environment)
        _print(console, _NOTE)
        with folder.status:
            for carry_out in _STEPS.values():
                folder.begin_step()
                carry_out(folder, sets)
    _print(console, f"\n{_first_finding(folder)}\n")
    show_scores(folder.path / RESULTS)
    _print(console, _END.format(page=out / REPORT / "index.html", log=out / LOG))


def _first_finding(folder: DemoFolder) -> str:
    """Return the report's first sentence."""
    report = json.loads((folder.path / REPORT / "report.json").read_text(encoding="utf-8"))
    return report["benchmarks"][0]["finding"][0]


def _make_models(folder: DemoFolder, _sets: Sequence[DemoSet]) -> None:
    write_checkpoint(folder.path / _CHECKPOINT)
    write_encoder(folder.path / _ENCODER)


def _copy_files(folder: DemoFolder, sets: Sequence[DemoSet]) -> None:
    for name in _SCRIPTED:
        shutil.copytree(DATA / name, folder.path / name)
    for rendered in sets:
        copy_set(rendered, folder.path)


def _prepare_data(folder: DemoFolder, sets: Sequence[DemoSet]) -> None:
    folder.run(*([*OWN_COMMAND, "data", "prepare", *rendered.prepare] for rendered in sets))


def _evaluate(folder: DemoFolder, sets: Sequence[DemoSet]) -> None:
    models = {f"pretrained={name}": "scripted" for name in _SCRIPTED}
    models[f"pretrained={_CHECKPOINT},dtype=float32"] = "hf_vlm"
    tasks: list[str] = []
    scores: dict[str, str] = {}
    for rendered in sets:
        tasks += rendered.tasks
        scores |= rendered.scores
    folder.evaluate(models, tasks, RESULTS, scores)


def _write_report(folder: DemoFolder, _sets: Sequence[DemoSet]) -> None:
    folder.report()


_STEPS: dict[str, Callable[[DemoFolder, Sequence[DemoSet]], None]] = {
    "Make a tiny LLaVA and a sentence encoder with random weights": _make_models,
    "Copy rendered videos and images with questions, and the scripted models": _copy_files,
    "Prepare the data of all benchmarks (lmms-egoplan data prepare)": _prepare_data,
    "Ask the three models all questions, and score their answers (lmms-eval)": _evaluate,
    "Write the report (lmms-egoplan report)": _write_report,
}
"""Title and function of each step."""


def _print(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


@contextmanager
def serve_judge() -> Iterator[str]:
    """Serve the scripted judge until the context ends.

    Yields:
        The address, for ``LMMS_EGOPLAN_JUDGE_BASE_URL``.
    """
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def verdict_on(prompt: str) -> str:
    """Return the scripted verdict for a judge's prompt with this answer and reference."""
    lines = Counter(prompt.splitlines())
    for entry in _verdicts():
        wanted = Counter([entry["reference"], entry["answer"]])
        if wanted <= lines:
            return entry["verdict"]
    return _DEFAULT_REPLY


@cache
def _verdicts() -> list[dict[str, str]]:
    return json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))


class _Handler(BaseHTTPRequestHandler):
    """Answer requests for chat completions."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": verdict_on(request["messages"][-1]["content"])}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        completion = {
            "id": "demo",
            "object": "chat.completion",
            "created": 0,
            "model": MODEL,
            "choices": [choice],
        }
        body = json.dumps(completion).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
