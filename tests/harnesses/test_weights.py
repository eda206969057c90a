"""Identify a checkpoint by its weights and files."""

import hashlib
import json
import os
import shutil

import pytest
from huggingface_hub import constants

from lmms_egoplan.harnesses.checkpoints import folder_version, weights_version
from lmms_egoplan.harnesses.weights import (
    NO_ADAPTER,
    NO_CONFIGURATION,
    NOT_KNOWN,
    WeightsDigest,
    WeightsSource,
    digest_in_background,
    weights_digest,
)

SHARDS = {"one-of-2.safetensors": b"1" * 3_000_000, "two-of-2.safetensors": b"2"}
COMMIT = "a" * 40


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model" / "processor").mkdir(parents=True)
    (tmp_path / "model" / "weights.bin").write_bytes(b"1234")
    (tmp_path / "model" / "processor" / "config.json").write_text("{}")
    return tmp_path / "model"


def test_a_folder_is_identified_by_its_files(folder):
    version = weights_version(str(folder), None)
    assert weights_version(str(folder), "ignored") == version
    status = (folder / "weights.bin").stat()
    (folder / "weights.bin").write_bytes(b"4321")
    os.utime(folder / "weights.bin", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert weights_version(str(folder), None) != version


@pytest.mark.parametrize("name", ["new.json", "processor/config.json"])
def test_an_added_or_changed_file_changes_the_version(folder, name):
    version = weights_version(str(folder), None)
    (folder / name).write_text("{ }")
    assert weights_version(str(folder), None) != version


def test_an_adapters_version_includes_its_base(folder, tmp_path):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": str(folder)})
    )
    version = weights_version(str(adapter), None)
    (folder / "weights.bin").write_bytes(b"12345")
    assert weights_version(str(adapter), None) != version


def test_a_hub_name_is_identified_by_its_commit():
    assert (
        weights_version("org/model", "abc")
        == weights_version("org/model", "abc")
        != weights_version("org/model", "d")
    )
    assert weights_version("org/model", None) != weights_version("org/model", None)
    assert folder_version("org/model") is folder_version(3) is folder_version(None) is None


def test_adapters_that_name_each_other_are_read_once(tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, other in zip(folders, folders[::-1], strict=True):
        folder.mkdir()
        (folder / "adapter_config.json").write_text(
            json.dumps({"base_model_name_or_path": str(other)})
        )
    assert weights_version(str(folders[0]), None) != weights_version(str(folders[1]), None)


def write_checkpoint(folder, contents=SHARDS):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    index = {"weight_map": {f"layer {name}": name for name in contents}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text("{}")
    return folder


def write_snapshot(cache, name, contents=SHARDS):
    """Write a checkpoint as the hub's cache has it: links to blobs that their digest names."""
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshot = write_checkpoint(repository / "snapshots" / COMMIT, contents)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    for file_name, content in contents.items():
        blob = repository / "blobs" / hashlib.sha256(content).hexdigest()
        (snapshot / file_name).rename(blob)
        (snapshot / file_name).symlink_to(blob)
    return snapshot


def digest_of(model, **source):
    return weights_digest(WeightsSource(str(model), **source))


def test_the_same_weights_have_one_digest_wherever_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = write_snapshot(tmp_path / "hub", "org/model")
    (snapshot / "tokenizer.json").write_text('{"model": {"vocab": {"a": 0, "b": 1}}}')
    copied = shutil.copytree(snapshot, tmp_path / "copied")  # copies the content of links
    assert not any(path.is_symlink() for path in copied.iterdir())
    (copied / "training_args.bin").write_bytes(b"of the training run")
    (copied / "pytorch_model.bin").write_bytes(b"not loaded next to safetensors")
    renamed = write_checkpoint(
        tmp_path / "renamed", {f"a{name}": content for name, content in SHARDS.items()}
    )
    named = [digest_of("org/model"), digest_of("org/model", revision=COMMIT)]
    (digest,) = {*named, *map(digest_of, (snapshot, copied))}
    assert len(digest.weights) == len(digest.configuration) == 64
    assert digest_of(renamed).weights == digest.weights
    assert digest.adapter == NO_ADAPTER

    with (copied / "one-of-2.safetensors").open("r+b") as file:
        file.seek(2_999_999)
        file.write(b"0")
    assert digest_of(copied).weights not in (digest.weights, NOT_KNOWN)
    assert digest_of("org/model", revision="b" * 40).weights == NOT_KNOWN
    assert digest_of("org/other").weights == digest_of(tmp_path / "none").weights == NOT_KNOWN


def test_files_in_the_cache_of_the_hub_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = write_snapshot(tmp_path, "org/model")
    digest = digest_of("org/model")
    for name in SHARDS:
        (snapshot / name).resolve().write_bytes(b"")
    assert digest_of("org/model") == digest


def write_adapter(folder, base, content=b"adapter", **settings):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(content)
    settings = {"base_model_name_or_path": str(base), **settings}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def test_an_adapter_has_a_digest_of_its_own(tmp_path):
    base = write_checkpoint(tmp_path / "base")
    adapter = write_adapter(tmp_path / "adapter", base, lora_alpha=16)
    passed = digest_of(base, adapter=str(adapter))
    assert passed == digest_of(adapter)
    assert passed.weights == digest_of(base).weights
    assert NO_ADAPTER != passed.adapter != NOT_KNOWN
    moved = shutil.copytree(base, tmp_path / "moved")
    assert digest_of(write_adapter(tmp_path / "copy", moved, lora_alpha=16)) == passed
    for number, changed in enumerate(({"content": b"another"}, {"lora_alpha": 64})):
        other = write_adapter(tmp_path / str(number), base, **{"lora_alpha": 16, **changed})
        assert digest_of(other).adapter not in (passed.adapter, NOT_KNOWN)
        assert digest_of(other).weights == passed.weights
    assert digest_of(write_adapter(adapter, "org/missing")) == WeightsDigest()


def test_a_folder_with_a_model_and_an_adapter_is_not_known(tmp_path):
    """Versions of transformers and vLLM load different ones of base, model and adapter."""
    base = write_checkpoint(tmp_path / "base")
    both = write_adapter(write_checkpoint(tmp_path / "both"), base)
    assert digest_of(both) == WeightsDigest()
    assert (
        digest_of(both, adapter=str(write_adapter(tmp_path / "adapter", base))) == WeightsDigest()
    )


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("config.json", '{"vision_feature_layer": -2}', '{"vision_feature_layer": -1}'),
        ("generation_config.json", '{"repetition_penalty": 1.0}', None),
        ("preprocessor_config.json", '{"size": 224}', '{"size": 336}'),
        ("tokenizer.json", '{"vocab": {"dtype": 0}}', '{"vocab": {"dtype": 1}}'),
        ("tokenizer.model", "a", "b"),
        ("merges.txt", "a b", "b a"),
    ],
)
def test_settings_of_model_and_processor_are_part_of_the_model(tmp_path, name, before, after):
    folder = write_checkpoint(tmp_path / "model")
    (folder / name).write_text(before)
    digest = digest_of(folder)
    (folder / name).unlink()
    if after is not None:
        (folder / name).write_text(after)
    changed = digest_of(folder)
    assert changed.configuration not in (digest.configuration, NOT_KNOWN)
    assert changed.weights == digest.weights


