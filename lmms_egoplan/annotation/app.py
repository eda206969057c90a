"""The page's server: who may see what, and what is saved.

Each person has a link with a token; nothing is served without one. Requests name slots, items and media by number
alone, so none reaches the file system.
"""

import hmac
import secrets
from collections.abc import AsyncIterator, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import parse_qs, urlsplit

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from joblib import cpu_count
from loguru import logger
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmms_egoplan.annotation import pages
from lmms_egoplan.annotation.assignment import NewerLabelError, NotYoursError, Slot
from lmms_egoplan.annotation.clips import KeptImage, Media, MediaFolder
from lmms_egoplan.annotation.database import ANNOTATOR, LEAD, SENIOR, StoreError
from lmms_egoplan.annotation.flow import Flow
from lmms_egoplan.annotation.forms import Form, FormError, majority, read_values
from lmms_egoplan.annotation.store import Person, Store
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.media.frames import FrameError
from lmms_egoplan.text import clean_text

# Bytes of a form.
_LARGEST = 200_000
_COMMENT = 2000
_NAME = 100
_LONGEST_S = 86_400.0
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self' data:; media-src 'self'; style-src 'self'; "
    "script-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Sent = dict[str, list[str]]
# As SQLite counts.
Number = Annotated[int, Path(ge=0, lt=2**63)]
PageNumber = Annotated[int, Query(ge=0, lt=2**31)]


