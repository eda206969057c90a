"""The rule for ``--out``: a command replaces and deletes only files that it wrote itself.

1. A folder is new, empty, or has a marker of the same command (`MARKER`). A file is new, or
   ``--overwrite`` is given.
2. The marker lists the files that the command wrote, with size and time. A listed file that has
   not changed since is the command's own. No other file is replaced or deleted.
3. A run that would write the name of another file is refused: before it starts if the name is
   known, otherwise before it replaces anything.
4. Results are written to a temporary folder and moved to their names at the end (`results_of`).
   Own results of earlier runs that this run does not write are deleted then.
5. What a later run resumes from is written in its place, each file with `files.whole_file`. Own
   files are replaced, but not deleted.
6. A file is listed before it gets its name, so after a kill all files of the command are listed.
   Temporary folders of a killed run are deleted by the next one.
7. Files of other programs, such as the harness, are not listed, except below `clear`.
8. One process at a time uses a folder. If a command runs as several processes, these rules apply
   to the first one.
"""

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Lock

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.files import LOCK, guarded_by, lock_folder, write_whole
from lmms_egoplan.processes import is_first_process
from lmms_egoplan.volumes import UNFINISHED, with_path_in_error, with_volume_in_error

MARKER = ".lmms-egoplan.jsonl"
"""Name of the marker: a line with the command, and one for each file, in the order of writing."""

# Its files have no times, so nobody knows which of them have changed since.
_FORMER_MARKER = ".lmms-egoplan.json"

Version = tuple[int, int]
"""Size in bytes, and time of the last change in nanoseconds."""


class _Marker:
    """The marker of a folder to which a command writes.

    Attributes:
        cleared: Paths below which other programs write.
    """

    def __init__(self, root: Path, command: str) -> None:
        self.cleared: list[Path] = []
        self._root = root
        self._versions: dict[str, set[Version]] = defaultdict(set)
        self._results: set[str] = set()
        self._lock = Lock()
        if not (root / MARKER).exists():
            write_whole(root / MARKER, json.dumps({"command": command}))
        for line in (root / MARKER).read_text(encoding="utf-8").splitlines()[1:]:
            with suppress(ValueError, TypeError):  # a line that was not completely written
                name, size, time, is_result = json.loads(line)
                self._remember(name, (size, time), is_result=is_result)

    def name(self, path: Path) -> str | None:
        """Return a path relative to the folder; None if it is outside."""
        resolved = path.parent.resolve() / path.name
        root = self._root.resolve()
        return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else None

    def is_own(self, path: Path) -> bool:
        """Return whether the command wrote a file that has not changed since."""
        return _version(path) in self._versions.get(self.name(path) or "", ())

    def check(self, path: Path) -> None:
        """Raise `LmmsEgoplanError` if a path, or one of its folders, is not the command's file."""
        obstacles = [folder for folder in path.parents if folder.is_file()]
        if os.path.lexists(path) and not self.is_own(path):
            obstacles.append(path)
        if obstacles:
            raise LmmsEgoplanError(
                f"{obstacles[0]}: this run would replace a file that no earlier run wrote, or that "
                "has changed since; move it, or set another --out"
            )

    def guard(self, unfinished: Path, path: Path) -> bool:
        """Check and list a file or folder before it gets its name; see `files.Guard`."""
        if self.name(path) is None:
            return False
        if not any(part.startswith(UNFINISHED) for part in path.parts):
            for earlier in _files_below(path):
                self.check(earlier)
            self.add(
                {path / file.relative_to(unfinished): file for file in _files_below(unfinished)}
            )
        return True

    def add(self, files: Mapping[Path, Path], *, are_results: bool = False) -> None:
        """List files, by their final path, with the versions of their present paths."""
        with self._lock, (self._root / MARKER).open("a", encoding="utf-8") as marker:
            for path, file in files.items():
                name = self.name(path)
                version = _version(file)
                if name is not None and version is not None:
                    marker.write(f"\n{json.dumps([name, *version, are_results])}")
                    self._remember(name, version, is_result=are_results)

    def delete_results(self, folder: Path, written: Collection[Path] = ()) -> None:
        """Delete the command's results in a folder, except those that were just written."""
        inside = self.name(folder) or "."
        for name in sorted(self._results - {self.name(path) for path in written}):
            path = self._root / name
            if Path(name).is_relative_to(inside) and self.is_own(path):
                path.unlink()
                _remove_empty_folders(path.parent, self._root)

    def _remember(self, name: str, version: Version, *, is_result: bool) -> None:
        self._versions[name].add(version)
        if is_result:
            self._results.add(name)
        else:
            self._results.discard(name)


