"""Run the demo: write its files to a folder, run lmms-eval on them and write the report, as a user
would.
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

from lmms_egoplan.demo import DATA, DemoSet
from lmms_egoplan.demo.checkpoint import write_checkpoint, write_encoder
from lmms_egoplan.demo.folder import LOG, OWN_COMMAND, RESULTS, DemoFolder
from lmms_egoplan.demo.sets import copy_set
from lmms_egoplan.paths import module_yaml

_CHECKPOINT, _ENCODER = "random-weights", "encoder"
_SCRIPTED = ("scripted-good", "scripted-poor")
_TEXTS = module_yaml(__file__)
MODEL = "scripted-judge"
# It contains the lowest rating on each benchmark's scale.
_DEFAULT_REPLY = (
    "The demo has no verdict on this answer: no scripted model gives it.\nRating: [[0]]\n[[0]]"
)


def run_demo(
    out: Path, console: Console, sets: Sequence[DemoSet], show_scores: Callable[[Path], None]
) -> None:
    """Copy the rendered sets, run a tiny random LLaVA and both scripted models on them, and write
    the report.

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
        folder = DemoFolder(out, contents, console, _TEXTS["steps"], **environment)
        _print(console, _TEXTS["note"])
        with folder.status:
            folder.begin_step()
            write_checkpoint(folder.path / _CHECKPOINT)
            write_encoder(folder.path / _ENCODER)
            folder.begin_step()
            for name in _SCRIPTED:
                shutil.copytree(DATA / name, folder.path / name)
            for rendered in sets:
                copy_set(rendered, folder.path)
            folder.begin_step()
            folder.run(*([*OWN_COMMAND, "data", "prepare", *rendered.prepare] for rendered in sets))
            folder.begin_step()
            models = {f"pretrained={name}": "scripted" for name in _SCRIPTED}
            models[f"pretrained={_CHECKPOINT},dtype=float32"] = "hf_vlm"
            tasks = [task for rendered in sets for task in rendered.tasks]
            scores = {task: metric for rendered in sets for task, metric in rendered.scores.items()}
            folder.evaluate(models, tasks, RESULTS, scores)
            folder.begin_step()
            page = folder.report()
            folder.begin_step()
    show_scores(folder.path / RESULTS)
    _print(console, _TEXTS["end"].format(page=page, folder=folder.path, log=LOG))


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
        if Counter([entry["reference"], entry["answer"]]) <= lines:
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
