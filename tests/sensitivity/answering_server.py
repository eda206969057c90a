"""An OpenAI-compatible server whose replies are a function of the prompt, and questions to ask it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from judge_server import JudgeServer, Reply


def answering(reply: Callable[[str], str]) -> JudgeServer:
    """Return a server that replies with ``reply(prompt)``. Use it as a context manager."""
    return JudgeServer(lambda prompt, _: Reply(reply(prompt)))


def arguments_of(server: JudgeServer, *, concurrency: int = 4) -> list[str]:
    """Return the options of ``lmms-egoplan sensitivity`` that ask a server."""
    settings = f"base_url={server.url},max_retries=1,num_cpus={concurrency}"
    return ["--backend", "async_openai", "--model-args", settings]


def command(data: Path, *arguments: str | Path) -> dict:
    """Return the arguments of `subprocess` for ``lmms-egoplan sensitivity``, with prepared questions in `data`."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(("LMMS_", "OPENAI"))}
    settings = {"LMMS_EGOPLAN_DATA": str(data), "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    return {
        "args": [sys.executable, "-m", "lmms_egoplan", "sensitivity", *map(str, arguments)],
        **{"cwd": data, "env": inherited | settings, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
    }


def sensitivity(data: Path, *arguments: str | Path) -> subprocess.CompletedProcess:
    return subprocess.run(**command(data, *arguments), timeout=600, check=False)
