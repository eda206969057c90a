"""Say what a folder contains instead of the expected videos, frames or images.

Nothing here is guessed silently: a message names what was found, and what to pass or to run.
"""

import os
import re
import shlex
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from lmms_egoplan.text import join_list

_ARCHIVE = re.compile(r".+?(\.zip|\.tgz|\.tar(?:\.[a-z0-9]+)?)", re.IGNORECASE)
_FRAME = re.compile(r"frame_\d+\.jpg", re.IGNORECASE)
# A wrong folder is searched this far, so that a message comes within a second.
_MOST_ENTRIES = 20_000
_MOST_IN_FOLDER = 2_000
_LEVELS = 6
# Levels above and below a wrong folder at which a right one is named.
_LEVELS_UP = 3
_LEVELS_DOWN = 2


@dataclass(frozen=True)
class Layout:
    """The expected content of a folder.

    Attributes:
        option: Option that names the folder, such as ``--ego4d``; "" for an argument.
        names: Names of the expected items, such as ids of videos.
        item: Singular noun for an item.
        example: Path of the first item below the folder.
        count: Function of any folder: the number of items that it contains at their places.
        has_folders: True if each item is a folder of frames, false if it is a file.
        url: Address of the publisher.
    """

    option: str
    names: Sequence[str]
    item: str
    example: str
    count: Callable[[Path], int]
    has_folders: bool = False
    url: str = ""

    def argument(self, folder: Path) -> str:
        """Return what to type for a folder."""
        return f"{self.option} {shlex.quote(str(folder))}".strip()


def no_folder(path: Path, layout: Layout) -> str:
    """Explain in one line why a path that is not a folder cannot be used."""
    problem = f"{layout.option} {path}:".strip()
    if not path.exists():
        download = f" (download: {layout.url})" if layout.url else ""
        return f"{problem} no such folder; pass a folder with {layout.example}{download}"
    if _archive_suffix(path):
        target = path.with_name(path.name.removesuffix(_archive_suffix(path)))
        return (
            f"{problem} is an archive; extract it and pass the folder: "
            f"{_extraction([path], target)}"
        )
    return f"{problem} is a file; pass a folder with {layout.example}"


def all_missing(root: Path, layout: Layout) -> str:
    """Explain in one line that a folder contains no item at its place, and what it contains."""
    number = len(layout.names)
    if number == 1:
        problem = f"the {layout.item} {layout.names[0]} is missing"
    else:
        first = ", ".join(layout.names[:3])
        more = ", ..." if number > 3 else ""
        problem = f"all {number:,} {layout.item}s are missing ({first}{more})"
    return f"{layout.option} {root}: {problem}. {_finding(root, layout)}".strip()


def _finding(root: Path, layout: Layout) -> str:
    """Describe the first mistake that explains why nothing is at its place."""
    better = _better_folder(root, layout)
    if better is not None:
        folder, number = better
        what = _items(number, layout)
        return f"Found {what} in {folder}; did you mean {layout.argument(folder)}?"
    entries = list(_entries_below(root))
    expected = f"expected {root / layout.example}"
    if not entries:
        neighbours = [path for path in _listing(root.parent) if _archive_suffix(path)]
        if neighbours:
            command = _extraction(neighbours, root)
            return f"The folder is empty. Extract {neighbours[0]} next to it: {command}"
        download = f" (download: {layout.url})" if layout.url else ""
        return f"The folder is empty; {expected}{download}"
    description = (
        _archives(entries, root, layout)
        or _other_spellings(entries, layout)
        or _stray_frames(entries, layout)
    )
    if description:
        return f"{description}; {expected}"
    names = [f"{path.name}/" if path.is_dir() else path.name for path in _listing(root)]
    return f"The folder contains {join_list(names, 3)}; {expected}"


def _items(number: int, layout: Layout) -> str:
    """Return how many of the items were found."""
    if number == len(layout.names):
        return "it" if number == 1 else "all of them"
    return f"{number:,} of them"


def _better_folder(root: Path, layout: Layout) -> tuple[Path, int] | None:
    """Return the folder above or below `root` with the most items at their places."""
    absolute = root.absolute()
    folders = list(absolute.parents[:_LEVELS_UP])
    level = [absolute]
    for _ in range(_LEVELS_DOWN):
        level = [path for folder in level for path in _listing(folder, 100) if path.is_dir()]
        folders += level
    counts = [(layout.count(folder), folder) for folder in folders]
    number, folder = max(counts, key=lambda pair: pair[0], default=(0, absolute))
    if number == 0:
        return None
    return (folder if root.is_absolute() else Path(os.path.relpath(folder))), number


def _archives(entries: Sequence[Path], root: Path, layout: Layout) -> str:
    """Describe archives in place of the items."""
    archives = [path for path in entries if _archive_suffix(path)]
    if not archives:
        return ""
    names = {name.lower() for name in layout.names}
    of_items = [path for path in archives if _without_archive_suffix(path).lower() in names]
    chosen = of_items or archives
    target: Path | Literal["own folder", "same folder"] = root
    if of_items and layout.has_folders:
        target = "same folder" if _top_folder(of_items[0]) else "own folder"
    command = _extraction(chosen, target)
    return f"Found {_counted(chosen, 'archive')}. Extract {_it(chosen)}: {command}"


