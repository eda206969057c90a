"""Write markers of output folders, as commands do."""

import json

from lmms_egoplan.outputs import MARKER


def write_marker(folder, command, names=()):
    """Mark a folder as a command's, with these files as its results."""
    (folder / MARKER).write_text(json.dumps({"command": command}))
    list_results(folder, names)


def list_results(folder, names):
    """Add files to a marker."""
    with (folder / MARKER).open("a") as marker:
        for name in names:
            status = (folder / name).stat()
            line = json.dumps([str(name), status.st_size, status.st_mtime_ns, True])
            marker.write(f"\n{line}")
