"""Check what a run needs from this machine: accelerator, packages, keys and a writable cache."""

import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import constants

from lmms_egoplan.launch.plan import Plan

# Attention of transformers, and for some the package that has it and its name on PyPI.
_ATTENTION = {
    "eager": None,
    "sdpa": None,
    "flex_attention": None,
    "flash_attention_2": ("flash_attn", "flash-attn"),
    "flash_attention_3": ("flash_attn_interface", "kernels"),
    "flash_attention_4": ("flash_attn", "flash-attn-4"),
}
# transformers takes attention that is not installed from the hub, with this package.
_KERNELS = "kernels"
# Devices of NVIDIA's and AMD's drivers.
_GPUS = ("/dev/nvidia0", "/dev/kfd")


def machine_problems(plan: Plan) -> Iterator[str]:
    """Yield a line for each problem with the device, the attention, the key and the cache."""
    if plan.backend.is_local and "base_url" not in plan.model_args:
        if plan.script is None:
            yield from _device(plan)
        if plan.backend.is_ours:
            yield from _attention(plan)
    yield from _key(plan)
    yield from _cache()


def _device(plan: Plan) -> Iterator[str]:
    """Compare the device with the GPUs of this machine."""
    device = str(plan.model_args.get("device", ""))
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return
    gpus = len(gpu_memory())
    remedy = "set --model-args device=cpu, or omit it"
    if number and not number.isdecimal():
        yield f"--model-args device={device}: expected cuda or cuda:NUMBER"
    elif gpus and number and int(number) >= gpus:
        yield f"--model-args device={device}: this machine has {gpus} visible GPUs, from cuda:0"
    elif not gpus and not _may_have_gpu():
        yield f"--model-args device={device}: this machine has no visible GPU; {remedy}"


def _may_have_gpu() -> bool:
    """Return whether a driver's device exists although ``nvidia-smi`` lists no GPU."""
    is_hidden = os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    return not is_hidden and any(Path(path).exists() for path in _GPUS)


def _attention(plan: Plan) -> Iterator[str]:
    """Check the name of the attention, and that its package is installed."""
    name = plan.model_args.get("attn_implementation")
    if name is None or "/" in name or "|" in name:  # a kernel on the hub
        return
    argument = f"--model-args attn_implementation={name}"
    if name not in _ATTENTION:
        yield f"{argument}: must be one of {', '.join(_ATTENTION)}, or a kernel on the hub"
        return
    package = _ATTENTION[name]
    if package is None or any(_is_installed(module) for module in (package[0], _KERNELS)):
        return
    yield f"{argument}: not installed; use sdpa, or install it: pip install {package[1]}"


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _key(plan: Plan) -> Iterator[str]:
    """Check that the variable with the key of an API is set."""
    variable = plan.backend.key_variable
    if variable is None or os.environ.get(variable):
        return
    # Azure and Vertex AI have other keys.
    words = [*plan.model_args, os.environ.get("API_TYPE", "")]
    if any("azure" in word or "vertex" in word for word in words):
        return
    line = f"--backend {plan.backend_name}: no key; set {variable}"
    if "base_url" in plan.model_args:
        line += ", to any text if the server needs none"
    yield line


def _cache() -> Iterator[str]:
    """Check that the harness can write to the cache of datasets."""
    folder = Path(os.environ.get("HF_DATASETS_CACHE", Path(constants.HF_HOME, "datasets")))
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except RuntimeError:
        yield f"{folder}: HOME is not set, and the user has no home folder; set HF_HOME"
    except OSError as error:
        yield (
            f"{folder}: the harness cannot write there ({error.strerror}); set HF_DATASETS_CACHE "
            "to another folder, or HF_HOME for all caches of the hub"
        )


def gpu_memory() -> list[int]:
    """Return the free memory of each visible GPU in bytes; [] without a GPU.

    This runs ``nvidia-smi``.
    """
    query = ["nvidia-smi", "--query-gpu=index,uuid,memory.free", "--format=csv,noheader,nounits"]
    try:
        output = subprocess.run(
            query, capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names: tuple[str, ...] = ()
    if visible is not None:
        names = tuple(name.strip() for name in visible.split(",") if name.strip())
    free_bytes = []
    for line in output.splitlines():
        index, uuid, free = re.split(r"\s*,\s*", line.strip())
        if visible is None or index in names or uuid.startswith(names):
            free_bytes.append(int(free) * 2**20)
    return free_bytes
