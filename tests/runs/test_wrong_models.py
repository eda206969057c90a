"""An invalid model or scorer ends a run with a one-line error before the weights are loaded."""

import shutil

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.ranker import HFVLMRanker
from lmms_egoplan.harnesses.lmms_eval.hf_vlm import HFVLM
from patience import FOREVER_S
from runs.both_harnesses import save_language_model
from runs.harness import LMMS_EVAL, log, start
from runs.small_set import prepare_small_set
from runs.test_failed_paths import IN_LM_EVAL, IN_LMMS_EVAL
from runs.test_lm_eval_processes import COMMAND
from zoo import save


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder))
        prepare_small_set(folder, 2)
    save("llava", folder / "llava")
    (folder / "llava" / "model.safetensors").unlink()  # all runs must fail before they load it
    save_language_model(folder / "text")
    shutil.copytree(folder / "llava", folder / "no-processor")
    for path in (folder / "no-processor").glob("*processor*"):
        path.unlink()
    return folder


def failing(data, launcher, arguments, model_args, judge=None):
    process = start(
        data,
        *arguments,
        "--model_args",
        model_args,
        "--output_path",
        data / "out",
        launcher=launcher,
        judge=judge,
    )
    assert process.wait(FOREVER_S) == 1, log(data)
    assert "Traceback" not in log(data)
    (line,) = [line for line in log(data).splitlines() if line.startswith("lmms-egoplan: ")]
    return line


def test_an_invalid_model_fails_before_its_weights_are_loaded(data):
    for model_args, fact in (
        ({"pretrained": "llava", "dtyp": "float32"}, "dtype"),
        ({"pretrained": "nowhere"}, "nowhere"),
        ({"pretrained": "."}, ""),
        ({"pretrained": "text"}, "text"),
        ({"pretrained": "no-processor"}, "no-processor"),
    ):
        for model in (HFVLM, HFVLMRanker):
            with pytest.raises(LmmsEgoplanError) as caught:
                model(**model_args | {"pretrained": str(data / model_args["pretrained"])})
            assert fact in str(caught.value), model_args
            assert model.NAME in str(caught.value), model_args
            assert "\n" not in str(caught.value), model_args


@pytest.mark.parametrize(
    ("launcher", "arguments"),
    [
        pytest.param(LMMS_EVAL, IN_LMMS_EVAL, marks=pytest.mark.nightly, id="lmms-eval"),
        pytest.param(COMMAND, IN_LM_EVAL, marks=pytest.mark.whole, id="lm-eval"),
    ],
)
def test_an_invalid_argument_is_a_one_line_error(data, launcher, arguments):
    line = failing(data, launcher, arguments, f"pretrained={data / 'llava'},dtyp=float32")
    assert "dtyp" in line


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("launcher", "arguments"),
    [(LMMS_EVAL, IN_LMMS_EVAL), (COMMAND, IN_LM_EVAL)],
    ids=["lmms-eval", "lm-eval"],
)
def test_a_missing_encoder_is_a_one_line_error(data, launcher, arguments):
    actplan = ["actplan" if argument == "egoplan_val" else argument for argument in arguments]
    environment = {"LMMS_EGOPLAN_ENCODER": str(data / "no-encoder")}
    line = failing(data, launcher, actplan, f"pretrained={data / 'llava'}", judge=environment)
    assert str(data / "no-encoder") in line
