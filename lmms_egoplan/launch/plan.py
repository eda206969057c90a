"""Describe a run of a harness, and make its command line or script."""

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, StrictUndefined

from lmms_egoplan.benchmarks.base import PIXELS, stated_pixels
from lmms_egoplan.benchmarks.subset import SUBSET
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.backends import Backend, find_backend
from lmms_egoplan.launch.tasks import Task, leaf_tasks
from lmms_egoplan.paths import LM_EVAL_TASKS

Harness = Literal["lmms-eval", "lm-eval"]
Launcher = Literal["none", "torchrun", "accelerate", "vllm", "slurm"]

DEFAULT_BACKENDS = {"lmms-eval": "hf_vlm", "lm-eval": "hf-vlm-ranker"}
VLLM_BACKENDS = {"lmms-eval": "vllm_ranker", "lm-eval": "vllm-vlm-ranker"}
_MODULES = {"lmms-eval": ["lmms_eval"], "lm-eval": ["lmms_egoplan", "lm-eval"]}
CACHE = {"lmms-eval": "cache", "lm-eval": "cache/answers"}
"""Value of ``--use_cache``, relative to the run's folder."""
# A comma before the next name, since values may be JSON.
_COMMA = re.compile(r",\s*(?=[A-Za-z_]\w*=)")
_SCRIPT = Path(__file__).with_name("script.sh.jinja")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run of one model in one harness.

    Attributes:
        model: Checkpoint, or name of the model at an API.
        backend_name: Value of ``--model``.
        model_args: Arguments of ``--model_args``, except the model.
        harness: ``lmms-eval`` or ``lm-eval``.
        tasks: Values of ``--tasks``.
        limit: Maximum number of questions per task; None for all.
        launcher: How to start several processes.
        processes: Number of processes or GPUs per node.
        nodes: Number of nodes.
        options: Further options for the harness.
        out: Folder of the run.
        owner: The command that owns this folder.
        protocol: Name of the preset that the tasks follow; None for the tasks' own protocols.
        subset: Value of `SUBSET`; "" for all questions. It does not determine the answers, so it is
            not a setting.
        limits: Variables that limit the requests to judges. They do not determine the answers,
            either.
    """

    model: str
    backend_name: str
    model_args: Mapping[str, str]
    harness: Harness
    tasks: Sequence[str]
    limit: int | None = None
    launcher: Launcher = "none"
    processes: int = 1
    nodes: int = 1
    options: Sequence[str] = ()
    out: Path
    owner: str = "run"
    protocol: str | None = None
    subset: str = ""
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """Folder of the harness's results."""
        return self.out / "results"

    @property
    def script(self) -> Path | None:
        """Path of the script that starts the run; None if the run starts here."""
        if self.launcher == "slurm":
            return self.out / "run.sbatch"
        return self.out / "run.sh" if self.nodes > 1 else None

    @cached_property
    def backend(self) -> Backend:
        """The backend.

        Raises:
            LmmsEgoplanError: The harness has no such backend.
        """
        return find_backend(self.harness, self.backend_name)

    @cached_property
    def leaves(self) -> dict[str, Task]:
        """The tasks that ask questions, by name."""
        return leaf_tasks(self.harness, self.tasks)

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine the answers.

        An earlier run in the same folder must have the same ones.
        """
        return {
            "model": self.model,
            "backend_name": self.backend_name,
            "harness": self.harness,
            "limit": self.limit,
            "protocol": self.protocol,
            "model_args": {**self.model_args},
            "options": [*self.options],
        }

    def command(self) -> list[str]:
        """Return the command that runs the harness here."""
        command = [sys.executable]
        if self.launcher == "torchrun":
            command += ["-m", "torch.distributed.run"]
            command += ["--standalone", f"--nproc_per_node={self.processes}"]
        elif self.launcher == "accelerate":
            command += ["-m", "accelerate.commands.launch", f"--num_processes={self.processes}"]
        return [*command, "-m", *_MODULES[self.harness], *self.arguments()]

    def arguments(self) -> list[str]:
        """Return the harness's arguments."""
        arguments = {self.backend.model_parameter: self.model, **self.model_args}
        if self.launcher == "vllm":
            arguments = {"tensor_parallel_size": str(self.processes)} | arguments
            if self.nodes > 1:
                arguments |= {
                    "pipeline_parallel_size": str(self.nodes),
                    "distributed_executor_backend": "ray",
                }
        words = ["--model", self.backend_name]
        words += ["--model_args", ",".join(f"{name}={value}" for name, value in arguments.items())]
        words += ["--tasks", ",".join(self.tasks)]
        if self.harness == "lm-eval":
            words += ["--include_path", str(LM_EVAL_TASKS), "--apply_chat_template"]
        cache = self.out / CACHE[self.harness]
        words += ["--output_path", str(self.results), "--log_samples", "--use_cache", str(cache)]
        if self.limit is not None:
            words += ["--limit", str(self.limit)]
        return [*words, *self.options]

    def environment(self) -> dict[str, str]:
        """Return variables for the harness.

        One of them is an ID that lets lmms-eval resume its own backends, too.
        """
        variables = {}
        if self.protocol and stated_pixels(self.protocol):
            variables[PIXELS] = self.protocol
        if self.subset:
            variables[SUBSET] = self.subset
        variables |= self.limits
        if not self.backend.is_ours:
            settings = json.dumps(self.settings(), sort_keys=True)
            digest = hashlib.sha256(settings.encode()).hexdigest()
            variables["LMMS_CACHE_RUN_ID"] = f"run-{digest[:16]}"
        return variables

    def render_command(self) -> str:
        """Return the line that starts the run in a shell."""
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        return shlex.join([*variables, *self.command()]) + "\n"

    def render_script(self) -> str:
        """Return the script for several nodes or Slurm."""
        environment = Environment(
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        template = environment.from_string(_SCRIPT.read_text(encoding="utf-8"))
        return template.render(
            plan=self,
            variables={name: shlex.quote(value) for name, value in self.environment().items()},
            arguments=shlex.join([*_MODULES[self.harness], *self.arguments()]),
            log=_quoted(self.out / "slurm-%j.log"),
            results=_quoted(self.results),
            report=_quoted(self.out / "report"),
            python=shlex.quote(sys.executable),
            folder=_quoted(Path.cwd()),
        )


def _quoted(path: Path) -> str:
    """Return a path as a word of a shell script."""
    return shlex.quote(str(path))


def read_arguments(text: str) -> dict[str, str]:
    """Split ``name=value,name=value``, as in ``--model_args``.

    Raises:
        LmmsEgoplanError: A part has no name or no ``=``.
    """
    arguments = {}
    for part in _COMMA.split(text.strip(" ,")):
        if not part:
            continue
        argument = part.strip()
        name, equals_sign, value = argument.partition("=")
        if not name or not equals_sign:
            raise LmmsEgoplanError(f"--model-args {argument}: expected name=value,name=value")
        arguments[name] = value
    return arguments
