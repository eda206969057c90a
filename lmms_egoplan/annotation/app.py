"""Serve the annotation page: control access and save labels.

Each person has a link with a token. Without a token, the server sends nothing. Requests identify
slots, items and media by number only, so no request reaches the file system.
"""

import secrets
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from joblib import cpu_count
from loguru import logger
from starlette.exceptions import HTTPException

from lmms_egoplan.annotation.assignment import NewerLabelError, NotYoursError, Slot
from lmms_egoplan.annotation.clips import KeptImage, Media, MediaFolder
from lmms_egoplan.annotation.database import LEAD, SENIOR, StoreError
from lmms_egoplan.annotation.forms import (
    Form,
    FormError,
    majority,
    read_values,
    with_allowed_options,
)
from lmms_egoplan.annotation.pages import Pages, as_sent, described, message_page, static_file
from lmms_egoplan.annotation.security import Access, Guard, Sent, first, read_form
from lmms_egoplan.annotation.store import Person, Store
from lmms_egoplan.annotation.study import ANNOTATOR, GOLD, QUALIFICATION, TRAINING
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.text import strip_controls

# Maximum length of comments, in characters.
_COMMENT = 2000
# Maximum time spent on an item.
_LONGEST_S = 86_400.0
# Lifetime of a link's cookie.
_COOKIE_S = 180 * 86_400
# Status of the response to each error; 500 for others.
_STATUSES: dict[type[LmmsEgoplanError], int] = {
    FormError: 400,
    NotYoursError: 403,
    NewerLabelError: 409,
    StoreError: 507,
}

# The range of SQLite's integers.
Number = Annotated[int, Path(ge=0, lt=2**63)]
PageNumber = Annotated[int, Query(ge=0, lt=2**31)]


class Site:
    """The server of one database: its store, its flow and its media.

    Attributes:
        cutting_pool: Threads that create clips in advance.
    """

    def __init__(self, store: Store, folder: MediaFolder) -> None:
        self.store = store
        self.flow = store.flow
        self.folder = folder
        self.access = Access(store)
        self.pages = Pages(store, self.access.csrf)
        self.cutting_pool = ThreadPoolExecutor(cpu_count())

    def find(self, token: str) -> Person:
        """Return the person with this token.

        Raises:
            HTTPException: No person has this token.
        """
        person = self.access.person(token)
        if person is None:
            raise HTTPException(
                403, "Open your personal link. Without it, this page shows nothing."
            )
        return person

    def message(self, request: Request, title: str, text: str, status: int) -> HTMLResponse:
        """Answer with a page that shows one message."""
        person = self.access.person(request.cookies.get(self.access.cookie, ""))
        return HTMLResponse(message_page(title, text, person.base if person else None), status)

    def send(self, media: tuple[Media, ...], index: int) -> Response:
        """Send the picture or clip of a form at this index.

        Raises:
            HTTPException: The index is out of range, or the file cannot be read.
        """
        if not 0 <= index < len(media):
            raise _no_such_page()
        try:
            path = self.folder.file(media[index])
        except FrameError as error:
            # Show paths only to the person who started the server.
            logger.error(f"A picture or clip cannot be shown: {error}")
            message = (
                "The picture or clip cannot be shown. Inform the person who started the server."
            )
            raise HTTPException(404, message) from error
        return FileResponse(path, headers={"Cache-Control": "private, max-age=3600"})

    def cut_next(self, person: Person) -> None:
        """Create the clips that a person will most likely need next.

        Errors appear when the item is shown.
        """
        with suppress(LmmsEgoplanError, OSError):
            upcoming = self.store.assignments.upcoming(person.name)
            if upcoming is None:
                return
            item, earlier, stage = upcoming
            for media in self.flow.form(item.contents, earlier, 0, stage).media:
                self.folder.file(media)


@dataclass(frozen=True)
class Session:
    """A person who uses the site."""

    site: Site
    person: Person

    def allow(self, *roles: str) -> None:
        """Refuse people with other roles."""
        if self.person.role not in roles:
            raise HTTPException(403, "This page is not yours.")

    def slot(self, number: int) -> Slot:
        """Return one of the person's own slots."""
        return self.site.store.assignments.slot(number, self.person.name)

    def form(self, slot: Slot) -> Form:
        """Return a slot's form, with the options that its person may use, in a personal order."""
        study = self.site.store.database.study
        # Training, qualification and gold items look like those of the first round.
        stage = slot.stage
        if stage in (TRAINING, QUALIFICATION, GOLD):
            stage = study.rounds[0].name
        form = self.site.flow.form(slot.item.contents, slot.earlier, self._order(slot), stage)
        return with_allowed_options(form, self.site.store.allowed_options(self.person.name))

    def _order(self, slot: Slot) -> int:
        """Return the number of an order of options, which people cannot predict."""
        signature = self.site.access.signature(f"order {slot.person} {slot.item.id}")
        return int.from_bytes(signature[:4], "big")

    def item_page(
        self, slot: Slot, error: str = "", nonce: str | None = None, status: int = 200
    ) -> HTMLResponse:
        """Show a slot with its form."""
        page = self.site.pages.item(
            self.person, slot, self.form(slot), nonce or secrets.token_hex(16), error
        )
        return HTMLResponse(page, status)

    def home(self) -> Response:
        """Redirect to the person's first page."""
        return RedirectResponse(f"{self.person.base}/", 303)


