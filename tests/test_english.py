"""Our texts avoid the words in english.yaml: prose, docstrings, comments, messages and names."""

import ast
import io
import re
import tokenize
import warnings
from pathlib import Path

import pytest
import yaml

from test_prompts import FILES as PROMPTS

ROOT = Path(__file__).parents[1]
RULES = yaml.safe_load(Path(__file__).with_name("english.yaml").read_text(encoding="utf-8"))
PHRASES = {advice: re.compile(pattern, re.IGNORECASE) for advice, pattern in RULES["phrases"].items()}
ROOMS = ("lmms_egoplan", "tasks", "docs", "perf", "tests", "upstream", ".")
SUFFIXES = {".py", ".md", ".yaml", ".jinja", ".html"}
# Data, prompts, published tables, and files for the harnesses.
EXCLUDED = re.compile(
    r"lmms_egoplan/demo/data/|/published/|upstream/[^/]+/files/|tests/(test_english.py|english.yaml)$|[^/]*\.egg-info/|"
    + "|".join(re.escape(f"lmms_egoplan/{name}") for name in PROMPTS)
)
LONGEST_SENTENCE = 30


def files_of(room):
    """Names of a room's files with texts; "." means the files at the top."""
    paths = (ROOT / room).rglob("*") if room != "." else ROOT.glob("*")
    names = (path.relative_to(ROOT).as_posix() for path in sorted(paths) if path.suffix in SUFFIXES and path.is_file())
    return [name for name in names if not EXCLUDED.match(name) and not EXCLUDED.search(name)]


def without_code(text):
    """Drop code blocks, inline code and link targets of a page."""
    text = re.sub(
        r"^( *)```.*?^\1```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"``[^`]+``|`[^`\n]+(?:\n[^`\n]+)?`", lambda code: "\n" * code[0].count("\n") or "x", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def texts(source, suffix, nodes):
    """Yield (line, text, whether it is a docstring) for everything in a file that a person reads."""
    if suffix != ".py":
        yield 1, without_code(source) if suffix == ".md" else source, False
        return
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    owners = (node for node in nodes if isinstance(node, documented) and ast.get_docstring(node))
    docstrings = {id(node.body[0].value) for node in owners}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, without_code(node.value), id(node) in docstrings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], without_code(token.string), False


def names_in(nodes):
    """Yield (line, name) for every variable, parameter and function that a module defines."""
    for node in nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name


def findings(name):
    """Yield (line, problem, context) for a file, without regard to exceptions."""
    path = ROOT / name
    source = path.read_text(encoding="utf-8")
    nodes = [*ast.walk(ast.parse(source))] if path.suffix == ".py" else []
    for line, text, is_docstring in texts(source, path.suffix, nodes):
        for advice, phrase in PHRASES.items():
            for match in phrase.finditer(text):
                context = " ".join(text[max(0, match.start() - 40) : match.end() + 40].split())
                yield line + text[: match.start()].count("\n"), advice, context
        if is_docstring and text.split(maxsplit=1)[0] in RULES["first_words"]:
            yield line, "a docstring begins with an imperative or a noun", text[:60]
    for line, identifier in names_in(nodes):
        if identifier.strip("_") in RULES["names"]:
            yield line, "name it for what it contains", identifier


@pytest.mark.parametrize("room", ROOMS)
def test_texts_avoid_the_listed_words(room):
    problems = []
    for name in files_of(room):
        exceptions, used = RULES["exceptions"].get(name, {}), set()
        for line, problem, context in findings(name):
            allowed = [text for text in exceptions if text in context]
            used.update(allowed)
            if not allowed:
                problems.append(f"{name}:{line}: {problem}: {context}")
        problems += [f"{name}: nothing needs the exception {text!r}" for text in set(exceptions) - used]
    assert not problems, "\n".join(problems)


def test_long_sentences_are_reported():
    long = []
    for name in (name for room in ROOMS for name in files_of(room) if name.endswith(".md") and name != "CHANGELOG.md"):
        paragraphs = re.split(r"\n\s*\n|\n(?=\s*[*|#-])|\|", without_code((ROOT / name).read_text(encoding="utf-8")))
        for sentence in (part for text in paragraphs for part in re.split(r"(?<=[.!?:;])\s+", text)):
            words = [word for word in re.sub(r"{%.*?%}|{{.*?}}", "x", sentence).split() if word.strip(".,") != "x"]
            if len(words) > LONGEST_SENTENCE:
                long.append(f"{name}: {' '.join(sentence.split())[:80]}...")
    if long:
        warnings.warn(f"{len(long)} sentences have over {LONGEST_SENTENCE} words:\n" + "\n".join(long), stacklevel=1)
