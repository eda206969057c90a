"""Results of two models, those of one in several folders, as from several machines.

    folders = write_machines(tmp_path)  # three folders; the first two are of one model

The weights are recorded as by this package's backends.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.egoplan.synthetic import egoplan_answers
from benchmarks.egothink.synthetic import egothink_bench
from report.answers import Answers
from report.synthetic import write_run

ONE = "1" * 64
TWO = "2" * 64
QUESTIONS = {"egoplan": 120, "egothink": 3}
"""Number of questions of `write_machines`, as for `prepare_data`."""
NAMES = ("Model-7B", "Other-7B")
"""Names of the two models in a table of the runs of `write_machines`."""


def write_job(
    folder: Path,
    tasks: Mapping[str, Answers],
    *,
    weights: str = ONE,
    model: str = "org/Model-7B",
    arguments: Mapping[str, str] | None = None,
    harness: str = "lmms-eval",
    time: str | None = None,
    record: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Path:
    """Write the results of one job with recorded weights, and return the results file.

    Args:
        weights: digest of the weights.
        arguments: arguments of the model, except its name.
        time: see `write_run`.
        record: further parts of the record's ``model``, or other ones of the record.
        config: further entries of the harness's configuration.
    """
    path = write_run(folder, harness, model, tasks, time)
    content = json.loads(path.read_text(encoding="utf-8"))
    content["record"] = {
        "processor": {"chat_template_sha256": "c" * 64},
        "model": {
            "class": "LlavaForConditionalGeneration",
            "dtype": "torch.bfloat16",
            "quantisation": "none",
            "weights": weights,
            "adapter": "none",
            "configuration": "f" * 64,
        },
        "pixels": {"image": "no known limits in pixels"},
        "tasks": {},
    }
    for name, value in (record or {}).items():
        part = content["record"] if name in content["record"] else content["record"]["model"]
        part[name] = value
    chosen = {"pretrained": model, **(arguments or {})}
    if harness == "lmms-eval":
        content["config"]["model_args"] = ",".join(f"{name}={x}" for name, x in chosen.items())
    else:
        content["config"]["model_args"] = chosen
    content["config"] |= config or {}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def write_machines(folder: Path) -> list[Path]:
    """Write the runs of two models, and return their folders.

    The first model answered EgoPlan on one machine, and EgoThink on another one: from another
    folder, on another device and in other batches. EgoThink was interrupted after some dimensions
    and run again, so that the folder has two results files. The second model answered both, in one
    run, from a folder with the first one's name.
    """
    egothink = egothink_bench(QUESTIONS["egothink"], 0.7, 1)
    others_egothink = egothink_bench(QUESTIONS["egothink"], 0.4, 2)
    before = {task: egothink[task] for task in list(egothink)[:5]}
    write_job(
        folder / "desk",
        {"egoplan_val": egoplan_answers(QUESTIONS["egoplan"], 0.6, 1)},
        arguments={"device": "cuda:0", "batch_size": "1"},
        time="20260101_120000",
    )
    cluster = {
        "model": "/scratch/models/Model-7B",
        "arguments": {"device_map": "auto", "attn_implementation": "flash_attention_2"},
        "config": {"batch_size": "64"},
    }
    write_job(folder / "cluster", before, **cluster, time="20260102_120000")
    write_job(folder / "cluster", egothink, **cluster, time="20260103_120000")
    write_job(
        folder / "other",
        {"egoplan_val": egoplan_answers(QUESTIONS["egoplan"], 0.3, 2), **others_egothink},
        weights=TWO,
        model="org/Other-7B",
        time="20260104_120000",
    )
    return [folder / "desk", folder / "cluster", folder / "other"]
