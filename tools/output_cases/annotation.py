"""Labels of people, given over HTTP: the pages, the database, its clips and its export."""

from pathlib import Path
from typing import Any

from output_cases.commands import Commands
from output_cases.inputs import THOUGHTS, prepare_sets, write_answers
from output_cases.store import store_folder, store_text


def annotate() -> None:
    """Label the demo's steps, and rate answers to its questions."""
    from annotation.egointent_labelling import unchanged

    prepare_sets()
    write_answers()
    commands = Commands("commands")
    intents = _open_intents()
    pages = _label(intents, lambda page: unchanged(page), 30)
    store_text("egointent-pages.html", "\n".join(pages))
    store_text("clips.txt", "\n".join(_clips(intents)))
    intents.close()
    thoughts = _open_thoughts()
    pages = _label(thoughts, lambda page: {"rating": "0.5" if len(page) % 2 else "1"}, 20)
    store_text("egothink-pages.html", "\n".join(pages))
    thoughts.close()
    for name in ("egointent", "egothink"):
        commands.run("annotate", "status", f"{name}.sqlite")
        commands.run("annotate", "export", f"{name}.sqlite", "--out", f"labels-{name}")
        store_folder(f"labels-{name}", Path(f"labels-{name}"))
        commands.run("annotate", "backup", f"{name}.sqlite", "--out", f"{name}-copy.sqlite")
    for database in Path().glob("*.sqlite"):
        Path("databases").mkdir(exist_ok=True)
        (Path("databases") / database.name).write_bytes(database.read_bytes())
    store_folder("databases", Path("databases"))


def _open_intents() -> Any:
    from annotation.studies import open_store
    from lmms_egoplan.annotation.egointent import FLOW, read_items
    from lmms_egoplan.annotation.serve import Team

    steps = Path("egointent-steps").resolve()
    return open_store(
        FLOW,
        Path("egointent.sqlite"),
        lambda _: read_items(steps / "steps.jsonl", steps / "videos"),
        "steps",
        Team(2),
    )


def _open_thoughts() -> Any:
    from annotation.studies import open_store
    from lmms_egoplan.annotation.egothink import FLOW, read_items
    from lmms_egoplan.annotation.serve import Team

    return open_store(
        FLOW,
        Path("egothink.sqlite"),
        lambda folder: read_items([Path(THOUGHTS)], folder, ()),
        "answers",
        Team(2, 2),
    )


def _clips(store: Any) -> list[str]:
    """Return each item's form, and the number of frames and the size of its clips.

    Names of clips depend on times, and their bytes on the load of the machine.
    """
    from lmms_egoplan.annotation.egointent import FLOW
    from lmms_egoplan.annotation.serve import media_folder
    from lmms_egoplan.media.frames import count_video_frames, read_video_frames

    folder = media_folder(store.database.path)
    lines = []
    for item in store.items():
        form = FLOW.form(item.contents)
        lines.append(repr(form))
        for part in form.media:
            path = folder.file(part)
            frames = read_video_frames(path, range(count_video_frames(path)))
            lines.append(f"{len(frames)} frames of {frames[0].size}")
    return lines


def _label(store: Any, values_of: Any, count: int) -> list[str]:
    """Give up to a number of labels, one person after another. Return the pages."""
    from annotation.serving import enter, post, served

    pages = []
    with served(store) as address:
        for progress in store.progress():
            client = enter(address, store, progress.person)
            while 'id="label"' in client.page.text and len(pages) < count:
                pages.append(client.page.text)
                assert post(client, **values_of(client.page.text)).status_code == 200
                client.page = client.get("/")
            pages.append(client.page.text)
        lead = enter(address, store, "lead")
        pages.append(lead.page.text)
        pages += [lead.get(path).text for path in ("/item/0", "/item/1")]
    return pages
