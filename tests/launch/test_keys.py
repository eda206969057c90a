"""No key of a model or a judge is in any file or output, even if the judge repeats it."""

import base64
import subprocess
import sys

import pytest

from judge_server import JudgeServer, Reply
from launch.mistakes import environment_of, prepare_folder
from patience import FOREVER_S

MODEL_KEY, JUDGE_KEY = "sk-key-of-the-model-123", "sk-key-of-the-judge-456"
TASK = "egothink_object_existence"


@pytest.mark.whole
def test_no_key_is_in_any_file_of_a_run_a_judge_and_a_failed_judge(tmp_path):
    folder = tmp_path / "set"
    prepare_folder(folder)
    outputs = []

    def run(judge, *arguments):
        environment = environment_of(folder) | {
            **{"OPENAI_API_KEY": MODEL_KEY, "LMMS_EGOPLAN_JUDGE_API_KEY": JUDGE_KEY},
            **{
                "LMMS_EGOPLAN_JUDGE_BASE_URL": judge.url,
                "LMMS_EGOPLAN_JUDGE_MODEL": judge.models[0]["id"],
            },
        }
        command = [sys.executable, "-m", "lmms_egoplan", *arguments]
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=FOREVER_S,
            check=False,
        )
        outputs.append(result.stdout + result.stderr)
        assert {"Bearer " + JUDGE_KEY} == {headers["authorization"] for headers in judge.headers}
        return result.returncode

    def repeat_key(prompt, _):
        return Reply(f"Your key is {JUDGE_KEY}. Rating: [[0.5]]", model=f"judge {JUDGE_KEY}")

    def refuse(prompt, _):
        return (
            Reply("ready")
            if "ready" in prompt
            else Reply(f"Incorrect API key provided: {JUDGE_KEY}", status=401)
        )

    with JudgeServer(lambda *_: Reply("A cup.")) as model:
        model_args = f"base_url={model.url}"
        chosen = (
            "gpt",
            "--benchmarks",
            TASK,
            "--backend",
            "async_openai",
            "--model-args",
            model_args,
        )
        with JudgeServer(repeat_key) as judge:
            assert run(judge, "run", *chosen, "--out", "runs") == 0, outputs[-1]
        assert {"Bearer " + MODEL_KEY} == {headers["authorization"] for headers in model.headers}
    with JudgeServer(repeat_key) as judge:
        judge.models[0]["id"] = "second judge"
        assert run(judge, "judge", "egothink", "runs", "--out", "judged.jsonl") == 0, outputs[-1]
    with JudgeServer(refuse) as judge:
        judge.models[0]["id"] = "third judge"
        assert run(judge, "judge", "egothink", "runs", "--out", "refused.jsonl") == 1, outputs[-1]
    assert "Incorrect API key provided: [API key]" in outputs[-1]

    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert "[API key]" in files["judged.jsonl"].decode()
    assert {"data/judgements.sqlite", "runs/run.json", "runs/report/report.json"} <= files.keys()
    files["outputs"] = "\n".join(outputs).encode()
    for key in (MODEL_KEY, JUDGE_KEY):
        for spelling in (key.encode(), base64.b64encode(key.encode())):
            assert [name for name, content in files.items() if spelling in content] == []