# The markers of the running commands, the innermost one last.
_running: list[_Marker] = []


@contextmanager
def output_folder(out: Path, command: str, names: Sequence[str] = ()) -> Iterator[None]:
    """Let a command write to the folder `out`, which is created.

    Args:
        command: The command, such as ``data cut``.
        names: Files that the run will write, as far as they are known.

    Raises:
        LmmsEgoplanError: A rule of this module forbids it, or the volume is full.
    """
    if not is_first_process():
        yield
        return
    check_folder(out, command)
    with with_volume_in_error(out), _writable_folder(out, out), lock_folder(out):
        check_folder(out, command)  # another command may have been faster
        try:
            with _running_marker(out, command) as marker, guarded_by(marker.guard):
                for name in names:
                    marker.check(out / name)
                yield
        finally:
            if {path.name for path in out.iterdir()} <= {MARKER, LOCK}:
                (out / MARKER).unlink(missing_ok=True)
                (out / LOCK).unlink(missing_ok=True)


@contextmanager
def _running_marker(out: Path, command: str) -> Iterator[_Marker]:
    """Open the marker of a folder. At the end, list what other programs wrote."""
    _delete_unfinished(out)
    marker = _Marker(out, command)
    _running.append(marker)
    try:
        yield marker
    finally:
        _running.remove(marker)
        for path in marker.cleared:
            marker.add({file: file for file in _files_below(path)}, are_results=True)


def check_folder(out: Path, command: str) -> None:
    """Check that a folder is new, empty, or belongs to a command.

    Raises:
        LmmsEgoplanError: It does not, or its marker is damaged.
    """
    if out.exists() and not out.is_dir():
        raise LmmsEgoplanError(f"--out {out}: is a file; use a folder")
    if not out.is_dir() or {path.name for path in out.iterdir()} <= {LOCK}:
        return
    marker = out / MARKER
    if not marker.is_file():
        content = "it contains other files"
        if (out / _FORMER_MARKER).is_file():
            content = f"an earlier version of lmms-egoplan wrote it ({_FORMER_MARKER})"
        raise LmmsEgoplanError(f"--out {out}: {content}; set a new or empty folder")
    try:
        owner = json.loads(marker.read_text(encoding="utf-8").partition("\n")[0])["command"]
    except (ValueError, TypeError, LookupError) as error:
        raise LmmsEgoplanError(
            f"--out {out}: {marker} is damaged; set a new or empty folder"
        ) from error
    if owner != command:
        raise LmmsEgoplanError(
            f"--out {out}: `lmms-egoplan {owner}` wrote it; set a new or empty folder"
        )


@contextmanager
def results_of(out: Path, last: str = "", meanwhile: str = "") -> Iterator[Path]:
    """Yield an empty folder whose files become the results in `out` at the end.

    Outside of `output_folder`, files of the same names are replaced, and none is deleted.

    Args:
        out: The folder of `output_folder`, or one inside it.
        last: Name of a file that is written after all others. It marks the results as complete.
        meanwhile: Content of this file while the others are moved.

    Raises:
        LmmsEgoplanError: A file of the same name is not the command's.
        OSError: The folder is not writable.
    """
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=UNFINISHED, dir=out) as scratch:
        yield Path(scratch)
        files = {out / file.relative_to(scratch): file for file in _files_below(Path(scratch))}
        marker = _marker_of(out)
        if marker is not None:
            for path in files:
                marker.check(path)
        if last:
            write_whole(out / last, meanwhile)
        if marker is not None:
            marker.add(files, are_results=True)
        for path in sorted(files, key=lambda path: path == out / last):
            path.parent.mkdir(parents=True, exist_ok=True)
            files[path].replace(path)
        if marker is not None:
            marker.delete_results(out, files)


