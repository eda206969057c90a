"""Folders of labels that commands write for reports."""

import pytest

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.samples import labelled_folders, write_folder


def test_an_interrupted_export_is_refused_until_it_is_repeated(tmp_path):
    write_folder(tmp_path, "actplan", {"a.csv": "1"})
    (tmp_path / "z.csv").mkdir()  # a file cannot replace it
    texts = {"a.csv": "2", "z.csv": "2"}
    with pytest.raises(OSError, match=r"z\.csv"):
        write_folder(tmp_path, "actplan", texts)
    assert (tmp_path / "a.csv").read_text() == "2"
    with pytest.raises(LmmsEgoplanError, match="the export was not finished"):
        labelled_folders([tmp_path])
    (tmp_path / "z.csv").rmdir()
    write_folder(tmp_path, "actplan", texts)
    assert labelled_folders([tmp_path]) == {tmp_path: "actplan"}
