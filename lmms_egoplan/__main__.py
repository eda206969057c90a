"""``python -m lmms_egoplan``: the command, for launchers that start modules."""

from lmms_egoplan.cli import app

app()
