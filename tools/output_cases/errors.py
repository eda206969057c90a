"""Wrong options, names and files: one message for each."""

from pathlib import Path

from output_cases.commands import Commands
from output_cases.inputs import prepare_sets
from output_cases.store import store_text

# No judge answers there, and none is asked.
_JUDGE = {
    "LMMS_EGOPLAN_JUDGE_BASE_URL": "http://127.0.0.1:9/v1",
    "LMMS_EGOPLAN_JUDGE_MODEL": "org/judge",
}

# Contents of files in the place of JSON, JSON Lines, CSV or YAML.
_CONTENTS = {
    "empty": b"",
    "null": b"null",
    "number": b"12",
    "list": b"[1, 2]\n",
    "object": b'{"a": 1}\n',
    "text": b"one two\n",
    "broken": b'{"id": "existence/1", "answer": \n{"id"\n',
    "latin": b'{"id": "caf\xe9"}\n',
    "nan": b'{"id": "existence/1", "answer": NaN}\n',
    "twice": b'{"id": "existence/1", "answer": "a"}\n{"id": "existence/1", "answer": "b"}\n',
    "unknown": b'{"id": "nowhere/1", "answer": "a"}\n',
    "table": b"id,person\nexistence/1,0.7\nexistence/1,x\n",
    "rated": b'{"id": "existence/1", "answer": "a", "rating": 7}\n',
    "plan": b'{"id": "a", "candidate": 3, "references": []}\n',
    "step": b'{"step_id": "s", "answer": null}\n',
}
# Commands that read the file {file} and would write to {out}.
_READERS = (
    "show {file}",
    "report {file} --out {out}",
    "compare {file} {file}",
    "judge egothink {file} --out {out} --estimate",
    "judge egointent {file} --out {out} --estimate",
    "judge actplan {file} --out {out} --estimate",
    "judge egoplan {file} --out {out} --estimate",
    "agreement egothink {file} rated.jsonl --human {file} --out {out}",
    "agreement egothink {file} rated.jsonl",
    "score actplan {file} --out {out}",
    "submit egoplan {file} --out {out}",
    "data list egoplan {file} --out {out}",
    "data list egoplan_bench2 {file} --out {out}",
    "data list egointent {file} --out {out}",
    "data prepare egoplan {file} --split val --ego4d .",
    "data prepare egoplan_bench2 {file} --ego4d .",
    "data prepare egointent {file} --videos .",
    "data prepare egothink {file}",
    "data prepare actplan {file}",
    "data cut egoplan {file} --split val --ego4d . --out {out}",
    "data build egoplan {file} --source ego4d --goals {file} --out {out}",
    "data build egointent {file} --videos . --out {out}",
    "data build actplan {file} --out {out}",
    "data build egothink {file} --out {out}",
    "data export egoplan-it {file} --format trl --ego4d . --out {out}",
    "audit egoplan --training {file} --out {out}",
    "audit egoplan_bench2 --training {file} --out {out}",
    "audit egointent --training {file} --out {out}",
    "audit egointent-labels {file}",
    "annotate egothink {file} --db {out}",
    "annotate egothink-questions {file} --db {out}",
    "annotate egoplan {file} --db {out}",
    "annotate egoplan-failures {file} --db {out}",
    "annotate egointent {file} --videos . --db {out}",
    "annotate actplan {file} --db {out}",
    "annotate actplan-circumstances {file} --db {out}",
    "annotate actplan-plans {file} --db {out}",
    "annotate egothink {file} --db {out} --study {file}",
    "annotate status {file}",
    "annotate export {file} --out {out}",
    "annotate import {file} {file}",
    "annotate backup {file} --out {out}",
    "train egoplan {file} --model . --out {out}",
    "train egoplan --config {file} --out {out}",
    "train actplan-bleurt {file} {file} --encoder . --out {out}",
    "merge egoplan {file} --out {out}",
    "plan video --model {file} --goalstep {file} --out {out}",
    "sensitivity egoplan_bench2 {file} --out {out} --check",
    "run {file} --check",
)
# Commands with wrong options or names.
_WRONG = (
    "shwo",
    "data",
    "data prepar egoplan",
    "data prepare egoplna",
    "judge egothnik",
    "annotate egothink",
    "prepare egothink",
    "show",
    "show nowhere",
    "show . --format pdf",
    "report nowhere --out report",
    "report . --out .",
    "report . --out report --pictures many",
    "report . --out report --name x",
    "compare nowhere nowhere --margin 0",
    "compare . . --margin 99",
    "ledger egoplna",
    "ledger --format pdf",
    "tasks-path --harness other",
    "judge egothink nowhere --out o.jsonl --protocol mine",
    "judge egothink nowhere --out o.jsonl --concurrency 0",
    "judge egothink nowhere --out o.jsonl --repeats 0",
    "judge egothink nowhere --out o.jsonl",
    "sensitivity egoplan nowhere --vary colour",
    "sensitivity egothink nowhere",
    "sensitivity egoplan_bench2 nowhere --base mine --check",
    "run nowhere --benchmarks egoplan",
    "run nowhere --protocol mine",
    "run nowhere --questions 5 --target-width 10",
    "run nowhere --harness other",
    "train egoplan nowhere --set colour=red --out o",
    "train egoplan nowhere --set epochs --out o",
    "train egoplan nowhere --set epochs=many --out o",
    "plan kitchen --goal x --model y",
    "plan kitchen --list",
    "plan virtualhome --goal x",
    "plan video --model nowhere --method guess",
    "demo --out file-of-mine",
    "audit egoplan --out o",
    "annotate egothink nowhere --db l.sqlite --by colour",
    "annotate egothink nowhere --db l.sqlite --study mine",
    "annotate status nowhere.sqlite",
    "annotate export nowhere.sqlite --out o",
)


def make_errors() -> None:
    """Run all wrong commands. Each damaged file is read by each command that reads files.

    Annotation commands have no prepared data: with usable files, they would serve a page.
    """
    prepare_sets()
    for name, content in _CONTENTS.items():
        Path(f"{name}.jsonl").write_bytes(content)
    Path("file-of-mine").write_text("mine")
    wrong = Commands("wrong")
    for line in _WRONG:
        wrong.run(*line.split())
    for number, reader in enumerate(_READERS):
        words = reader.split()
        name = "-".join(word for word in words[:2] if word[0] not in "{-")
        damaged = Commands(f"damaged/{number:02}-{name}")
        for content in _CONTENTS:
            line = reader.format(file=f"{content}.jsonl", out=f"out-{number}-{content}")
            variables = dict(_JUDGE)
            if "annotate" in reader:
                variables["LMMS_EGOPLAN_DATA"] = str(Path("no-data").resolve())
            damaged.run(*line.split(), **variables)
    store_text("left.txt", "\n".join(sorted(path.name for path in Path().glob("out-*"))))
