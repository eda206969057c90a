"""The outputs in the tutorial and in the README are those of its commands."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "docs" / "outputs.py"
PAGE = """\
```bash
echo one; echo two
echo three
```

<!-- output from "two" until "three" -->
```text
old
```

<!-- not run -->
```bash
exit 1
```

<!-- output of "echo $A" -->
```text
```
"""


def test_outputs_are_put_into_their_blocks():
    script = runpy.run_path(str(SCRIPT))
    outputs = {"echo one; echo two\necho three": "one\ntwo\nthree", "echo $A": "a"}
    expected = PAGE.replace("old\n", "two\n").replace("```text\n```\n", "```text\na\n```\n")
    assert script["with_outputs"](PAGE, outputs) == expected
    with pytest.raises(ValueError, match="does not run 'echo \\$A'"):
        script["with_outputs"](PAGE, {"echo one; echo two\necho three": "two\nthree"})
    with pytest.raises(ValueError, match="no line of the output starts with 'two'"):
        script["with_outputs"](PAGE, {"echo one; echo two\necho three": "2"})


def test_blocks_share_a_shell():
    script = runpy.run_path(str(SCRIPT))
    page = "```bash\nexport A=1\n```\n<!-- not run -->\n```bash\nexit 1\n```\n"
    page += "```bash\necho $A $OPENAI_API_KEY $PWD/x /usr/bin/python3.12\n```\n"
    assert [*script["run_commands"](page).values()] == ["", "1 x python"]


@pytest.mark.nightly
def test_outputs_are_up_to_date():
    for path, text in runpy.run_path(str(SCRIPT))["pages"]().items():
        assert text == path.read_text(encoding="utf-8"), "run python docs/outputs.py"
