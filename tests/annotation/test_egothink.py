import csv
import gc
import json
import random
import re
import socket
from statistics import fmean

import pytest

from annotation.rating import study_of
from annotation.serving import enter, export, form_in, label_all, post, run, served, visited
from annotation.studies import open_store
from benchmarks.egothink.source import write_source
from judge_server import JudgeServer, Reply
from lmms_egoplan.annotation.database import Database, create
from lmms_egoplan.annotation.egothink import FLOW, num_judged, read_items
from lmms_egoplan.annotation.flow import Item, Label, Labelled
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.annotation.store import Store
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES
from lmms_egoplan.benchmarks.egothink.prepare import prepare_egothink
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.demo import DATA
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.report.egothink.answer_files import read_human


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Prepare questions, which no test changes."""
    folder = tmp_path_factory.mktemp("egothink")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_egothink(str(write_source(folder / "source")))
        ids = [row["id"] for name in ("existence", "assistance") for row in EGOTHINK.load(name)]
    return folder / "data", ids


@pytest.fixture
def prepared(data, monkeypatch):
    """Use the prepared questions. Return the ids of some of them."""
    folder, ids = data
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(folder))
    return ids


def write_answers(path, ids, text="Yes.", **fields):
    path.write_text("".join(json.dumps({"id": id_, "answer": text} | fields) + "\n" for id_ in ids))
    return path


def start(tmp_path, samples, per_item=2, annotators=2, judged=()):
    db = tmp_path / "labels.sqlite"
    return open_store(
        FLOW,
        db,
        lambda folder: read_items(samples, folder, judged),
        "items",
        Team(annotators, per_item),
    )


def rate(store, rating_of):
    label_all(store, lambda person, page: {"rating": rating_of(person, page)})


def test_exported_ratings_can_be_compared_with_a_judge(prepared, tmp_path):
    judged = write_answers(
        tmp_path / "gpt.jsonl",
        prepared,
        rating=1.0,
        judge="judge-model",
        judgement="[[1]] because-of-the-judge",
    )
    store = start(tmp_path, [judged], judged=[judged])
    count = iter(range(10_000))
    rate(store, lambda person, page: ("0", "0.5", "1")[next(count) % 3])
    store.close()
    assert f"{len(prepared)} of {len(prepared)}" in export(store)[0]
    for name in ("annotators", "ratings", "pooled"):
        code, output = run(
            "agreement", "egothink", judged, "--human", tmp_path / "out" / f"gpt-{name}.csv"
        )
        assert code == 0, output
        assert str(len(prepared)) in output
    code, output = run("annotate", "status", store.database.path)
    assert code == 0, output
    assert f"{2 * len(prepared)} of {2 * len(prepared)}" in output


def test_pearson_interval_is_the_same_on_all_pages(prepared, tmp_path):
    """Compare the lead's page with `agreement` on the exported ratings.

    The page uses the order of labels.
    """
    source = random.Random(0)
    judged = {
        f"{name}/{number}": source.choice((0.0, 0.5, 1.0))
        for name in ("counting", "spatial")
        for number in range(1, 21)
    }
    people = {
        person: {id_: source.choice((rating, 0.5)) for id_, rating in judged.items()}
        for person in ("Ann", "Bo")
    }
    items = [
        Item(id_, {"answer": "x"}, {"question": id_, "model": "m", "rating": rating})
        for id_, rating in judged.items()
    ]
    source.shuffle(items)
    labels = {
        id_: [
            Label(id_, "rate", name, {"rating": f"{rated[id_]:g}"}, "", 1.0, "")
            for name, rated in people.items()
        ]
        for id_ in judged
    }
    labelled = Labelled(
        study_of(FLOW, 2, 2), items, labels, list(people), list(people), frozenset()
    )
    (remark,) = FLOW.remarks(labelled)
    lines = [
        {"id": id_, "answer": "x", "rating": rating, "judge": "j"} for id_, rating in judged.items()
    ]
    (tmp_path / "m.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    for name, file in FLOW.export(labelled).files.items():
        (tmp_path / name).write_text(file.text)
    code, output = run(
        "agreement",
        "egothink",
        tmp_path / "m.jsonl",
        "--human",
        tmp_path / "m-annotators.csv",
        "--out",
        tmp_path / "out.csv",
    )
    assert code == 0, output
    with (tmp_path / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    (row,) = (
        row for row in rows if (row["second"], row["dimension"]) == ("mean of 2 people", "overall")
    )
    value, low, high = (float(row[name]) for name in ("pearson", "pearson_low", "pearson_high"))
    assert "40" in remark
    assert f"{value:.3f} [{low:.3f}, {high:.3f}]" in remark


def test_raters_see_neither_model_nor_judge(prepared, tmp_path):
    judged = write_answers(
        tmp_path / "secret-model.jsonl",
        prepared,
        rating=0.5,
        judge="judge-model",
        judgement="[[0.5]]",
    )
    store = start(tmp_path, [judged], judged=[judged])
    with visited(store) as client:
        while 'id="label"' in client.page.text:
            for text in ("secret-model", "judge-model", "[[0.5]]"):
                assert text not in client.page.text
            where, _ = form_in(client.page.text)
            image = client.get(where.replace("label", "media") + "/0")
            assert image.headers["content-type"].startswith("image/")
            assert client.get(where.replace("label", "media") + "/1").status_code == 404
            post(client, rating="1")


def test_models_are_mixed_but_exported_separately(prepared, tmp_path):
    samples = [
        write_answers(tmp_path / f"{name}.jsonl", prepared, text=name) for name in ("one", "two")
    ]
    store = start(tmp_path, samples, per_item=1)
    models = [item.hidden["model"] for item in store.items()]
    assert models != sorted(models)
    rate(store, lambda person, page: "1" if ">one<" in page else "0")
    store.close()
    export(store)
    for name, rating in (("one", "1.0"), ("two", "0.0")):
        lines = (tmp_path / "out" / f"{name}-pooled.csv").read_text().splitlines()
        assert lines[0] == "id,people"
        assert sorted(lines[1:]) == sorted(f"{id_},{rating}" for id_ in prepared)


def test_unfinished_answers_are_counted_but_not_pooled(prepared, tmp_path):
    store = start(tmp_path, [write_answers(tmp_path / "one.jsonl", prepared)])
    slot = store.assignments.next_slot("annotator-1")
    store.save(slot, "form", {"rating": "1"})
    store.close()
    assert f"0 of {len(prepared)}" in export(store)[0]
    assert not (tmp_path / "out" / "one-pooled.csv").exists()
    assert "1.0" in (tmp_path / "out" / "one-annotators.csv").read_text()


def test_mean_of_differing_ratings_counts_unless_the_lead_decides(prepared, tmp_path):
    """A decision replaces the mean, in both files that contain means.

    The raters' columns do not change.
    """
    judged = write_answers(
        tmp_path / "one.jsonl", prepared[:12], rating=1.0, judge="judge-model", judgement="[[1]]"
    )
    store = start(tmp_path, [judged], judged=[judged])
    rate(store, lambda person, page: {"annotator-1": "0", "annotator-2": "0.5"}[person])
    tables, ratings = [], []
    for decided in (False, True):
        if decided:
            with served(store) as address:
                lead = enter(address, store, "lead")
                lead.page = lead.get("/adjudicate/0")
                assert all(text in lead.page.text for text in ("annotator-1", "0.5: partly right"))
                assert post(lead, rating="1").status_code == 200
        output, out = export(store)
        assert ("one: decided by the lead: 1; the paper uses the raters' mean" in output) is decided
        tables.append(
            {
                name: (out / f"one-{name}.csv").read_text()
                for name in ("annotators", "ratings", "pooled")
            }
        )
        ratings.append(
            {
                row["id"]: row["rating"]
                for row in map(json.loads, (out / "people.jsonl").read_text().splitlines())
            }
        )
        human = read_human(out / "one-pooled.csv")
        assert human == {"people": ratings[-1]}
    question = store.items()[0].hidden["question"]
    assert (ratings[0], ratings[1]) == (
        dict.fromkeys(prepared[:12], 0.25),
        ratings[0] | {question: 1.0},
    )
    assert [tables[0][name] == tables[1][name] for name in tables[0]] == [True, True, False]
    store.close()


def test_errors_name_changed_and_missing_items(prepared, tmp_path):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    store = start(tmp_path, [answers])
    store.close()
    write_answers(answers, prepared, text="No.")
    with pytest.raises(LmmsEgoplanError, match=str(store.database.path)):
        start(tmp_path, [answers])
    answers.unlink()
    with pytest.raises(LmmsEgoplanError, match=r"one\.jsonl"):
        start(tmp_path, [answers])
    write_answers(answers, prepared)
    start(tmp_path, [answers]).close()
    code, output = run("annotate", "export", store.database.path, "--out", tmp_path / "out")
    assert (code, len(output.splitlines())) == (1, 1)
    assert not (tmp_path / "out").exists()
    code, output = run("annotate", "status", tmp_path / "absent.sqlite")
    assert (code, "absent.sqlite" in output) == (1, True)


def test_judge_can_be_added_at_a_later_start(prepared, tmp_path):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    judged = write_answers(tmp_path / "judged.jsonl", prepared[:3], rating=0.5, judge="j")
    start(tmp_path, [answers]).close()
    store = start(tmp_path, [answers], judged=[judged])
    assert num_judged(store.items()) == 3
    store.close()
    other = write_answers(tmp_path / "other.jsonl", prepared, text="No.", rating=0.5, judge="j")
    with pytest.raises(LmmsEgoplanError, match=rf"other\.jsonl.*{len(prepared)}"):
        start(tmp_path, [answers], judged=[other])


def test_database_of_another_benchmark_is_refused_without_writing_media(prepared, tmp_path):
    create(
        tmp_path / "labels.sqlite",
        study_of(FLOW, 2, 2).model_copy(update={"flow": "actplan"}),
        [Item("a", {})],
    )
    with pytest.raises(LmmsEgoplanError, match=r"labels\.sqlite.*actplan.*egothink"):
        start(tmp_path, [write_answers(tmp_path / "one.jsonl", prepared)])
    assert not (tmp_path / "labels.sqlite.media").exists()


def test_picture_addresses_differ_between_databases(prepared, tmp_path):
    """Browsers cache pictures.

    Another database may use the same slot numbers at the same address.
    """
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    addresses = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        store = start(tmp_path / name, [answers])
        with served(store) as address:
            client = enter(address, store, "annotator-1")
            addresses.add(re.search('src="([^"]+/media/[^"]+)"', client.page.text)[1])
        store.close()
    assert len(addresses) == 2


def test_invalid_judge_rating_names_file_and_line(prepared, tmp_path):
    answers = write_answers(tmp_path / "one.jsonl", prepared)
    for rating in (-1, 2, "0.5", [1]):
        judged = write_answers(tmp_path / "judged.jsonl", prepared, rating=rating, judge="j")
        with pytest.raises(LmmsEgoplanError, match=r"judged\.jsonl, line 1: rating"):
            start(tmp_path, [answers], judged=[judged])


@pytest.fixture
def command(tmp_path):
    """Run `annotate egothink` at a port in use, so that it ends before it serves.

    Return the store, or the error.
    """

    def annotate(*samples, db=tmp_path / "labels.sqlite", **options):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            flags = [
                x for name, value in {"port": port, **options}.items() for x in (f"--{name}", value)
            ]
            code, output = run(
                "annotate",
                "egothink",
                *samples,
                "--db",
                db,
                "--annotators",
                1,
                "--per-item",
                1,
                *flags,
            )
        # Releases the lock of the database.
        gc.collect()
        assert code == 1, output
        return Store(Database(db, exclusive=True), FLOW) if f"port {port}" in output else output

    return annotate


def all_answers(path, rating_of=lambda number: (0, 0.5, 1)[number % 3], order=1):
    lines = [
        json.dumps(
            {
                "id": f"{name}/{number}",
                "answer": f"{name} {number}.",
                "rating": rating_of(index),
                "judge": "j",
            }
        )
        for index, (name, number) in enumerate(
            (name, number) for name in DIMENSION_NAMES for number in (1, 2)
        )
    ]
    path.write_text("".join(f"{line}\n" for line in lines[::order]))
    return path


def test_samples_are_drawn_per_model_with_known_probabilities_in_any_order(
    prepared, tmp_path, command
):
    one, two = all_answers(tmp_path / "one.jsonl"), all_answers(tmp_path / "two.jsonl")
    judged = all_answers(tmp_path / "judged.jsonl")
    store = command(one, two, sample=6, judge=judged)
    items = store.items()
    store.close()
    for model in ("one", "two"):
        hidden = [item.hidden for item in items if item.hidden["model"] == model]
        assert [(x["probability"], x["planned"]) for x in hidden] == [(0.25, 6)] * 6
        # Each capability's dimension has two answers; ratings are in thirds.
        assert len({x["question"].split("/")[0] for x in hidden}) == 6
    for path in (one, two, judged):
        all_answers(path, order=-1)
    again = command(two, one, sample=6, judge=judged, db=tmp_path / "again.sqlite")
    assert sorted(item.id for item in again.items()) == sorted(item.id for item in items)
    again.close()


@pytest.mark.nightly
def test_a_sample_is_fixed_when_the_database_is_created(prepared, tmp_path, command):
    answers, judged = all_answers(tmp_path / "one.jsonl"), all_answers(tmp_path / "judged.jsonl")
    store = command(answers, sample=6, judge=judged)
    items = store.items()
    store.close()
    assert re.search(r"--sample 7.*labels\.sqlite.*6", command(answers, sample=7, judge=judged))
    # Other ratings would draw other answers.
    all_answers(judged, lambda number: (1, 0.5, 0)[number // 8])
    for options in (
        {"sample": 6},
        {},
        {"judge": judged},
        {"sample": 6, "judge": judged, "by": "dimension"},
    ):
        store = command(answers, **options)
        assert [(x.id, x.hidden["probability"]) for x in store.items()] == [
            (x.id, x.hidden["probability"]) for x in items
        ]
        store.close()
    assert {item.hidden["rating"] for item in items} != {None}
    command(answers, db=tmp_path / "all.sqlite").close()
    assert "--sample 6" in command(answers, sample=6, by="dimension", db=tmp_path / "all.sqlite")
    store = command(answers, db=tmp_path / "all.sqlite")
    assert store.num_items() == 24
    store.close()
    all_answers(answers, order=24)
    assert "one.jsonl" in command(answers, db=tmp_path / "all.sqlite")
    assert "one.jsonl" in command(answers)


def test_samples_that_cannot_be_drawn_name_a_remedy(prepared, tmp_path, command):
    answers = all_answers(tmp_path / "one.jsonl")
    assert "--by dimension" in command(answers, sample=6)
    assert "24" in command(answers, sample=25, by="dimension")
    assert "--sample" in command(answers, by="dimension")
    options = ("--db", tmp_path / "labels.sqlite", "--sample", 6, "--by", "model")
    code, output = run("annotate", "egothink", answers, *options)
    assert (code, "--by" in output) == (2, True)
    # Known items are not labelled at random, so the rest would be no random sample.
    study = tmp_path / "study.yaml"
    study.write_text(
        "flow: egothink\npeople: {annotator: {count: 2}}\nrounds: [{name: rate}]\n"
        "training: known.jsonl\n"
    )
    assert re.search(
        r"--sample 6.*study\.yaml", command(answers, sample=6, by="dimension", study=str(study))
    )
    assert not (tmp_path / "labels.sqlite").exists()


def test_annotators_and_label_studio_do_not_see_probabilities(prepared, tmp_path, command):
    store = command(all_answers(tmp_path / "one.jsonl"), sample=6, by="dimension")
    with visited(store) as client:
        assert "probability" not in client.page.text
        assert "0.25" not in client.page.text
    code, output = run(
        "annotate", "export", store.database.path, "--out", tmp_path / "studio", "--label-studio"
    )
    assert code == 0, output
    assert len(json.loads((tmp_path / "studio" / "tasks.json").read_text())) == 6
    assert "probability" not in (tmp_path / "studio" / "tasks.json").read_text()


@pytest.mark.nightly
def test_a_biased_judge_is_corrected_from_the_first_answer_to_the_report(
    tmp_path, monkeypatch, command
):
    """People rate 16 of 24 answers.

    The judge's ratings are half a level too high, except of right answers.
    """
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    prepare_egothink(str(DATA / "egothink"))
    truths = (0, 0, 0.5, 1)
    lines = [
        {"id": f"{name}/{number}", "answer": f"Truth {truths[(index + number) % 4]}"}
        for index, name in enumerate(DIMENSION_NAMES)
        for number in (1, 2)
    ]
    (tmp_path / "model.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def reply(prompt, _):
        (truth,) = re.findall(r"Truth ([\d.]+)", prompt) or [1]
        return Reply(f"Rating: [[{min(1, float(truth) + 0.5):g}]]", model="lenient")

    with JudgeServer(reply) as server:
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_BASE_URL", server.url)
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_MODEL", "lenient")
        monkeypatch.setenv("LMMS_EGOPLAN_JUDGE_API_KEY", "none")
        code, output = run(
            "judge", "egothink", tmp_path / "model.jsonl", "--out", tmp_path / "judged.jsonl"
        )
    assert code == 0, output
    store = command(tmp_path / "judged.jsonl", sample=16, judge=tmp_path / "judged.jsonl")
    rate(store, lambda person, page: re.search(r"Truth ([\d.]+)", page)[1])
    store.close()
    _, labels = export(store)
    people = [json.loads(line) for line in (labels / "people.jsonl").read_text().splitlines()]
    assert [(answer["probability"], answer["planned"]) for answer in people] == [(16 / 24, 16)] * 16
    code, output = run("report", tmp_path / "judged.jsonl", labels, "--out", tmp_path / "report")
    assert code == 0, output
    (path,) = (tmp_path / "report").rglob("egothink_corrected*.csv")
    with path.open(newline="") as file:
        (row,) = csv.DictReader(file)
    truth = 100 * fmean(truths[(index + number) % 4] for index in range(12) for number in (1, 2))
    judge = 100 * fmean(
        min(1, truths[(index + number) % 4] + 0.5) for index in range(12) for number in (1, 2)
    )
    assert float(row["raw"]) == pytest.approx(judge)
    assert judge - truth > 30
    assert float(row["corrected_low"]) < truth < float(row["corrected_high"]) < judge
    rated = [answer["rating"] for answer in people]
    assert float(row["people"]) == pytest.approx(100 * fmean(rated))
    assert float(row["error"]) == pytest.approx(100 * fmean(x - min(1, x + 0.5) for x in rated))
    assert float(row["error_high"]) < 0
    assert (row["sampled"], row["of"], row["mean"]) == ("16 of 16", "24", "dimensions")
    assert "30" in row["remarks"]
