"""Folders of published data and papers. Tests that use them are skipped if a file is missing."""

from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA, PAPERS = SHARED / "data", SHARED / "papers"
