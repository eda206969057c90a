"""Count lines of code per room of the package and in the tests, without comments, docstrings and blank lines.

python perf/code_lines.py
"""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING),
    tokenize.ENDMARKER,
}


def code_lines(path: Path) -> int:
    """Count the lines of a file that contain code."""
    source = path.read_bytes()
    tokens = tokenize.tokenize(io.BytesIO(source).readline)
    lines = {line for token in tokens if token.type not in NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            lines -= set(range(docstring.lineno, docstring.end_lineno + 1))
    return len(lines)


def room_of(path: Path) -> str:
    """Return the room of a module: its top-level folder, or the benchmark's folder below ``benchmarks``."""
    folders = path.relative_to(ROOT / "lmms_egoplan").parts[:-1]
    return "/".join(folders[: 2 if folders[:1] == ("benchmarks",) else 1]) or "top level"


def main() -> None:
    """Print a row per room, the sum, and the tests."""
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in (ROOT / "lmms_egoplan").rglob("*.py"):
        files[room_of(path)] += 1
        lines[room_of(path)] += code_lines(path)
    tests = [*(ROOT / "tests").rglob("*.py")]
    rows = [(room, files[room], lines[room]) for room in sorted(files)]
    rows += [("package", files.total(), lines.total()), ("tests", len(tests), sum(map(code_lines, tests)))]
    for name, count, total in rows:
        print(f"{name:24}{count:5} files{total:8,} lines")


if __name__ == "__main__":
    main()
