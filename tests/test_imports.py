"""Modules import at the top, except heavy or optional libraries, which help and lmms-eval's plugin
do not load. Commands import rooms inside their functions.
"""

import ast
import sys
from pathlib import Path

import pytest

import lmms_egoplan
from command_tree import COMMANDS, GROUPS
from loaded_modules import loaded_by

PACKAGE = Path(lmms_egoplan.__file__).parent
NEVER_FOR_HELP = {
    "torch",
    "transformers",
    "scipy",
    "matplotlib",
    "sentence_transformers",
    "lmms_eval",
    "lm_eval",
}
# Seconds to import, or absent in some installations.
HEAVY = NEVER_FOR_HELP | {
    *(
        "accelerate",
        "av",
        "datasets",
        "evaluate",
        "huggingface_hub",
        "joblib",
        "nltk",
        "openai",
        "pyarrow",
        "safetensors",
    ),
    *("sklearn", "tokenizers", "triton"),
    *(
        "farama_notifications",
        "fastapi",
        "gymnasium",
        "gymnasium_robotics",
        "mujoco",
        "peft",
        "uvicorn",
        "vllm",
    ),
}
ROOMS = ("egoplan", "egothink", "egointent", "actplan")
EXCEPTIONS = {
    # The command's entry point handles signals while other modules load.
    ("lmms_egoplan.__main__", "lmms_egoplan.cli"),
    # Only runs of judged tasks need a judge.
    ("lmms_egoplan.harnesses.lmms_eval.plugin", "lmms_egoplan.judging.probe"),
    # The plugin imports it at startup.
    ("lmms_egoplan.benchmarks.subset", "numpy"),
    # It loads asyncio.
    ("lmms_egoplan.files", "filelock"),
}
# They describe all benchmarks, and import their modules only when they are needed.
REGISTRIES = (
    "lmms_egoplan.benchmarks.base",
    "lmms_egoplan.report.benchmarks",
    "lmms_egoplan.report.judged",
)
# What modules of commands import at the top, besides the standard library.
LIGHT = {
    "typer",
    "typer.core",
    "lmms_egoplan",
    "lmms_egoplan.errors",
    "lmms_egoplan.files",
    "lmms_egoplan.judging.options",
    "lmms_egoplan.options",
    "lmms_egoplan.outputs",
    "lmms_egoplan.processes",
}
MODULES = {
    ".".join(("lmms_egoplan", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in PACKAGE.rglob("*.py")
    if "evaluate_metrics" not in path.parts
}


def imported(node):
    """Return the modules of an import statement.

    An imported name that is no module counts as its module.
    """
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    members = [f"{node.module}.{alias.name}" for alias in node.names]
    return list(dict.fromkeys(member if member in MODULES else node.module for member in members))


def imports_of(path):
    """Return the imports at a module's top, and those in its functions with their lines.

    Skip imports for types.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types, inside = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for_types |= set(ast.walk(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside |= set(ast.walk(node))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    top = [name for node in imports if node not in for_types | inside for name in imported(node)]
    return top, [
        (node.lineno, name) for node in imports if node in inside for name in imported(node)
    ]


def loads(name, heavy):
    """Return true if an import loads a heavy module. A module loads its parent packages, too."""
    parts = name.split(".")
    return parts[0] in HEAVY or not heavy.isdisjoint(
        ".".join(parts[: end + 1]) for end in range(len(parts))
    )


def test_functions_import_only_what_is_heavy_or_optional():
    """A module of the package is also heavy if it imports a heavy module at its top.

    Commands are the exception, see `test_commands_import_rooms_inside_their_functions`.
    """
    imports = {module: imports_of(path) for module, path in MODULES.items()}
    heavy, before = set(), None
    while heavy != before:
        before = set(heavy)
        heavy |= {
            module
            for module, (top, _) in imports.items()
            if any(loads(name, heavy) for name in top)
        }
    light = [
        f"{MODULES[module].relative_to(PACKAGE)}:{line}: {name}"
        for module, (_, inside) in imports.items()
        for line, name in inside
        if not module.startswith("lmms_egoplan.cli.")
        and not loads(name, heavy)
        and (module, name) not in EXCEPTIONS
        and module not in REGISTRIES
    ]
    assert light == []


def test_commands_import_rooms_inside_their_functions():
    """Help and completion load the modules of all commands."""
    rooms = []
    for path in sorted((PACKAGE / "cli").glob("*.py")):
        for name in imports_of(path)[0]:
            is_standard = name.partition(".")[0] in sys.stdlib_module_names
            if not is_standard and not name.startswith("lmms_egoplan.cli") and name not in LIGHT:
                rooms.append(f"{path.name}: {name}")
    assert rooms == []


def test_help_loads_nothing_heavy():
    """Neither the root's help, nor a group's, nor a command's."""
    code = """
from typer.testing import CliRunner
from lmms_egoplan.cli import app

for path in PATHS:
    assert CliRunner().invoke(app, [*path.split(), "--help"]).exit_code == 0, path
"""
    paths = ["", *GROUPS, *(path for path in COMMANDS if path != "lm-eval")]
    assert not NEVER_FOR_HELP & loaded_by(code.replace("PATHS", repr(paths)))


def test_what_commands_import_loads_little():
    assert not {"numpy", "pydantic", "rich", "yaml"} & loaded_by(f"import {', '.join(LIGHT)}")


@pytest.mark.parametrize("module", ["benchmarks.base", "harnesses.lmms_eval.plugin"])
def test_light_modules_load_nothing_heavy(module):
    assert not (HEAVY | {"numpy", "pandas", "PIL"}) & loaded_by(f"import lmms_egoplan.{module}")


def test_data_are_prepared_without_loading_libraries_in_advance():
    modules = [f"lmms_egoplan.benchmarks.{name}.prepare" for name in ROOMS]
    modules += [f"lmms_egoplan.report.{name}.prepared" for name in ROOMS]
    modules.append("lmms_egoplan.report.actplan.figure_4")
    loaded = loaded_by(f"import {', '.join(modules)}")
    assert (
        not {
            "torch",
            "transformers",
            "datasets",
            "av",
            "lmms_eval",
            "sklearn",
            "sentence_transformers",
        }
        & loaded
    )


def test_scores_are_recomputed_without_a_model():
    """Reports recompute scores. Libraries that rank and encode are loaded only with a model."""
    modules = [f"lmms_egoplan.benchmarks.{name}.metrics" for name in ROOMS]
    loaded = loaded_by(f"import lmms_egoplan.report.page, {', '.join(modules)}")
    assert not {"torch", "transformers", "sentence_transformers"} & loaded


def test_the_plugin_loads_nothing_heavy_before_the_harness_does():
    models = loaded_by("import lmms_eval.models; lmms_eval.models.get_model_manifest('hf_vlm')")
    assert "lmms_egoplan.harnesses.lmms_eval.plugin" in models
    assert not (HEAVY | {"numpy", "pandas", "PIL", "lmms_eval.tasks"}) - {"lmms_eval"} & models
