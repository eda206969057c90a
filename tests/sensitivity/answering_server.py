"""An OpenAI-compatible server whose replies depend on the prompt only, and questions to ask it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from click.testing import Result
from typer.testing import CliRunner

from judge_server import JudgeServer, Reply
from lmms_egoplan.cli import app


def answering(reply: Callable[[str], str]) -> JudgeServer:
    """Return a server that replies with ``reply(prompt)``. Use it as a context manager."""
    return JudgeServer(lambda prompt, _: Reply(reply(prompt)))


def arguments_of(server: JudgeServer, *, concurrency: int = 4) -> list[str]:
    """Return the options of ``lmms-egoplan sensitivity`` that ask a server."""
    settings = f"base_url={server.url},max_retries=1,num_cpus={concurrency}"
    return ["--backend", "async_openai", "--model-args", settings]


def command(data: Path, *arguments: str | Path) -> dict:
    """Return the arguments of `subprocess` for ``lmms-egoplan sensitivity``, with prepared
    questions in `data`.
    """
    inherited = {
        name: text for name, text in os.environ.items() if not name.startswith(("LMMS_", "OPENAI"))
    }
    settings = {
        "LMMS_EGOPLAN_DATA": str(data),
        "OPENAI_API_KEY": "none",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return {
        "args": [sys.executable, "-m", "lmms_egoplan", "sensitivity", *map(str, arguments)],
        **{
            "cwd": data,
            "env": inherited | settings,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
        },
    }


def sensitivity(*arguments: str | Path) -> Result:
    """Run ``lmms-egoplan sensitivity`` in this process. ``LMMS_EGOPLAN_DATA`` must be set."""
    return CliRunner().invoke(app, ["sensitivity", *map(str, arguments)])