def _other_spellings(entries: Sequence[Path], layout: Layout) -> str:
    """Describe files and folders whose name is that of an item, except for case and suffix."""
    names = {name.lower() for name in layout.names}
    similar_paths = [path for path in entries if path.stem.lower() in names]
    folders = [path for path in similar_paths if path.is_dir()]
    files = [path for path in similar_paths if not path.is_dir()]
    if layout.has_folders and folders:
        with_frames = [path for path in folders if has_frames(path)]
        if with_frames:
            what = _counted(with_frames, "folder")
            return f"Found {what} with frames. Move or rename {_it(with_frames)}"
        inside = [path.name for path in _listing(folders[0])][:1]
        content = f"which contains {inside[0]}" if inside else "which is empty"
        return f"Found {_counted(folders, 'folder')}, {content}, no frame_0000000001.jpg"
    if layout.has_folders and files:
        return (
            f"Found {_counted(files, 'file')}, not frames. Download the RGB frames "
            f"(--rgb-frames of the downloader; {layout.url})"
        )
    if files:
        suffix = files[0].suffix
        wanted = Path(layout.example).suffix
        if suffix.lower() == wanted and suffix != wanted:
            pattern = f"{shlex.quote(str(files[0].parent))}/*{suffix}"
            return (
                f"Found {_counted(files, 'file')}. Rename {_it(files)}: for f in {pattern}; do "
                f'mv "$f" "${{f%{suffix}}}{wanted}"; done'
            )
        return f"Found {_counted(files, 'file')}. Rename or convert {_it(files)}"
    return ""


def _stray_frames(entries: Sequence[Path], layout: Layout) -> str:
    """Describe frames without a folder of their video."""
    if not layout.has_folders:
        return ""
    frames = [path for path in entries if _FRAME.fullmatch(path.name)]
    if not frames:
        return ""
    folder = frames[0].parent
    return (
        f"Found frames directly in {folder}, such as {frames[0].name}. Move each video's frames "
        "to a folder with the video's name; if frames of several videos were extracted here, "
        "extract their archives again"
    )


def count_files(folder: Path, names: Iterable[str]) -> int:
    """Count the files of these names in a folder; 0 if it cannot be read."""
    try:
        return len(set(names).intersection(os.listdir(folder)))  # noqa: PTH208
    except OSError:
        return 0


def has_frames(folder: Path) -> bool:
    """Return whether one of the first files of a folder is named like a frame."""
    return any(_FRAME.fullmatch(path.name) for path in _listing(folder, 100))


def _counted(paths: Sequence[Path], noun: str) -> str:
    """Return a path, or the number of paths with an example."""
    if len(paths) == 1:
        return f"the {noun} {paths[0]}"
    return f"{len(paths):,} {noun}s, such as {paths[0]}"


def _it(paths: Sequence[Path]) -> str:
    return "it" if len(paths) == 1 else "them"


def _extraction(
    archives: Sequence[Path], target: Path | Literal["own folder", "same folder"]
) -> str:
    """Return the command that extracts archives.

    Args:
        archives: At least one. Those with another suffix or depth than the first are omitted.
        target: Folder to extract to: one for all archives, one for each, named after it, or the
            folder that contains the archive.
    """
    first = archives[0]
    suffix = _archive_suffix(first)
    similar = [
        path
        for path in archives
        if _archive_suffix(path) == suffix and len(path.parts) == len(first.parts)
    ]
    program = "unzip -q {} -d" if suffix.lower() == ".zip" else "tar -xf {} -C"
    if isinstance(target, Path):
        folder = shlex.quote(str(target))
    elif target == "own folder":
        folder = f'"${{f%{suffix}}}"'
    else:
        folder = '"$(dirname "$f")"'
    if len(similar) == 1 and isinstance(target, Path):
        return f"mkdir -p {folder} && {program.format(shlex.quote(str(first)))} {folder}"
    parts = [shlex.quote(names[0]) if len({*names}) == 1 else "*" for names in _columns(similar)]
    pattern = os.path.join(*parts[:-1], f"*{suffix}")  # noqa: PTH118
    extract = program.format('"$f"')
    return f"for f in {pattern}; do mkdir -p {folder} && {extract} {folder}; done"


def _columns(paths: Sequence[Path]) -> Iterator[tuple[str, ...]]:
    """Yield the parts of all paths at each depth. The paths have the same depth."""
    return zip(*(path.parts for path in paths), strict=True)


def _archive_suffix(path: Path) -> str:
    """Return the suffix of an archive, such as ``.tar.gz``; "" for other files."""
    match = _ARCHIVE.fullmatch(path.name)
    return match[1] if match and not path.is_dir() else ""


def _without_archive_suffix(path: Path) -> str:
    return path.name.removesuffix(_archive_suffix(path))


def _top_folder(archive: Path) -> str:
    """Return the folder of an archive's first file; "" without a folder, or if it is damaged."""
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                names = zipped.namelist()
        else:
            with tarfile.open(archive) as tar:
                names = [member.name for member in islice(tar, 100) if member.isfile()]
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile):
        return ""
    folder, separator, _ = next(iter(names), "").removeprefix("./").partition("/")
    return folder if separator else ""


def _listing(folder: Path, limit: int = _MOST_IN_FOLDER) -> list[Path]:
    """Return the first visible entries of a folder, sorted; none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            visible = (entry.name for entry in entries if not entry.name.startswith("."))
            return [folder / name for name in sorted(islice(visible, limit))]
    except OSError:
        return []


def _entries_below(root: Path) -> Iterator[Path]:
    """Yield entries below a folder, those of higher levels first, within the limits."""
    level = [root]
    remaining = _MOST_ENTRIES
    for _ in range(_LEVELS):
        below: list[Path] = []
        for folder in level:
            limit = 100 if has_frames(folder) else _MOST_IN_FOLDER
            entries = _listing(folder, min(limit, remaining))
            remaining -= len(entries)
            yield from entries
            below += [path for path in entries if path.is_dir() and not path.is_symlink()]
            if remaining <= 0:
                return
        level = below
