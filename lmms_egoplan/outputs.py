"""Check ``--out`` of commands, so that no other file is replaced or deleted.

The folder or file must be new, or from an earlier run of the same command. A manifest in the
folder, `MANIFEST`, lists the files that commands wrote. Other files are never replaced or deleted.
"""

import errno
import fcntl
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

from pydantic import Field

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_json
from lmms_egoplan.processes import is_first_process
from lmms_egoplan.validation import Checked, read_as

MANIFEST = ".lmms-egoplan.json"
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Messages of libraries whose errors have no number: safetensors, torch, SQLite.
_FULL_TEXTS = (
    "No space left",
    "StorageFull",
    "disk is full",
    "File too large",
    "FileTooLarge",
    "inline_container",
    "PytorchStreamWriter",
)


class _Manifest(Checked):
    """The files that commands wrote to a folder.

    Attributes:
        command: command that owns the whole folder; "" for none.
        files: files of this command, relative to the folder. Incomplete while the command runs.
        theirs: other files that existed when the command started; None after it has ended.
        left: files of killed runs or of the user. They may be replaced, but are not deleted.
        single: files that other commands wrote to this folder, each with its command.
    """

    command: str = ""
    files: list[str] = Field(default_factory=list)
    theirs: list[str] | None = None
    left: list[str] = Field(default_factory=list)
    single: dict[str, str] = Field(default_factory=dict)


@dataclass
class _Output:
    """The output of a running command.

    Attributes:
        root: The folder.
        listed: The command's files from earlier runs.
        foreign: Other files, which the command must not change.
    """

    root: Path
    listed: set[str] = field(default_factory=set)
    foreign: set[str] = field(default_factory=set)


# Usually one item, since a process runs one command.
_running: list[_Output] = []


def guard_output(command: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command's function in the checks for its parameter ``out``.

    This is a folder (metavar DIR) or a file (FILE). In a run with several processes, only the first
    one checks: it may already write while another one starts.

    Raises:
        TypeError: the parameter has another metavar.
    """
    parameter = inspect.signature(run).parameters.get("out")
    if parameter is None:
        return run
    (option,) = parameter.annotation.__metadata__
    metavar = option.metavar
    if metavar not in ("DIR", "FILE"):
        raise TypeError(f"{command}: --out needs the metavar DIR or FILE, got {metavar}")

    @wraps(run)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        out: Path | None = kwargs["out"]
        if out is None or not is_first_process():
            return run(*args, **kwargs)
        inputs = _input_paths(kwargs)
        try:
            if metavar == "DIR":
                with claimed_folder(out, command, inputs):
                    return run(*args, **kwargs)
            with claimed_file(out, command, inputs, vars(run).get("also", ())):
                return run(*args, **kwargs)
        except Exception as error:
            if _is_full(error):
                raise LmmsEgoplanError(_full(error, out)) from error
            raise

    return guarded


def _input_paths(options: Mapping[str, Any]) -> list[Path]:
    """Return the paths among the values of a command's options, except its output."""
    paths = []
    for name, value in options.items():
        if name in ("out", "config"):
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Path):
                paths.append(item.resolve())
    return paths


