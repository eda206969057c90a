"""The cases of `compare_outputs`: fixed commands and tests, whose outputs are stored.

A case runs in an empty folder, in its own process, with the package and the tests of one tree in
its path. What it stores must depend on the tree alone.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """A case.

    name: for ``--only``.
    title: what it runs, in a few words.
    tests: paths of tests to run and to record; without them, a function of `output_cases` runs.
    """

    name: str
    title: str
    tests: tuple[str, ...] = ()

    def arguments(self, root: Path) -> list[str]:
        """Return the arguments of the Python that runs the case."""
        if not self.tests:
            return ["-m", "output_cases.run", self.name]
        tree = root / "tree"
        return [
            *("-m", "pytest", "-n0", "-p", "output_cases.recorder", "-p", "no:cacheprovider"),
            *("--basetemp", str(root / "work" / "temporary"), "--rootdir", str(tree)),
            *("-c", str(tree / "pyproject.toml")),
            *(str(tree / test) for test in self.tests),
        ]


CASES = (
    Case("help", "help of all commands, and lists of the package"),
    Case("errors", "wrong options, names and files of all commands"),
    Case("demo", "the demo in lmms-eval, and commands that read its results"),
    Case("lm-eval", "the demo's questions in lm-eval, and their report"),
    Case("judges", "judges of the demo's questions, with scripted replies"),
    Case("sensitivity", "the sensitivity of a scripted model's score"),
    Case("annotation", "labels of the demo's steps and answers, and their export"),
    Case("training", "a small training run, its adapter and its exports"),
    Case("tests-annotation", "tests of the annotation page", ("tests/annotation",)),
    Case("tests-benchmarks", "tests of the benchmarks", ("tests/benchmarks",)),
    Case("tests-cli", "tests of commands", ("tests/cli", "tests/launch")),
    Case("tests-judging", "tests of judges", ("tests/judging",)),
    Case(
        "tests-making",
        "tests of construction, overlap, planner and training",
        ("tests/construction", "tests/overlap", "tests/planner", "tests/training"),
    ),
    Case("tests-report", "tests of reports", ("tests/report", "tests/sensitivity")),
)
