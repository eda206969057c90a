"""Look up a harness's backends and their arguments in source files.

No model class is imported.
"""

import ast
import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.command import RANKERS


@dataclass(frozen=True)
class _OwnBackend:
    """One of this package's backends.

    Attributes:
        path: Module and class.
        further: Classes in the same module whose parameters are arguments, too.
        is_open: Whether it accepts further arguments; None if its signature says it.
    """

    path: str
    further: tuple[str, ...] = ()
    is_open: bool | None = None


_OWN = {
    "lmms-eval": {
        "hf_vlm": _OwnBackend(
            "lmms_egoplan.harnesses.lmms_eval.hf_vlm:HFVLM", further=("Arguments",), is_open=False
        ),
        "vllm_ranker": _OwnBackend(
            "lmms_egoplan.harnesses.lmms_eval.vllm_ranker:VLLMRanker", is_open=True
        ),
        "llava": _OwnBackend("lmms_egoplan.harnesses.lmms_eval.llava:Llava"),
        "scripted": _OwnBackend("lmms_egoplan.harnesses.lmms_eval.scripted:Scripted"),
    },
    "lm-eval": {name: _OwnBackend(path, is_open=True) for name, path in RANKERS.items()},
}
# Parameters for the checkpoint or the model's name, in the order of preference.
_MODEL_PARAMETERS = ("pretrained", "model", "model_version", "model_name")
# The harnesses pass these to every backend.
_COMMON = frozenset(("batch_size", "max_batch_size", "device"))


@dataclass(frozen=True)
class Backend:
    """A harness's backend.

    Attributes:
        name: Value of ``--model``.
        model_parameter: Argument for the checkpoint or the model's name.
        parameters: Names of all known arguments.
        is_open: Whether it may accept further arguments.
        ranks: Whether it scores continuations after images.
        is_ours: Whether it belongs to this package. Then its answers are stored one by one.
        needs_vllm: Whether it needs vLLM, unless a server answers.
    """

    name: str
    model_parameter: str
    parameters: frozenset[str]
    is_open: bool
    ranks: bool
    is_ours: bool
    needs_vllm: bool

    @property
    def is_local(self) -> bool:
        """True if the backend loads a checkpoint, unless a server answers."""
        return self.needs_vllm or self.model_parameter == "pretrained"


def find_backend(harness: str, name: str) -> Backend:
    """Return a backend of ``lmms-eval`` or ``lm-eval``.

    Raises:
        LmmsEgoplanError: There is no such backend. The message suggests similar names.
    """
    paths = _class_paths(harness)
    if name not in paths:
        plugins = {entry.name for entry in entry_points(group="lmms_eval.models")} - {
            "lmms_egoplan"
        }
        if plugins and harness == "lmms-eval":
            return Backend(
                name,
                "pretrained",
                parameters=frozenset(),
                is_open=True,
                ranks=True,
                is_ours=False,
                needs_vllm=False,
            )
        near = get_close_matches(name, paths, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"see the backends of {harness}"
        raise LmmsEgoplanError(f"--backend {name}: {harness} has no such backend; {hint}")
    module, _, class_name = paths[name].rpartition(":")
    names, is_open = _parameters(module, class_name)
    own = _OWN[harness].get(name)
    if own is None:
        is_simple = harness == "lmms-eval" and ".simple." in module
        ranks = is_simple and _ranks(module, class_name)
    else:
        ranks = True
        for further in own.further:
            names |= _parameters(module, further)[0]
        if own.is_open is not None:
            is_open = own.is_open
    return Backend(
        name,
        next((parameter for parameter in _MODEL_PARAMETERS if parameter in names), "pretrained"),
        frozenset(names | _COMMON),
        is_open,
        ranks=ranks,
        is_ours=own is not None,
        needs_vllm="vllm" in name,
    )


@cache
def literal(module: str, variable: str) -> Any:
    """Return a variable of an installed module that is a literal, without importing the module.

    Raises:
        LmmsEgoplanError: The module has no such variable.
    """
    for node in _tree(module).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and target.id == variable
            and isinstance(node, ast.Assign | ast.AnnAssign)
        ):
            value = node.value
            if isinstance(value, ast.Call):  # OrderedDict([...])
                value = value.args[0]
            return ast.literal_eval(value)  # type: ignore[arg-type]
    raise LmmsEgoplanError(
        f"{module} has no {variable}; install a version of the package that this one supports"
    )