def also_writes(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare more files that a command writes next to ``--out``.

    Args:
        names: templates with the ``{stem}``, ``{name}`` and ``{suffix}`` of ``--out``.
    """

    def name(run: Callable[..., Any]) -> Callable[..., Any]:
        vars(run)["also"] = names
        return run

    return name


def check_own(path: Path) -> None:
    """Check that a command may replace a file.

    Raises:
        LmmsEgoplanError: the file is in the output folder of the running command, but no command
            wrote it.
    """
    if any(_name(path, output.root) in output.foreign for output in _running if output.foreign):
        raise LmmsEgoplanError(
            f"{path}: this run would replace a file that no earlier run wrote; move it away"
        )


def delete(paths: Iterable[Path]) -> None:
    """Delete files and folders that an earlier run of the running command wrote.

    Keep all other files.
    """
    output = _running[-1] if _running else _Output(Path())
    for path in paths:
        for file in [*path.rglob("*")] if path.is_dir() else [path]:
            if _name(file, output.root) in output.listed:
                file.unlink(missing_ok=True)
        folders = [part for part in (*path.rglob("*"), path) if part.is_dir()]
        for folder in sorted(folders, reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()


@contextmanager
def with_path_in_error(path: Path) -> Iterator[None]:
    """Add this path to write errors that name no file or a temporary file."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    except Exception as error:
        if _is_full(error):
            raise OSError(errno.ENOSPC, str(error).splitlines()[0], str(path)) from error
        raise


def check_folder(out: Path, command: str) -> _Manifest:
    """Check that a folder is new, empty, or belongs to the same command; return its manifest.

    Raises:
        LmmsEgoplanError: the path is a file, or the folder has other content.
    """
    if out.exists() and not out.is_dir():
        raise LmmsEgoplanError(f"--out {out}: is a file; use a folder")
    manifest = _read(out)
    if manifest.command != command and out.is_dir() and any(out.iterdir()):
        if manifest.command:
            owner = f"`lmms-egoplan {manifest.command}` wrote it"
        else:
            owner = "it contains other files"
        raise LmmsEgoplanError(f"--out {out}: {owner}; set a new or empty folder")
    return manifest


@contextmanager
def claimed_folder(out: Path, command: str, inputs: Sequence[Path] = ()) -> Iterator[None]:
    """Create a folder, or reuse one of the same command.

    At the end, list its new files in the manifest.

    Args:
        inputs: paths that the command reads.

    Raises:
        LmmsEgoplanError: the path or a parent is a file; the folder has other content; an input
            would be replaced.
    """
    manifest = check_folder(out, command)
    before = _versions(out)
    listed = before.keys() & {*manifest.files}
    replaced = _names_with_parents(listed)
    for path in inputs:
        if _name(path, out) in replaced:
            raise LmmsEgoplanError(
                f"--out {out} would replace the input {path}; set another folder"
            )
    if manifest.theirs is None:
        foreign = before.keys() - listed - {*manifest.left}
    else:
        foreign = before.keys() & {*manifest.theirs}
    with _writable(out, out) as is_new:
        started = manifest.model_copy(update={"command": command, "theirs": sorted(foreign)})
        _write(out, started)

        def finish() -> None:
            after = _versions(out)
            files = {name for name in after if name in listed or before.get(name) != after[name]}
            if is_new and not files:
                (out / MANIFEST).unlink(missing_ok=True)
                return
            left = after.keys() - files - foreign
            lists = {"files": sorted(files), "theirs": None, "left": sorted(left)}
            _write(out, started.model_copy(update=lists))

        _running.append(_Output(out, listed, foreign))
        try:
            with _finishing(finish):
                yield
        finally:
            _running.pop()


def _names_with_parents(names: Iterable[str]) -> set[str]:
    """Return relative paths with the paths of all folders that contain them."""
    paths = {"."}
    for name in names:
        paths.add(name)
        paths.update(str(parent) for parent in Path(name).parents)
    return paths


@contextmanager
def claimed_file(
    out: Path, command: str, inputs: Sequence[Path] = (), also: Sequence[str] = ()
) -> Iterator[None]:
    """Check that a file is new, or that the same command wrote it.

    At the end, record its command in the manifest.

    Args:
        inputs: paths that the command reads.
        also: see `also_writes`.

    Raises:
        LmmsEgoplanError: the path is a folder or a file of another origin, a parent is a file, or
            an input would be replaced.
    """
    names = {"stem": out.stem, "name": out.name, "suffix": out.suffix}
    paths = [out, *(out.with_name(name.format(**names)) for name in also)]
    earlier_files = {name for name, writer in _read(out.parent).single.items() if writer == command}
    for path in paths:
        if path.is_dir():
            raise LmmsEgoplanError(f"--out {out}: {path} is a folder; set a file")
        if path.resolve() in inputs:
            raise LmmsEgoplanError(f"--out {out} would replace the input {path}; set another file")
        if path.exists() and path.name not in earlier_files:
            raise LmmsEgoplanError(
                f"--out {out}: {path} exists, and `lmms-egoplan {command}` did not write it; "
                "set another file, or move this one"
            )
    with _writable(out.parent, out):
        before = {path: _version(path) for path in paths}

        def finish() -> None:
            written = {}
            for path in paths:
                if path.is_file() and _version(path) != before[path]:
                    written[path.name] = command
            if not written:
                return
            with _locked(out.parent):
                manifest = _read(out.parent)
                single = manifest.single | written
                _write(out.parent, manifest.model_copy(update={"single": single}))

        with _finishing(finish):
            yield


@contextmanager
def _finishing(finish: Callable[[], None]) -> Iterator[None]:
    """Call `finish` at the end, even after an error. The error is raised even if `finish` fails."""
    try:
        yield
    except BaseException:
        with suppress(OSError):
            finish()
        raise
    finish()


@contextmanager
def _writable(folder: Path, out: Path) -> Iterator[bool]:
    """Create a folder and check that it is writable.

    At the end, remove new folders that are still empty.

    Yields:
        True if the folder did not exist.
    """
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    if new_folders and not new_folders[-1].parent.is_dir():
        raise LmmsEgoplanError(
            f"--out {out}: {new_folders[-1].parent} is a file, not a folder; set another path"
        )
    try:
        with with_path_in_error(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"\n")
        yield bool(new_folders)
    finally:
        for path in new_folders:
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Prevent other processes from changing a folder's manifest.

    This has no effect on file systems without locks.
    """
    lock = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _read(folder: Path) -> _Manifest:
    path = folder / MANIFEST
    if not path.is_file():
        return _Manifest()
    return read_as(_Manifest, str(path), read_json(path))


def _write(folder: Path, manifest: _Manifest) -> None:
    """Write the manifest atomically."""
    unfinished = folder / f"{MANIFEST}.{os.getpid()}"
    try:
        unfinished.write_text(json.dumps(manifest.model_dump()) + "\n", encoding="utf-8")
        unfinished.replace(folder / MANIFEST)
    finally:
        unfinished.unlink(missing_ok=True)


def _versions(folder: Path) -> dict[str, tuple[int, int] | None]:
    """Return the version of each file below a folder, by relative path, without the manifest."""
    versions = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if name != MANIFEST:
                path = Path(root, name)
                versions[str(path.relative_to(folder))] = _version(path)
    return versions


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def _name(path: Path, root: Path) -> str | None:
    """Return a path relative to a folder; None if it is outside."""
    resolved = path.parent.resolve() / path.name
    root = root.resolve()
    return str(resolved.relative_to(root)) if resolved.is_relative_to(root) else None


def _is_full(error: Exception) -> bool:
    """Return whether an error means a full or read-only volume.

    Some libraries have errors without a number; these are recognised by their message.
    """
    if getattr(error, "errno", None) in _FULL:
        return True
    message = str(error)
    return any(text in message for text in _FULL_TEXTS)


def _full(error: Exception, out: Path) -> str:
    file = Path(getattr(error, "filename", None) or out).absolute()
    mount = next(path for path in (file, *file.parents) if os.path.ismount(path))
    free = shutil.disk_usage(mount).free
    reason = getattr(error, "strerror", None) or error
    return (
        f"{file}: cannot be written: {reason}. The volume {mount} has {free:,} bytes free. "
        "Free some space, or set another --out."
    )
