"""Run updates through Trainer: every model family, gradient checkpointing, and missing packages."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForImageTextToText

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training import run
from lmms_egoplan.training.packages import check_packages
from lmms_egoplan.training.samples import Mix, Sample
from lmms_egoplan.training.settings import TuningSettings
from patience import FOREVER_S
from ranking.reference import picture
from ranking.test_ranking import RANKED
from zoo import save

FIRST = ("llava", "qwen2_5_vl")


def pictures(count):
    return [picture(number) for number in range(count)]


def plan(count):
    """Return a question about this many pictures, with an answer and a negative."""
    fields = ("question", "answer", "negative")
    visuals = partial(pictures, count)
    return Sample(f"plan {count}", (("What next?", "wash"),), ("open it",), visuals, count, fields)


SAMPLES = [plan(count) for count in (1, 2, 2, 1)]
DIALOGUES = [
    Sample(
        "dialogue",
        (("Who are you?", "A model."), ("Really?", "yes")),
        fields=("first question", "first answer", "second question", "second answer"),
    )
]


def settings(**changes):
    """Return float32 settings for two updates of four samples, in two passes."""
    small = {
        "steps": 2,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "precision": "float32",
        "workers": 0,
        "save_every": 2,
    }
    return TuningSettings.model_validate(small | changes)


def tune(model, out, dialogues=4, **changes):
    mix = Mix({"plan": SAMPLES, "dialogues": DIALOGUES * dialogues})
    return run.tune(str(model), mix, SAMPLES[:2], settings(**changes), out, {})


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FIRST else pytest.mark.nightly) for name in RANKED],
)
def test_each_family_trains(name, tmp_path, monkeypatch):
    """The joining modules and LoRA change, everything else stays as it is in the checkpoint."""
    save(name, tmp_path / "model")
    models = []
    load = run.load_base
    monkeypatch.setattr(
        run, "load_base", lambda *arguments: models.append(load(*arguments)) or models[-1]
    )
    summary = tune(tmp_path / "model", tmp_path / "out")
    assert summary["padded"]
    assert summary["answer_passes"] == ("separate" if name == "qwen3_5" else "shared")
    before = AutoModelForImageTextToText.from_pretrained(tmp_path / "model").state_dict()
    (after,) = models
    changed = set()
    for key, values in after.state_dict().items():
        original = key.replace(".base_layer.", ".").replace(".original_module.", ".")
        if ".modules_to_save." in key:
            module, _, parameter = key.partition(".modules_to_save.default.")
            if not torch.equal(values, before[f"{module}.{parameter}"]):
                changed.add(module)
        elif "lora_B" in key:
            assert values.abs().max() > 0, key
        elif "lora_A" not in key:
            assert torch.equal(values, before[original]), key
    assert changed == set(summary["joining"])


def test_gradient_checkpointing_changes_no_weights(tmp_path):
    """Dropout draws the same random numbers when a layer is computed again."""
    save("llava", tmp_path / "model")
    for out, value in (("plain", False), ("checkpointed", True)):
        tune(tmp_path / "model", tmp_path / out, gradient_checkpointing=value)
    plain, checkpointed = (
        load_file(tmp_path / out / "adapter_model.safetensors") for out in ("plain", "checkpointed")
    )
    for name, values in plain.items():
        torch.testing.assert_close(checkpointed[name], values, atol=1e-6, rtol=0, msg=name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"report_to": ["clearml"]}, "report_to: clearml: needs clearml: pip install clearml"),
        ({"report_to": ["azure_ml"]}, "report_to: azure_ml: .*pip install azureml-core"),
        ({"report_to": ["tensorbord"]}, "report_to: unknown reporter tensorbord; .*tensorboard"),
        ({"trainer": {"deepspeed": "zero.json"}}, "trainer.deepspeed: .*pip install deepspeed"),
        ({"attn_implementation": "flash_attention_2"}, ".*pip install flash-attn"),
        ({"quantize": "4bit"}, "quantize: 4bit.*(pip install bitsandbytes|needs a GPU)"),
        ({"trainer": {"fsdp": True}}, "trainer.fsdp: .*CPU"),
    ],
)
def test_missing_packages_and_devices_are_named_before_the_model_loads(changes, message, tmp_path):
    with pytest.raises(LmmsEgoplanError, match=message):
        tune("no such model", tmp_path / "out", **changes)
    assert not (tmp_path / "out").exists()


def test_installed_packages_are_accepted():
    check_packages(settings(report_to=["none"], trainer={"optim": "adafactor"}))


SHARDING = """
import torch
from torch.distributed.fsdp import fully_shard
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.training.trainer import check_sharded