def make_app(store: Store, folder: MediaFolder, hosts: Collection[str] = ()) -> FastAPI:
    """Create the server of one database.

    Args:
        store: The store, opened exclusively.
        folder: The media folder of the store.
        hosts: Known host names, as for `Guard`.
    """
    site = Site(store, folder)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        site.cutting_pool.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.site = site
    app.add_middleware(Guard, hosts=hosts)
    for error_type in (HTTPException, RequestValidationError, OSError, LmmsEgoplanError):
        app.add_exception_handler(error_type, _show_error)
    app.add_api_route("/enter/{token}", enter)
    app.include_router(router)
    app.add_api_route("/{elsewhere:path}", refuse)
    return app


def _show_error(request: Request, error: Exception) -> HTMLResponse:
    site = _site(request)
    if isinstance(error, RequestValidationError):
        error = _no_such_page()
    if isinstance(error, HTTPException):
        return site.message(request, "Not shown", error.detail, error.status_code)
    if isinstance(error, OSError):
        # Show paths only to the person who started the server.
        logger.error(f"{request.url.path} cannot be answered: {error}")
        text = (
            f"The server cannot use one of its files: {error.strerror}. Inform the person who "
            "started it."
        )
        return site.message(request, "Not shown", text, 500)
    title = "Not saved" if request.method == "POST" else "Not shown"
    status = _status(error)
    # Do not show paths of this machine on other machines.
    path = site.store.database.path
    text = f"{str(error).replace(str(path), path.name)}."
    if status >= 500:
        text += (
            " Inform the person who started the server. Then go back in your browser and resend "
            "the form."
        )
    return site.message(request, title, text, status)


def _status(error: Exception) -> int:
    """Return the status of the response to an error."""
    for error_type, status in _STATUSES.items():
        if isinstance(error, error_type):
            return status
    return 500


def _no_such_page() -> HTTPException:
    return HTTPException(404, "There is no such page.")


def _unreadable() -> HTTPException:
    return HTTPException(400, "The form cannot be read.")


def _site(request: Request) -> Site:
    return request.app.state.site


async def _session(request: Request) -> Session:
    site = _site(request)
    session = Session(site, site.find(request.cookies.get(site.access.cookie, "")))
    if not request.url.path.startswith(f"{session.person.base}/"):
        session.allow()
    return session


async def _checked(
    session: Annotated[Session, Depends(_session)], sent: Annotated[Sent, Depends(read_form)]
) -> Sent:
    session.site.access.check(session.person, sent)
    return sent


Visit = Annotated[Session, Depends(_session)]
Checked = Annotated[Sent, Depends(_checked)]
router = APIRouter(prefix="/p/{base}", dependencies=[Depends(_session)])


def enter(token: str, request: Request) -> Response:
    """Set the cookie of a link and redirect to the person's first page."""
    site = _site(request)
    session = Session(site, site.find(token))
    response = session.home()
    response.set_cookie(
        site.access.cookie,
        token,
        max_age=_COOKIE_S,
        path=session.person.base,
        secure=request.url.scheme == "https",
        httponly=True,
    )
    return response


def refuse(request: Request) -> None:
    """Refuse all other addresses."""
    _site(request).find("")


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Send a style sheet or script."""
    path = static_file(name)
    if path is None:
        raise _no_such_page()
    return FileResponse(path)


@router.get("/agreement")
def agreement(session: Visit) -> HTMLResponse:
    """Show the agreement of annotators."""
    session.allow(LEAD)
    return HTMLResponse(session.site.pages.agreement(session.person))


@router.get("/")
def index(session: Visit, page: PageNumber = 0) -> HTMLResponse:
    """Show a person's first page.

    Annotators see their next item, seniors the qualifications to review, and the lead everything.
    """
    site = session.site
    person = session.person
    if person.role == LEAD:
        return HTMLResponse(site.pages.lead(person, page))
    if person.role == SENIOR:
        return HTMLResponse(site.pages.senior(person))
    slot = site.store.assignments.next_slot(person.name)
    if slot is None:
        return HTMLResponse(site.pages.idle(person))
    if not all(isinstance(media, KeptImage) for media in session.form(slot).media):
        site.cutting_pool.submit(site.cut_next, person)
    return session.item_page(slot)


@router.post("/label/{number}")
def label(number: Number, session: Visit, sent: Checked) -> Response:
    """Save a label."""
    session.allow(ANNOTATOR, LEAD)
    site = session.site
    slot = session.slot(number)
    comment = _comment(sent)
    nonce = first(sent, "form")
    if not nonce:
        raise _unreadable()
    form = session.form(slot)
    unsaved = replace(slot, values=as_sent(form, sent), comment=comment)
    try:
        values = site.flow.check(slot.item.contents, read_values(form, sent))
        seen = replace(slot, last=_whole(first(sent, "seen")))
        site.store.save(seen, nonce, values, comment, _seconds(first(sent, "seconds")))
    except FormError as error:
        return session.item_page(unsaved, str(error), nonce, 422)
    except NewerLabelError as error:
        newer = slot.skipped or _described_values(form, slot)
        text = f"{error}. The newer label: {newer}. Save again to replace it"
        return session.item_page(unsaved, text, nonce, 409)
    if slot.stage == TRAINING:
        return RedirectResponse(f"{session.person.base}/label/{number}", 303)
    return session.home()


def _described_values(form: Form, slot: Slot) -> str:
    """Return the values of a slot's label in words."""
    return "; ".join(f"{title}: {text}" for title, text in described(form, slot.values or {}))