def delete_other_results(out: Path, folders: Collection[Path]) -> None:
    """Delete the results of earlier runs in `out`, except those in `folders`.

    For commands that call `results_of` once for each of these folders.
    """
    marker = _marker_of(out)
    if marker is not None:
        marker.delete_results(out, [file for folder in folders for file in _files_below(folder)])


def clear(paths: Collection[Path]) -> None:
    """Delete what an earlier run wrote at these paths, where other programs will write.

    Raises:
        LmmsEgoplanError: There are other files, or files of a killed run.
    """
    for path in paths:
        marker = _marker_of(path)
        for file in _files_below(path):
            if marker is None or not marker.is_own(file):
                raise LmmsEgoplanError(
                    f"{file}: no finished run wrote this file; move or delete it"
                )
    for path in paths:
        marker = _marker_of(path)
        if marker is not None:
            marker.delete_results(path)
            marker.cleared.append(path)
        for folder, _, _ in os.walk(path, topdown=False):
            Path(folder).rmdir()


@contextmanager
def output_file(
    out: Path | None, inputs: Sequence[Path] = (), *, overwrite: bool, also: Sequence[Path] = ()
) -> Iterator[None]:
    """Let a command write the file `out`, whose folder is created.

    Args:
        inputs: Files that the command reads.
        overwrite: Whether existing files may be replaced.
        also: Further files that the command may write.

    Raises:
        LmmsEgoplanError: A rule of this module forbids it, or the volume is full.
    """
    if out is None or not is_first_process():
        yield
        return
    paths = [out, *also]
    for path in paths:
        if path.is_dir():
            raise LmmsEgoplanError(f"--out {out}: {path} is a folder; set a file")
        if path.resolve() in [file.resolve() for file in inputs]:
            raise LmmsEgoplanError(f"--out {out}: {path} is an input; set another file")
        if os.path.lexists(path) and not overwrite:
            raise LmmsEgoplanError(
                f"--out {out}: {path} exists; set another file, or replace it with --overwrite"
            )
    versions = {path: _version(path) for path in paths}

    def check(_: Path, path: Path) -> bool:
        if path in versions and _version(path) != versions[path]:
            raise LmmsEgoplanError(f"--out {out}: {path} has changed; set another file")
        return path in versions

    with (
        with_volume_in_error(out),
        _writable_folder(out.parent, out),
        guarded_by(check),
    ):
        yield


@contextmanager
def _writable_folder(folder: Path, out: Path) -> Iterator[None]:
    """Create a folder and check that it is writable. At the end, remove it if nothing is in it."""
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    if new_folders and not new_folders[-1].parent.is_dir():
        raise LmmsEgoplanError(
            f"--out {out}: {new_folders[-1].parent} is a file, not a folder; set another path"
        )
    try:
        with with_path_in_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=folder) as file:
                file.write(b"\n")
        yield
    finally:
        for path in new_folders:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


def _marker_of(path: Path) -> _Marker | None:
    """Return the marker of the innermost output folder that contains a path."""
    for marker in reversed(_running):
        if marker.name(path) is not None:
            return marker
    return None


def _files_below(path: Path) -> list[Path]:
    """Return a file itself, or all files and symlinks below a folder."""
    if path.is_symlink() or not path.is_dir():
        return [path] if os.path.lexists(path) else []
    files: list[Path] = []
    for child in sorted(path.iterdir()):
        files += _files_below(child)
    return files


def _version(path: Path) -> Version | None:
    """Return the version of a file; None if it does not exist or is a folder."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)


def _remove_empty_folders(folder: Path, root: Path) -> None:
    """Remove a folder and its parents below `root` as far as they are empty."""
    while folder != root and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent


def _delete_unfinished(folder: Path) -> None:
    """Delete the temporary folders of killed runs, except those of outputs inside this one."""
    for path, names, files in os.walk(folder):
        if MARKER in files and Path(path) != folder:
            names.clear()
        for name in [name for name in names if name.startswith(UNFINISHED)]:
            names.remove(name)
            shutil.rmtree(Path(path, name))