def _class_paths(harness: str) -> dict[str, str]:
    """Return the class of each backend, as ``module:class``."""
    if harness == "lm-eval":
        return literal("lm_eval.models", "MODEL_MAPPING") | RANKERS
    kinds = {"simple": "AVAILABLE_SIMPLE_MODELS", "chat": "AVAILABLE_CHAT_TEMPLATE_MODELS"}
    paths = {}
    for kind, variable in kinds.items():
        for name, class_name in literal("lmms_eval.models", variable).items():
            paths[name] = f"lmms_eval.models.{kind}.{name}:{class_name}"
    aliased: dict[str, str] = {}
    for name, aliases in literal("lmms_eval.models", "MODEL_ALIASES").items():
        if name in paths:
            aliased |= dict.fromkeys(aliases, paths[name])
    own = {name: backend.path for name, backend in _OWN[harness].items()}
    return paths | aliased | own


@cache
def _tree(module: str) -> ast.Module:
    """Parse a module's source file."""
    package, *parts = module.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise LmmsEgoplanError(f"{package.replace('_', '-')} is not installed")
    path = Path(spec.origin).parent.joinpath(*parts)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _class(module: str, name: str) -> ast.ClassDef | None:
    """Return a class's definition.

    None if the module or the class does not exist under this name.
    """
    with suppress(OSError):
        for node in _tree(module).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
    return None


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    for line in node.body:
        if isinstance(line, ast.FunctionDef) and line.name == name:
            return line
    return None


def _parameters(module: str, class_name: str) -> tuple[set[str], bool]:
    """Return the parameters of a class, and whether it may accept more.

    A dataclass's parameters are its fields.
    """
    node = _class(module, class_name)
    if node is None:
        return set(), True
    if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
        fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
        return {ast.unparse(field.target) for field in fields}, False
    init = _method(node, "__init__")
    if init is None:
        names = set()
        is_open = False
        passes_on = True
    else:
        arguments = [*init.args.args, *init.args.kwonlyargs]
        names = {argument.arg for argument in arguments}
        is_open = init.args.kwarg is not None
        passes_on = is_open
    if passes_on:
        for parent in _parents(module, node):
            inherited, is_parent_open = _parameters(*parent)
            names |= inherited
            is_open |= is_parent_open
    return names - {"self"}, is_open


def _ranks(module: str, class_name: str) -> bool:
    """Return whether a class has a method ``loglikelihood`` that works.

    The method may be a parent's. It does not work if all it does is raise an error.
    """
    node = _class(module, class_name)
    if node is None:
        return False
    method = _method(node, "loglikelihood")
    if method is None:
        return any(_ranks(*parent) for parent in _parents(module, node))
    return not any(isinstance(line, ast.Raise | ast.Assert) for line in method.body[:2])


def _parents(module: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield module and name of the parent classes whose sources are known.

    These are in the same module, this package or a harness.
    """
    imported = {}
    for line in ast.walk(_tree(module)):
        if isinstance(line, ast.ImportFrom):
            for alias in line.names:
                imported[alias.asname or alias.name] = (line.module or "", alias.name)
    for base in map(ast.unparse, node.bases):
        parent = (module, base) if _class(module, base) else imported.get(base, ("", base))
        if parent[0].partition(".")[0] in ("lmms_egoplan", "lmms_eval", "lm_eval"):
            yield parent
