import re
import socket
from dataclasses import replace

import httpx
import pytest

from annotation.rating import Rating, new_store
from annotation.serving import Client, enter, form_in, post, served
from lmms_egoplan.annotation.clips import Still
from lmms_egoplan.annotation.forms import Picture
from lmms_egoplan.annotation.serve import listen


class Seen(Rating):
    """A flow that also shows a frame of this file."""

    def form(self, contents, earlier=(), order=0, stage=""):
        form = super().form(contents, earlier, order, stage)
        return replace(form, parts=(*form.parts, Picture("Frame", Still(__file__, 0))))


@pytest.fixture
def make(tmp_path):
    """A server of a new database, as (address, store)."""
    contexts = []

    def start(count=4, annotators=3, per_item=2, flow=Rating, name="labels.sqlite", **settings):
        store = new_store(tmp_path / name, count, annotators, per_item, flow, **settings)
        context = served(store)
        contexts.append((context, store))
        return context.__enter__(), store

    yield start
    for context, store in contexts:
        context.__exit__(None, None, None)
        store.close()


def test_responses_do_not_wait_for_acknowledgements():
    with (
        listen("127.0.0.1", 0) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_requests_without_a_link_are_refused(make):
    address, store = make()
    stranger = Client(address)
    base = enter(address, store, "lead").base
    pages = ["/", "/static/style.css", "/media/1/0", "/item/0", "/item/0/0", "/adjudicate/0"]
    answers = [stranger.get(path) for path in ["/enter/x", *pages]]
    stranger.base = base
    answers += [stranger.get(path) for path in pages]
    assert [
        str(answer.url)
        for answer in answers
        if answer.status_code != 403 or "text 0" in answer.text
    ] == []


def test_no_path_reaches_the_file_system(make):
    address, store = make()
    client = enter(address, store, "annotator-1")
    paths = [
        "/docs",
        "/openapi.json",
        "/redoc",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/media/1/../../x",
    ]
    answers = {path: client.get(path) for path in paths}
    assert [
        path
        for path, answer in answers.items()
        if answer.status_code not in (403, 404, 422) or "import" in answer.text
    ] == []


def test_headers_cookie_and_escaping(make):
    address, store = make()
    token = store.people()[-1].token
    answer = httpx.get(f"{address}/enter/{token}", verify=False)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    page = enter(address, store, "annotator-1").page
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "style=" not in page.text
    assert not re.search(r"<script(?! src=)|\son\w+=", page.text)
    assert "&lt;b&gt;text" in page.text
    assert not re.search("<b>text|secret-model", page.text)


def test_saving_a_label_shows_the_next_item(make):
    address, store = make(count=2, annotators=1, per_item=1)
    client = enter(address, store, "annotator-1")
    first = form_in(client.page.text)[0]
    assert "labelled 0 items. Your share is about 2; 2 left" in client.page.text
    comment = " <i>o\x00d\u202ed</i> \ufeff\tL\u200dR\u200f\r\n\x9b2\x07 "
    page = post(client, rating="1", comment=comment, seconds="3.26")
    assert page.status_code == 200
    assert "labelled 1 item. Your share is about 2; 1 left" in page.text
    assert form_in(page.text)[0] != first
    (label,) = next(iter(store.labelled().labels.values()))
    assert (label.values, label.comment, label.seconds) == (
        {"rating": "1"},
        "<i>odd</i> \tL\u200dR\u200f\n2",
        3.3,
    )
    page = post(client, rating="0")
    assert 'id="label"' not in page.text
    assert "labelled 2 items. Your share is about 2; 0 left" in page.text


def test_invalid_input_is_not_saved_and_keeps_the_comment(make):
    address, store = make()
    client = enter(address, store, "annotator-1")
    for values in ({}, {"rating": "2"}, {"rating": ["0", "1"]}):
        page = post(client, comment="to keep", **values)
        assert (page.status_code, "to keep" in page.text) == (422, True)
        assert store.labelled().labels == {}
    assert post(client, rating="1", comment="x" * 300_000).status_code == 413
    client.page = client.get("/")
    assert post(client, rating="1").status_code == 200
    assert len(store.labelled().labels) == 1


def test_resubmission_with_another_choice_is_a_correction(make):
    """This happens after going back in the browser. Identical submissions count once."""
    address, store = make()
    client = enter(address, store, "annotator-1")
    where, hidden = form_in(client.page.text)
    for rating, rows in (("0", 1), ("0", 1), ("1", 2)):
        assert client.post(where, data=hidden | {"rating": rating}).status_code == 200
        assert len(store.database.rows("SELECT id FROM history")) == rows
    ((label,),) = store.labelled().labels.values()
    assert label.values == {"rating": "1"}


def test_invalid_addresses_return_404(make):
    address, store = make()
    lead, stranger = enter(address, store, "lead"), Client(address)
    stranger.base = lead.base
    huge = "99999999999999999999"
    paths = [f"/media/{huge}/0", "/media/x/0", "/media/1/-1", "/item/x", f"/item/1/{huge}"]
    statuses = {
        path: (lead.get(path).status_code, stranger.get(path).status_code) for path in paths
    }
    assert statuses == dict.fromkeys(paths, (404, 403))


def test_write_error_does_not_reveal_the_path(make, tmp_path):
    address, store = make(flow=Seen, name="seen.sqlite")
    (tmp_path / "seen.sqlite.media").write_text("no folder")
    answer = enter(address, store, "annotator-1").get("/media/1/0")
    assert answer.status_code == 500
    assert "The server cannot use one of its files" in answer.text
    assert str(tmp_path) not in answer.text


def test_foreign_forms_are_refused(make):
    address, store = make()
    client, other = enter(address, store, "annotator-1"), enter(address, store, "annotator-2")
    where, hidden = form_in(client.page.text)
    assert client.post(where, data=hidden | {"csrf": "x", "rating": "1"}).status_code == 403
    assert client.post(where, data={"rating": "1"}).status_code == 403
    assert other.post(where, data=hidden | {"rating": "1"}).status_code == 403
    csrf = form_in(other.page.text)[1]["csrf"]
    assert other.post(where, data=hidden | {"csrf": csrf, "rating": "1"}).status_code == 403
    assert other.get(where.replace("label", "media") + "/0").status_code == 403
    assert other.post("/release", data={"csrf": csrf, "person": "annotator-1"}).status_code == 403
    assert store.labelled().labels == {}


def test_lead_sees_all_labels_and_decides(make):
    address, store = make(count=1, annotators=2, per_item=2)
    refused = enter(address, store, "lead").get("/adjudicate/0")
    assert (refused.status_code, "0 of 2" in refused.text) == (403, True)
    for name, rating in (("annotator-1", "0"), ("annotator-2", "1")):
        post(enter(address, store, name), rating=rating, comment=f"by {name}")
    lead = enter(address, store, "lead")
    for text in ("annotator-1", "by annotator-2", "2 of 2", "/adjudicate/0"):
        assert text in lead.page.text
    assert "Krippendorff" in lead.get("/agreement").text
    lead.page = lead.get("/adjudicate/0")
    assert "annotator-2" in lead.page.text
    assert "/undecide/0" in post(lead, rating="1").text
    labelled = store.labelled()
    assert labelled.adjudicated(labelled.items[0]).values == {"rating": "1"}
    assert enter(address, store, "annotator-1").get("/adjudicate/0").status_code == 403


def test_decision_page_reads_one_item(make, monkeypatch):
    address, store = make(count=2, annotators=2, per_item=2)
    for name, rating in (("annotator-1", "0"), ("annotator-2", "1")):
        post(enter(address, store, name), rating=rating, comment=f"by {name}")
    lead = enter(address, store, "lead")
    monkeypatch.delattr(type(store), "labelled")
    page = lead.get("/adjudicate/0").text
    assert "by annotator-1" in page
    assert "by annotator-2" in page


def test_seniors_review_qualifications(make):
    address, store = make(count=3, annotators=1, per_item=1, qualification=1, seniors=2)
    client = enter(address, store, "annotator-1")
    assert 'id="label"' not in post(client, rating="1").text
    for name in ("senior-1", "senior-2"):
        senior = enter(address, store, name)
        assert "/item/0" in senior.page.text
        assert "text/" in senior.get("/item/0").text
        post(senior, "/qualify", verdict="pass")
    client.page = client.get("/")
    post(client, rating="1")
    assert 'id="label"' not in post(client, rating="1").text


def test_full_disk_is_reported_and_the_form_can_be_resent(make):
    address, store = make()
    client = enter(address, store, "annotator-1")
    where, hidden = form_in(client.page.text)
    (pages,) = store.database._connection.execute("PRAGMA page_count").fetchone()
    store.database._connection.execute(f"PRAGMA max_page_count = {pages}")
    data = hidden | {"rating": "1", "comment": "x" * 2000}
    for _ in range(20):
        answer = client.post(where, data=data)
        if answer.status_code == 507:
            break
        data["comment"] = data["comment"][1:]
    assert answer.status_code == 507
    assert str(store.database.path.parent) not in answer.text
    store.database._connection.execute(f"PRAGMA max_page_count = {pages + 100}")
    assert client.post(where, data=data).status_code == 200
    assert len(store.labelled().labels) == 1


def test_skipped_item_is_shown_to_the_lead_and_reassigned(make):
    address, store = make(count=1, annotators=3, per_item=2)
    client = enter(address, store, "annotator-1")
    for empty in ("  ", "\x00\u202e \ufeff\x9f"):
        assert post(client, "/skip/", reason=empty).status_code == 422
    assert post(client, "/skip/", reason="too <b>dark</b>\n\x1b\u2066by far").status_code == 200
    assert 'id="label"' not in client.page.text
    mine = client.get("/mine").text
    assert "too &lt;b&gt;dark&lt;/b&gt; by far" in mine
    assert (
        "too &lt;b&gt;dark"
        in client.get(re.search(r'href="(/p/[^"]+/label/[0-9]+)"', mine)[1]).text
    )
    lead = enter(address, store, "lead")
    assert "too &lt;b&gt;dark&lt;/b&gt; by far" in lead.page.text
    assert lead.get("/adjudicate/0").status_code == 200
    for name in ("annotator-2", "annotator-3"):
        assert post(enter(address, store, name), rating="1").status_code == 200
    assert len(store.labelled().labels["text/0"]) == 2


def test_annotators_find_and_change_their_labels(make):
    address, store = make(count=3, annotators=2, per_item=1)
    client = enter(address, store, "annotator-1")
    for number in range(3):
        post(client, rating="0", comment=f"comment {number}")
    page = client.get("/mine", params={"words": "Comment 1"}).text
    (path,) = re.findall(r'href="(/p/[^"]+/label/[0-9]+)"', page)
    assert "&lt;b&gt;text " in page
    assert ", Rating, <time" in page
    assert "text/" not in page  # An item's id may name the model.
    client.page = client.get(path)
    assert 'value="0" required checked' in client.page.text
    assert post(client, rating="1").status_code == 200
    assert sorted(
        label.values["rating"] for labels in store.labelled().labels.values() for label in labels
    ) == list("001")
    other = enter(address, store, "annotator-2")
    assert other.get(f"/label/{path.rpartition('/')[2]}").status_code == 403
    assert "label/" not in other.get("/mine").text
    assert client.get("/mine?page=1").status_code == 200
    assert client.get("/mine?page=-1").status_code == 404
    assert enter(address, store, "lead").get("/mine").status_code == 403


@pytest.mark.parametrize("newer", ["label", "skip"])
def test_stale_form_asks_before_replacing_a_newer_label(make, newer):
    address, store = make(count=1, annotators=1, per_item=1)
    first_tab, second_tab = (
        enter(address, store, "annotator-1"),
        enter(address, store, "annotator-1"),
    )
    if newer == "label":
        post(first_tab, rating="1", comment="newer")
    else:
        post(first_tab, "/skip/", reason="too dark")
    assert post(second_tab, rating="0").status_code == 409
    assert ("Rating: 1" if newer == "label" else "too dark") in second_tab.page.text
    labels = [
        label.values for item_labels in store.labelled().labels.values() for label in item_labels
    ]
    assert labels == ([{"rating": "1"}] if newer == "label" else [])
    assert post(second_tab, rating="0").status_code == 200
    assert store.labelled().labels["text/0"][0].values == {"rating": "0"}


def test_two_links_in_one_browser_have_separate_sessions(make):
    address, store = make()
    lead = enter(address, store, "lead")
    lead_base = lead.base
    tokens = {person.name: person.token for person in store.people()}
    lead.page = lead.get(f"/enter/{tokens['annotator-1']}")
    assert lead.page.url.path != lead_base
    assert "annotator-1" in lead.page.text
    assert lead.get("/adjudicate/0").status_code in (200, 403)
    assert "Progress" in lead.get(f"{lead_base}/").text
    # Another person's path refuses one's own cookie.
    client = enter(address, store, "annotator-2")
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    assert client.get(f"{lead_base}/", headers={"Cookie": cookies}).status_code == 403


def test_unknown_hosts_are_refused(tmp_path):
    store = new_store(tmp_path / "labels.sqlite", 1, 1, 1)
    known_hosts = (
        "localhost",
        "LocalHost:{port}",
        "127.0.0.1:{port}",
        "[::1]:{port}",
        "localhost.:{port}",
        "labels.example.org",
    )
    unknown_hosts = (
        "evil.example.org:{port}",
        "127.0.0.1.evil.org",
        "localhost@evil.org",
        "",
        "[::1",
        "a:b:c",
    )
    with served(store, hosts=["Labels.example.org"]) as address:
        client = enter(address, store, "annotator-1")
        for host in (*known_hosts, *unknown_hosts):
            answer = client.get("/", headers={"Host": host.format(port=address.rpartition(":")[2])})
            assert answer.status_code == (200 if host in known_hosts else 421), host
            assert ("text 0" in answer.text) == (host in known_hosts)
    store.close()