def test_form_paths_and_versions_in_settings_do_not_matter(tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    digests = set()
    for path, version, indent in (("a", "5.0", None), ("/b", "4.1", 2)):
        part = {"_name_or_path": path, "hidden_size": 8, "dtype": version}
        config = {"transformers_version": version, "text_config": part, "torch_dtype": version}
        ordered = dict(sorted(config.items(), reverse=indent is None))
        (folder / "config.json").write_text(json.dumps(ordered, indent=indent))
        digests.add(digest_of(folder))
    assert len(digests - {WeightsDigest()}) == 1


def test_a_model_that_is_no_checkpoint_has_no_configuration(tmp_path):
    (tmp_path / "replies.json").write_text("{}")
    assert digest_of(tmp_path, files=("replies.json",)).configuration == NO_CONFIGURATION


def test_files_that_changed_after_loading_are_not_known(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = write_snapshot(tmp_path / "hub", "org/model")
    blob = (snapshot / "two-of-2.safetensors").resolve()
    local = write_checkpoint(tmp_path / "local")
    adapter = write_adapter(tmp_path / "adapter", local)

    def replace_link():
        (snapshot / "two-of-2.safetensors").unlink()
        (snapshot / "two-of-2.safetensors").symlink_to(snapshot / "one-of-2.safetensors")

    changes = [
        (str(local), lambda: (local / "two-of-2.safetensors").write_bytes(b"new")),
        (str(local), lambda: (local / "config.json").write_text('{"new": 1}')),
        (str(adapter), lambda: write_adapter(adapter, local, b"new adapter")),
        ("org/model", lambda: blob.write_bytes(b"new")),
        ("org/model", replace_link),
    ]
    for model, change in changes:
        source = WeightsSource(model)
        assert weights_digest(source) != WeightsDigest()
        change()
        assert weights_digest(source) == WeightsDigest()
    source = WeightsSource(str(local))
    (local / "log.txt").write_text("of a training run")
    assert weights_digest(source) != WeightsDigest()


def test_unknown_and_unreadable_weights_have_no_digest(tmp_path):
    folder = write_checkpoint(tmp_path / "model")
    (folder / "two-of-2.safetensors").unlink()
    damaged = write_checkpoint(tmp_path / "damaged")
    (damaged / "tokenizer.json").write_text("{")
    removed = WeightsSource(str(write_checkpoint(tmp_path / "removed")))
    shutil.rmtree(removed.model)
    sources = [WeightsSource(str(path)) for path in (folder, tmp_path, damaged)]
    for source in (None, removed, *sources):
        with digest_in_background(source) as digest:
            assert digest() == WeightsDigest(NOT_KNOWN, NOT_KNOWN, NOT_KNOWN)


def test_reading_stops_with_the_evaluation(tmp_path):
    """A sparse file of 1 TiB would take minutes."""
    folder = write_checkpoint(tmp_path / "model")
    with (folder / "two-of-2.safetensors").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RuntimeError), digest_in_background(WeightsSource(str(folder))):
        raise RuntimeError