@router.get("/label/{number}")
def own_label(number: Number, session: Visit) -> HTMLResponse:
    """Show an item that the person has labelled, for changes."""
    return session.item_page(session.slot(number))


@router.get("/mine")
def mine(session: Visit, words: str = "", page: PageNumber = 0) -> HTMLResponse:
    """List the person's labels."""
    session.allow(ANNOTATOR)
    return HTMLResponse(session.site.pages.mine(session.person, words.strip(), page))


@router.post("/skip/{number}")
def skip(number: Number, session: Visit, sent: Checked) -> Response:
    """Skip an item, with a reason."""
    session.allow(ANNOTATOR)
    slot = session.slot(number)
    nonce = first(sent, "form")
    reason = strip_controls(first(sent, "reason"))[:_COMMENT]
    if not (nonce and reason):
        return session.item_page(slot, "Skip: write why you cannot judge this item", status=422)
    seen = replace(slot, last=_whole(first(sent, "seen")))
    session.site.store.save(seen, nonce, None, skipped=reason)
    return session.home()


@router.post("/release")
def release(session: Visit, sent: Checked) -> Response:
    """Release the open items of a person."""
    session.allow(LEAD)
    session.site.store.assignments.release(first(sent, "person"))
    return session.home()


@router.post("/qualify")
def qualify(session: Visit, sent: Checked) -> Response:
    """Store a senior's verdict on a qualification."""
    session.allow(SENIOR)
    store = session.site.store
    name = first(sent, "person")
    verdict = first(sent, "verdict")
    if verdict not in ("pass", "fail") or name not in [person.name for person in store.people()]:
        raise _unreadable()
    store.judge_qualification(name, session.person.name, _comment(sent), passed=verdict == "pass")
    return session.home()


@router.get("/adjudicate/{position}")
def adjudicate(position: Number, session: Visit) -> HTMLResponse:
    """Show the lead an item to decide on, preset to the majority of the labels."""
    session.allow(LEAD)
    site = session.site
    slot = site.store.adjudicate(position, session.person.name)
    if slot.values is None:
        last_round = [*site.store.assignments.rounds(position)][-1]
        labels = [
            label.values
            for label in site.store.labels_of(position)
            if label.stage == last_round and site.store.is_valid(label)
        ]
        values = majority(session.form(slot), labels)
        slot = replace(slot, values=values)
    return session.item_page(slot)


@router.post("/undecide/{position}", dependencies=[Depends(_checked)])
def undecide(position: Number, session: Visit) -> Response:
    """Withdraw the lead's decision on an item."""
    session.allow(LEAD)
    session.site.store.undo_decision(position)
    return session.home()


@router.get("/item/{position}")
def item(position: Number, session: Visit) -> HTMLResponse:
    """Show an item without a form."""
    session.allow(LEAD, SENIOR)
    return HTMLResponse(session.site.pages.view(session.person, position))


@router.get("/item/{position}/{index}")
def item_media(position: Number, index: Number, session: Visit) -> Response:
    """Send a picture or clip of an item."""
    session.allow(LEAD, SENIOR)
    return session.site.send(session.site.pages.viewed(position).media, index)


@router.get("/media/{number}/{index}")
def media(number: Number, index: Number, session: Visit) -> Response:
    """Send a picture or clip of one of the person's slots."""
    return session.site.send(session.form(session.slot(number)).media, index)


def _comment(sent: Sent) -> str:
    return strip_controls(first(sent, "comment"), keep_lines=True).strip()[:_COMMENT]


def _whole(text: str) -> int:
    """Parse a whole number from the browser; -1 for anything else."""
    is_whole = text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if is_whole else -1


def _seconds(text: str) -> float | None:
    """Parse the browser's time in seconds; None for anything invalid."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(seconds, 1) if 0 <= seconds <= _LONGEST_S else None