torch.distributed.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
parameters = sum(p.numel() for p in model.parameters())
try:
    check_sharded(model, parameters)
    raise SystemExit("not sharded, but accepted")
except LmmsEgoplanError as error:
    assert "8,320" in str(error), error
check_sharded(fully_shard(model), parameters)
torch.distributed.destroy_process_group()
"""


# Accelerate does not shard on CPUs unless its state says so, but what it does then is the same.
SHARDED_RUN = """
import sys
from pathlib import Path
import accelerate.state
from accelerate.utils import DistributedType
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.process_group import wait_and_leave
from lmms_egoplan.training import run
from training.test_run import tune

create, arguments_of, check = (
    accelerate.state.AcceleratorState.__init__, run.training_arguments, run.check_sharded
)
sizes = []

def create_sharding(self, *arguments, fsdp_plugin=None, **more):
    create(self, *arguments, fsdp_plugin=fsdp_plugin, **more)
    if fsdp_plugin is not None:
        self.distributed_type = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin

def sharding_arguments(settings, *more, **options):
    arguments = arguments_of(settings.model_copy(update={"trainer": {}}), *more, **options)
    arguments.fsdp = True
    arguments.fsdp_config = {"transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}
    arguments.fsdp_plugin_args = arguments._process_fsdp_args()
    return arguments

def check_sharded(model, parameters):
    check(model, parameters)
    sizes.append(sum(p.to_local().numel() for p in model.parameters()) / parameters)

accelerate.state.AcceleratorState.__init__ = create_sharding
run.training_arguments, run.check_sharded = sharding_arguments, check_sharded
folder = Path(sys.argv[1])
options = {"lora": {"dropout": 0.0}, "trainer": {"fsdp": True}}
try:
    tune(folder / "model", folder / "sharded", **options)
    raise SystemExit("texts alone and images, but accepted")
except LmmsEgoplanError as error:
    assert "2 kinds of media" in str(error), error
tune(folder / "model", folder / "sharded", dialogues=0, **options)
assert 0.45 < sizes[0] < 0.55, sizes
wait_and_leave()
"""


def launch(script, *arguments):
    """Run a script in two processes and return the exit code."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "ACCELERATE_USE_CPU": "true",
    }
    tests = Path(__file__).parents[1]
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), str(tests.parent), *sys.path])
    done = subprocess.run([*command, str(script), *arguments], env=environment, timeout=FOREVER_S)
    return done.returncode


@pytest.mark.nightly
def test_sharded_training_writes_the_same_adapter(tmp_path):
    """Each of two processes has half of the parameters."""
    save("llava", tmp_path / "model")
    (tmp_path / "sharded_run.py").write_text(SHARDED_RUN)
    assert launch(tmp_path / "sharded_run.py", str(tmp_path)) == 0
    tune(tmp_path / "model", tmp_path / "alone", dialogues=0, lora={"dropout": 0.0})
    sharded, alone = (
        load_file(tmp_path / out / "adapter_model.safetensors") for out in ("sharded", "alone")
    )
    assert sharded.keys() == alone.keys()
    for name, values in alone.items():
        torch.testing.assert_close(sharded[name], values, atol=1e-6, rtol=0, msg=name)
    assert (tmp_path / "sharded/base.json").read_text() == (
        tmp_path / "alone/base.json"
    ).read_text()


@pytest.mark.whole
def test_sharding_is_checked_by_the_parameters_of_each_process(tmp_path):
    (tmp_path / "check.py").write_text(SHARDING)
    assert launch(tmp_path / "check.py") == 0
