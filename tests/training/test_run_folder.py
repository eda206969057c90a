"""Find the checkpoint from which a run resumes."""

import os

from lmms_egoplan.training.run_folder import RunFolder


def test_truncated_checkpoint_is_deleted_and_the_one_before_is_used(tmp_path):
    folder = RunFolder(tmp_path, {})
    first, second = map(folder.checkpoint, (1, 2))
    for step, checkpoint in enumerate((first, second), 1):
        checkpoint.mkdir(parents=True)
        (checkpoint / "optimizer.pt").write_bytes(b"weights")
        folder.complete(step, best=1, seconds=step)
    assert folder.last_checkpoint() == (second, 2)
    os.truncate(second / "optimizer.pt", 3)
    assert folder.last_checkpoint() == (first, 1)
    assert not second.exists()
