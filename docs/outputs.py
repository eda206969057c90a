"""Write the outputs of commands into the tutorial and the README.

Run it with `python docs/outputs.py`. It takes a few minutes.

The script runs all `bash` blocks of tutorial.md in one shell, in an empty folder, except those
after the comment `<!-- not run -->`. A block after one of these comments gets an output:

    <!-- output -->                          all of the command above the comment
    <!-- output from "EgoPlan" -->           from the line that starts so
    <!-- output until "Report" -->           up to the line before the one that starts so
    <!-- output of "lmms-egoplan demo" -->   of a command of the tutorial, wherever it is
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
README = ROOT / "README.md"
# Characters per line of the outputs.
WIDTH = 100

_COMMANDS = re.compile(
    r"""
    (?P<not_run>^<!--\ not\ run\ -->\n+)?
    ^```bash\n
    (?P<code>.*?)
    ^```$
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
_OUTPUT = re.compile(
    r"""
    (?P<head>
        ^<!--\ output
        (?:\ of\ "(?P<command>[^"]+)")?
        (?:\ from\ "(?P<first>[^"]+)")?
        (?:\ until\ "(?P<end>[^"]+)")?
        \ -->\n+
        ^```\w+\n
    )
    (?:.*?\n)??
    (?P<tail>^```$)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
# Settings of the user, which would change the outputs.
_USERS_PREFIXES = ("LMMS_EGOPLAN_", "OPENAI_", "AZURE_")
_INTERPRETER = re.compile(r"\S+/bin/python[\d.]*")
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?")


def pages() -> dict[Path, str]:
    """Run the tutorial's commands, and return both pages with their outputs.

    Raises:
        subprocess.CalledProcessError: A command failed. Its messages are on standard error.
        ValueError: A comment names a command or a line that does not exist.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in (TUTORIAL, README)}
    outputs = run_commands(texts[TUTORIAL])
    return {path: with_outputs(text, outputs) for path, text in texts.items()}


def run_commands(tutorial: str) -> dict[str, str]:
    """Run the tutorial's commands in an empty folder; return the output of each block of code."""
    codes = []
    for match in _COMMANDS.finditer(tutorial):
        if not match["not_run"]:
            codes.append(match["code"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        work = folder / "work"
        work.mkdir()
        # Braces, not a subshell: later blocks need the variables of earlier ones.
        script = ["set -e"]
        for number, code in enumerate(codes):
            script.append(f"{{\n{code}}} > {folder / str(number)}")
        subprocess.run(["bash", "-c", "\n".join(script)], cwd=work, env=environment(), check=True)
        outputs = {}
        for number, code in enumerate(codes):
            text = (folder / str(number)).read_text(encoding="utf-8")
            outputs[code.strip()] = normalized(text, work)
    return outputs


def environment() -> dict[str, str]:
    """Return the variables for the commands: a new user's, and no network."""
    variables = {}
    for name, value in os.environ.items():
        if not name.startswith(_USERS_PREFIXES):
            variables[name] = value
    programs = Path(sys.executable).parent
    return variables | {
        "COLUMNS": str(WIDTH),
        "HF_HUB_OFFLINE": "1",
        "PATH": f"{programs}{os.pathsep}{variables['PATH']}",
    }


def normalized(text: str, folder: Path) -> str:
    """Replace what differs between machines and times: paths, interpreter, times."""
    text = text.replace(f"{folder}/", "")
    text = _INTERPRETER.sub("python", text)
    text = _TIME.sub("2026-12-01 12:00", text)
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def with_outputs(page: str, outputs: Mapping[str, str]) -> str:
    """Return a page with its output blocks replaced.

    Args:
        page: The page.
        outputs: Outputs by code.

    Raises:
        ValueError: A comment names a command or a line that does not exist.
    """

    def replaced(match: re.Match[str]) -> str:
        command = match["command"]
        if command is None:
            command = [*_COMMANDS.finditer(page, 0, match.start())][-1]["code"].strip()
        if command not in outputs:
            raise ValueError(f"{match['head']}: the tutorial does not run {command!r}")
        text = extract(outputs[command], match["first"], match["end"])
        return f"{match['head']}{text}\n{match['tail']}"

    return _OUTPUT.sub(replaced, page)


def extract(text: str, first: str | None, end: str | None) -> str:
    """Return the lines from the one that starts with `first` to the one before `end`.

    Raises:
        ValueError: No line starts so.
    """
    lines = text.splitlines()
    if first is not None:
        lines = lines[_position(lines, first) :]
    if end is not None:
        lines = lines[: _position(lines, end)]
    return "\n".join(lines).strip("\n")


def _position(lines: list[str], start: str) -> int:
    for position, line in enumerate(lines):
        if line.startswith(start):
            return position
    raise ValueError(f"no line of the output starts with {start!r}:\n" + "\n".join(lines))


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