def make_app(store: Store, flow: Flow, folder: MediaFolder, hosts: Collection[str] = ()) -> FastAPI:
    """The server of one database.

    Args:
        store: open, alone.
        flow: of its benchmark.
        folder: with its media.
        hosts: names under which the server is asked; addresses and ``localhost`` are, too.
    """
    # Cuts clips before they are asked for.
    ahead = ThreadPoolExecutor(cpu_count())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        ahead.shutdown(wait=False, cancel_futures=True)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    own = APIRouter(prefix="/p/{base}")
    secret = store.secret.encode()
    # Cookies do not tell ports apart: servers of two databases must not take each other's.
    cookie = f"annotate-{store.mark}"

    def read_people() -> dict[bytes, Person]:
        # By the tokens' digests, so that the time of a look-up tells nothing of a token.
        return {sha256(person.token.encode()).digest(): person for person in store.people() if not person.is_closed}

    people = read_people()

    def look_up(token: str) -> Person | None:
        return people.get(sha256(token.encode("utf-8", "replace")).digest())

    def base_of(request: Request) -> str | None:
        person = look_up(request.cookies.get(cookie, ""))
        return person and person.base

    def find(token: str) -> Person:
        person = look_up(token)
        if person is None:
            raise HTTPException(403, "Open the link that you were given: without it, nothing is shown.")
        return person

    async def who(request: Request) -> Person:
        person = find(request.cookies.get(cookie, ""))
        if not request.url.path.startswith(f"{person.base}/"):
            raise HTTPException(403, "This page is not yours.")
        return person

    def csrf(person: Person) -> str:
        return hmac.new(secret, f"csrf {person.token}".encode(), sha256).hexdigest()

    async def read_body(request: Request) -> Sent:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _LARGEST:
                raise HTTPException(413, "The form is too large.")
        try:
            return parse_qs(
                body.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=5000
            )
        except ValueError as error:
            raise HTTPException(400, "The form cannot be read.") from error

    Who = Annotated[Person, Depends(who)]

    async def checked(person: Who, sent: Annotated[Sent, Depends(read_body)]) -> Sent:
        if not hmac.compare_digest(csrf(person).encode(), _one(sent, "csrf").encode()):
            raise HTTPException(403, "This form is not of this page. Go back, load the page anew and send it again.")
        return sent

    Checked = Annotated[Sent, Depends(checked)]

    def only(person: Person, *roles: str) -> None:
        if person.role not in roles:
            raise HTTPException(403, "This page is not yours.")

    def form_of(slot: Slot) -> Form:
        order = int.from_bytes(
            hmac.new(secret, f"order {slot.person} {slot.item.id}".encode(), sha256).digest()[:4], "big"
        )
        return flow.form(slot.item.shown, slot.earlier, order)

    shown = pages.Pages(flow, store, csrf)

    def item_page(person: Person, slot: Slot, error: str = "", nonce: str | None = None) -> str:
        return shown.item(person, slot, form_of(slot), nonce or secrets.token_hex(16), error)

    def cut_next(person: Person) -> None:
        """Make what a person will most likely be shown next; what is wrong with it is told when it is shown."""
        with suppress(LmmsEgoplanError, OSError):
            if upcoming := store.upcoming(person.name):
                item, earlier = upcoming
                for media in flow.form(item.shown, earlier, 0).media:
                    folder.file(media)

    app.add_middleware(_Guard, hosts={"localhost", *(host.lower() for host in hosts)})

    @app.exception_handler(HTTPException)
    def tell_http(request: Request, error: HTTPException) -> HTMLResponse:
        return HTMLResponse(pages.message_page("Not shown", error.detail, base_of(request)), error.status_code)

    @app.exception_handler(RequestValidationError)
    def tell_wrong_address(request: Request, _: RequestValidationError) -> HTMLResponse:
        return HTMLResponse(pages.message_page("Not shown", "There is no such page.", base_of(request)), 404)

    @app.exception_handler(OSError)
    def tell_failure(request: Request, error: OSError) -> HTMLResponse:
        # Paths are for whoever started the server alone.
        logger.error(f"{request.url.path} cannot be answered: {error}")
        text = f"The server cannot use one of its files: {error.strerror}. Tell whoever started it."
        return HTMLResponse(pages.message_page("Not shown", text, base_of(request)), 500)

    @app.exception_handler(LmmsEgoplanError)
    def tell(request: Request, error: LmmsEgoplanError) -> HTMLResponse:
        statuses = {FormError: 400, NotYoursError: 403, NewerLabelError: 409, StoreError: 507}
        status = next((number for kind, number in statuses.items() if isinstance(error, kind)), 500)
        title = "Not saved" if request.method == "POST" else "Not shown"
        advice = " Tell whoever started the server; then go back in your browser and send the form again."
        text = "" if status < 500 else advice
        # Paths of this machine are nobody's business on another one.
        what = str(error).replace(str(store.path), store.path.name)
        return HTMLResponse(pages.message_page(title, f"{what}.{text}", base_of(request)), status)

    @app.get("/enter/{token}")
    def enter(token: str, request: Request) -> Response:
        person = find(token)
        response = RedirectResponse(f"{person.base}/", 303)
        secure, lasting = request.url.scheme == "https", 180 * 86_400
        response.set_cookie(cookie, person.token, lasting, None, person.base, secure=secure, httponly=True)
        return response

    @own.get("/static/{name}")
    def static(name: str, person: Who) -> Response:
        path = pages.static_file(name)
        if path is None:
            raise HTTPException(404, "There is no such page.")
        return FileResponse(path)

    @own.get("/agreement")
    def agreement(person: Who) -> HTMLResponse:
        only(person, LEAD)
        return HTMLResponse(shown.agreement(person))

    @own.get("/")
    def index(person: Who, page: PageNumber = 0) -> HTMLResponse:
        if person.role == LEAD:
            return HTMLResponse(shown.lead(person, page))
        if person.role == SENIOR:
            return HTMLResponse(shown.senior(person))
        slot = store.next_slot(person.name)
        if slot is None:
            return HTMLResponse(shown.idle(person))
        if not all(isinstance(media, KeptImage) for media in form_of(slot).media):
            ahead.submit(cut_next, person)
        return HTMLResponse(item_page(person, slot))

    @own.post("/label/{number}")
    def label(number: Number, person: Who, sent: Checked) -> Response:
        only(person, ANNOTATOR, LEAD)
        slot = store.slot(number, person.name)
        comment = _one(sent, "comment").strip()[:_COMMENT]
        nonce = _one(sent, "form")
        if not nonce:
            raise HTTPException(400, "The form cannot be read.")
        form = form_of(slot)
        kept = replace(slot, values=pages.as_sent(form, sent), comment=comment)
        try:
            values = flow.check(slot.item.shown, read_values(form, sent))
            seen = replace(slot, last=_whole(_one(sent, "seen")))
            store.save(seen, nonce, values, comment, _seconds(_one(sent, "seconds")))
        except FormError as error:
            return HTMLResponse(item_page(person, kept, str(error), nonce), 422)
        except NewerLabelError as error:
            newer = [f"{title}: {text}" for title, text in pages.described(form, slot.values or {})]
            told = f"{error}. It has: {slot.skipped or '; '.join(newer)}. Save again to replace that"
            return HTMLResponse(item_page(person, kept, told, nonce), 409)
        return RedirectResponse(f"{person.base}/", 303)

    @own.get("/label/{number}")
    def own_label(number: Number, person: Who) -> HTMLResponse:
        return HTMLResponse(item_page(person, store.slot(number, person.name)))

    @own.get("/mine")
    def mine(person: Who, words: str = "", page: PageNumber = 0) -> HTMLResponse:
        only(person, ANNOTATOR)
        return HTMLResponse(shown.mine(person, words.strip(), page))

    @own.post("/skip/{number}")
    def skip(number: Number, person: Who, sent: Checked) -> Response:
        only(person, ANNOTATOR)
        slot = store.slot(number, person.name)
        nonce, reason = _one(sent, "form"), " ".join(_one(sent, "reason").split())[:_COMMENT]
        if not (nonce and reason):
            return HTMLResponse(item_page(person, slot, "Skip: write why you cannot judge this item"), 422)
        store.save(replace(slot, last=_whole(_one(sent, "seen"))), nonce, None, skipped=reason)
        return RedirectResponse(f"{person.base}/", 303)

    @own.post("/people/{change}")
    def change_person(change: Literal["name", "close", "renew"], person: Who, sent: Checked) -> Response:
        nonlocal people
        only(person, LEAD)
        name = _one(sent, "person")
        if name not in [other.name for other in store.people() if other.role != LEAD]:
            raise HTTPException(400, "The form cannot be read.")
        if change == "name":
            store.call(name, clean_text(" ".join(_one(sent, "called").split())[:_NAME]))
        else:
            store.change_link(name, is_closed=change == "close")
        people = read_people()
        return RedirectResponse(f"{person.base}/", 303)

    @own.post("/release")
    def release(person: Who, sent: Checked) -> Response:
        only(person, LEAD)
        store.release(_one(sent, "person"))
        return RedirectResponse(f"{person.base}/", 303)

    @own.post("/qualify")
    def qualify(person: Who, sent: Checked) -> Response:
        only(person, SENIOR)
        name, verdict = _one(sent, "person"), _one(sent, "verdict")
        if verdict not in ("pass", "fail") or name not in [known.name for known in store.people()]:
            raise HTTPException(400, "The form cannot be read.")
        store.judge_qualification(name, person.name, verdict == "pass", _one(sent, "comment").strip()[:_COMMENT])
        return RedirectResponse(f"{person.base}/", 303)

    @own.get("/adjudicate/{position}")
    def adjudicate(position: Number, person: Who) -> HTMLResponse:
        only(person, LEAD)
        if not flow.is_adjudicated:
            raise HTTPException(404, "There is no such page.")
        slot = store.adjudicate(position, person.name)
        if slot.values is None:
            labels = store.labelled().of(slot.item, flow.stages[-1].name)
            slot = replace(slot, values=majority(form_of(slot), [label.values for label in labels]))
        return HTMLResponse(item_page(person, slot))

    @own.post("/undecide/{position}")
    def undecide(position: Number, person: Who, sent: Checked) -> Response:
        only(person, LEAD)
        store.undo_decision(position)
        return RedirectResponse(f"{person.base}/", 303)

    @own.get("/item/{position}")
    def item(position: Number, person: Who) -> HTMLResponse:
        only(person, LEAD, SENIOR)
        return HTMLResponse(shown.view(person, position))

    def send(media: tuple[Media, ...], place: int) -> Response:
        if not 0 <= place < len(media):
            raise HTTPException(404, "There is no such page.")
        try:
            path = folder.file(media[place])
        except FrameError as error:
            # Paths are for whoever started the server alone.
            logger.error(f"A picture or clip cannot be shown: {error}")
            raise HTTPException(404, "The picture or clip cannot be shown. Tell whoever started the server.") from error
        return FileResponse(path, headers={"Cache-Control": "private, max-age=3600"})

    @own.get("/item/{position}/{place}")
    def item_media(position: Number, place: Number, person: Who) -> Response:
        only(person, LEAD, SENIOR)
        return send(flow.form(store.item(position).shown, (), 0).media, place)

    @own.get("/media/{number}/{place}")
    def media(number: Number, place: Number, person: Who) -> Response:
        return send(form_of(store.slot(number, person.name)).media, place)

    app.include_router(own)

    @app.get("/{elsewhere:path}")
    def refuse() -> None:
        find("")

    return app


class _Guard:
    """Refuses unknown hosts, whose pages could read ours; adds `_HEADERS` to answers that do not have them."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if self._is_known(Headers(scope=scope).get("host", "")):
            await self._app(scope, receive, send_more)
        else:
            text = "This server has another name. Open the link as it was given to you."
            await HTMLResponse(pages.message_page("Not shown", text, None), 421)(scope, receive, send_more)

    def _is_known(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            return name in self._hosts or bool(ip_address(name))
        except ValueError:
            return False


def _one(sent: Sent, name: str) -> str:
    return sent.get(name, [""])[0]


def _whole(text: str) -> int:
    """A whole number that a browser sent back; -1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def _seconds(text: str) -> float | None:
    """What the browser has counted; None for anything that is no such time."""
    try:
        seconds = float(text)
    except ValueError:
        return None
    return round(seconds, 1) if 0 <= seconds <= _LONGEST_S else None
