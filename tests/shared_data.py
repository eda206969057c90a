"""Where the published data and papers are that some tests use; these are skipped where a file is absent."""

from pathlib import Path

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA, PAPERS = SHARED / "data", SHARED / "papers"
