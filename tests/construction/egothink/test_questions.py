"""From frames to the prepared benchmark: people write and review on the page, and the layout of the
release is read.
"""

import csv
import io
import json
import random
import re
from collections import Counter
from functools import partial
from html import unescape

import pytest

from annotation.serving import enter, export, form_in, label_all, post, run, served
from annotation.studies import open_store
from construction.egothink.footage import film, scene
from lmms_egoplan.annotation.clips import MediaFolder
from lmms_egoplan.annotation.egothink_questions import FLOW, WrittenQuestion, read_items
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSION_NAMES, DIMENSIONS
from lmms_egoplan.benchmarks.splits import EGOTHINK
from lmms_egoplan.construction.egothink.layout import statistics
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.jsonl import read_lines

CRITERIA = ("fits", "right", "clear")
SCENES = ("Kitchen", "kitchen", "garage", "street")


def lines(path):
    return [json.loads(line) for _, line in read_lines(path)] if path.exists() else []


def build_frames(folder, videos):
    """Build the frames of videos with two different scenes each."""
    for number in range(videos):
        film(folder / f"videos/{number:02}.mp4", scene(2 * number), scene(2 * number + 1))
    code, output = run(
        "data", "build", "egothink", folder / "videos", "--out", folder / "built", "--every", 5
    )
    assert code == 0, output
    return lines(folder / "built/frames.jsonl")


def start(folder, annotators=4):
    read = partial(read_items, folder / "built/frames.jsonl")
    return open_store(FLOW, folder / "questions.sqlite", read, "frames", Team(annotators))


class People:
    """Write a question for each picture except one, and doubt some of them.

    Remember what was done, by number.
    """

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.written, self.votes, self.set_aside = {}, {}, 0

    def __call__(self, person, page):
        text = unescape(page)
        if 'name="use"' in text:
            if len(self.written) == 5 and not self.set_aside:
                self.set_aside += 1
                return {"use": "no", "question": "not asked"}
            number = len(self.written)
            dimension = DIMENSION_NAMES[number % 12]
            question = {
                "dimension": dimension,
                "question": f"{('What', 'Where', 'Am')[number % 3]} is thing {number}?",
                "answer": f"=thing {number} <b>",
                "concept": f"thing {number // 2}",
                "scene": SCENES[number % 4],
            }
            self.written[number] = (person, question)
            return {"use": "yes", **question}
        if "Nothing to review" in text:
            return {}
        number = int(re.search(r"is thing (\d+)\?", text)[1])
        writer, question = self.written[number]
        assert person != writer
        assert f"=thing {number} <b>" in text
        assert question["dimension"].capitalize() in text
        # Each dimension has one question that nobody doubts.
        doubt = 0.2 if number >= len(DIMENSION_NAMES) else 0
        vote = {name: "no" if self.chance.random() < doubt else "yes" for name in CRITERIA}
        self.votes.setdefault(number, {})[person] = vote
        return vote

    def accepted(self):
        """Return the numbers of the questions that three people accept entirely."""
        return {
            number
            for number, votes in self.votes.items()
            if len(votes) == 3
            and all(vote[name] == "yes" for vote in votes.values() for name in CRITERIA)
        }


@pytest.mark.whole
def test_from_videos_to_the_prepared_benchmark(tmp_path, monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_DATA", str(tmp_path / "data"))
    frames = build_frames(tmp_path, 8)
    assert len(frames) == 16
    people, store = People(1), start(tmp_path)
    label_all(store, people)
    output, out = export(store, tmp_path / "labels")
    store.close()
    questions = lines(out / "questions.jsonl")
    numbers = [int(re.search(r"\d+", question["answer"])[0]) for question in questions]
    assert {*numbers} == people.accepted()
    assert 0 < len(numbers) == len({*numbers}) < len(people.written) < 16
    assert f"Questions accepted: {len(numbers)} of 16 pictures" in output
    assert f"set aside without a question: {people.set_aside}" in output
    rejected = [*csv.DictReader(io.StringIO((out / "rejected.csv").read_text()))]
    assert len(rejected) == 16 - len(numbers)
    assert (
        len({row["image"] for row in rejected} | {question["image"] for question in questions})
        == 16
    )
    counts = Counter(row["reason"] for row in rejected)
    assert counts["set aside without a question"] == people.set_aside
    for row in rejected:
        if number := re.search(r"is thing (\d+)", row["question"]):
            votes = people.votes[int(number[1])].values()
            assert [int(row[f"{name}_yes"]) for name in CRITERIA] == [
                sum(vote[name] == "yes" for vote in votes) for name in CRITERIA
            ]
    of_image = {frame["image"]: frame for frame in frames}
    for number, question in zip(numbers, questions, strict=True):
        assert question["unanimous"] is True
        assert question.items() >= people.written[number][1].items()
        frame = of_image[question["image"]]
        assert (question["video"], question["frame"]) == (frame["video"], frame["frame"])
    assert "annotator-" not in (out / "questions.jsonl").read_text()

    code, output = run(
        "data", "build", "egothink", "elsewhere", "--out", tmp_path / "built", "--questions", out
    )
    assert code == 0, output
    statistics = json.loads((tmp_path / "built/statistics.json").read_text())
    by_name = {entry["split"]: entry["counts"] for entry in statistics["dimensions"]}
    assert [*by_name] == [*DIMENSION_NAMES]
    for dimension in DIMENSIONS:
        part = [question for question in questions if question["dimension"] == dimension.name]
        expected = {
            "instances": len(part),
            "question_words": round(sum(len(x["question"].split()) for x in part) / len(part), 2),
            "answer_words": 3.0,
            "question_types": len({x["question"].split()[0] for x in part}),
            "concepts": len({x["concept"] for x in part}),
            "scenes": len({x["scene"].lower() for x in part}),
            "videos": len({x["video"] for x in part}),
        }
        assert {
            name: count["prepared"] for name, count in by_name[dimension.name].items()
        } == expected
        folder = tmp_path / "built/egothink" / dimension.folder
        records = json.loads((folder / "annotations.json").read_text())
        assert [record["image_path"] for record in records] == [
            [f"{n}.jpg"] for n in range(1, len(part) + 1)
        ]
        for record, question in zip(records, part, strict=True):
            image = folder / "images" / record["image_path"][0]
            assert image.read_bytes() == (tmp_path / "built" / question["image"]).read_bytes()
            assert record["question"] == question["question"]
    scenes = Counter(question["scene"].lower() for question in questions)
    assert statistics["scenes"] == dict(scenes)
    assert statistics["videos"] == len({question["video"] for question in questions})
    code, output = run("data", "prepare", "egothink", tmp_path / "built/egothink")
    assert code == 0, output
    assert f"{len(questions)} questions from" in output
    assert {row["origin"] for name in DIMENSION_NAMES for row in EGOTHINK.load(name)} == {"built"}


@pytest.fixture
def few(tmp_path):
    build_frames(tmp_path, 2)
    return tmp_path


def written(dimension="existence", scene="kitchen", **texts):
    values = {"question": "What am I holding?", "answer": "a cup", "concept": "cup"} | texts
    return {"use": "yes", "dimension": dimension, "scene": scene} | values


def review(vote="yes"):
    return dict.fromkeys(CRITERIA, "yes") | {"right": vote}


def test_the_lead_decides_where_reviewers_differ(few):
    store = start(few)
    rows = ["yes yes yes", "yes no yes", "no no yes", "no no no"]
    votes = {}

    def answer(person, page):
        if 'name="use"' in page:
            return written(question=f"What is thing {len(votes)}?") | votes.setdefault(
                len(votes), {}
            )
        number = int(re.search(r"is thing (\d+)\?", page)[1])
        votes[number][person] = None
        return review(rows[number].split()[len(votes[number]) - 1])

    label_all(store, answer)
    output, out = export(store)
    assert "Questions accepted: 1 of 4 pictures" in output
    assert "reviewers differ, and the lead has not decided: 2" in output
    assert "rejected by all reviewers: 1" in output
    with served(store) as address:
        lead = enter(address, store, "lead")
        items = {item.id: n for n, item in enumerate(store.items())}
        rejected = [*csv.DictReader(io.StringIO((out / "rejected.csv").read_text()))]
        for row in rejected:
            if row["reason"].startswith("reviewers differ"):
                lead.page = lead.get(f"/adjudicate/{items[row['image']]}")
                post(lead, **review("yes" if row["right_yes"] == "2" else "no"))
    output, out = export(store)
    store.close()
    assert "Questions accepted: 2 of 4 pictures" in output
    assert "accepted by the lead, not by all reviewers: 1" in output
    assert "rejected by the lead: 1" in output
    assert sorted(question["unanimous"] for question in lines(out / "questions.jsonl")) == [
        False,
        True,
    ]
    code, output = run(
        "data", "build", "egothink", few / "videos", "--out", few / "built", "--questions", out
    )
    assert code == 0, output
    assert "1 of them accepted by the lead" in " ".join(output.split())
    missing = [name for name in sorted(DIMENSION_NAMES) if name != "existence"]
    assert f"{', '.join(missing[:-1])} and {missing[-1]}" in " ".join(output.split())


def test_a_writer_skips_to_pass_a_picture_on(few):
    store = start(few)
    with served(store) as address:
        first = enter(address, store, "annotator-1")
        pictures = re.findall(r'src="([^"]+/media/[^"]+)"', first.page.text)
        assert len(pictures) == 1
        shown_first = first.get(pictures[0]).content
        reply = post(first, "/skip/", reason="none of my dimensions")
        assert reply.status_code == 200
        second = enter(address, store, "annotator-2")
        (picture,) = re.findall(r'src="([^"]+/media/[^"]+)"', second.page.text)
        assert second.get(picture).content == shown_first
        assert "Which property or characteristic" in unescape(second.page.text)
        assert post(second, **written(question="")).status_code == 422
        assert post(second, **written(dimension="smell")).status_code == 422
        assert "kitchen" in second.page.text
    output, out = export(store)
    assert "skipped, no question yet: 1" in output
    assert "no question yet: 3" in output
    assert not (out / "questions.jsonl").exists()
    store.close()


def exported(folder, **changes):
    """Write an export with one question."""
    items = read_items(folder / "built/frames.jsonl", MediaFolder(folder / "media"))
    texts = {name: value for name, value in written().items() if name != "use"}
    (folder / "labels").mkdir()
    line = json.dumps({**items[0].hidden, **texts, "unanimous": True} | changes)
    (folder / "labels/questions.jsonl").write_text(line + "\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"image": "../a.jpg"},
            r"questions.jsonl, line 1: image: '../a.jpg' must be a relative path",
        ),
        (
            {"image": "frames/no.jpg"},
            r"questions.jsonl, line 1: image: .*No such file or directory: .*no.jpg",
        ),
        ({"digest": "0"}, r"questions.jsonl, line 1: image: .* has changed since people saw it"),
        (
            {"dimension": "smell"},
            r"questions.jsonl, line 1: dimension: expected a dimension, found 'smell'",
        ),
        ({"answer": " "}, r"questions.jsonl, line 1: answer: expected a text, found ' '"),
    ],
)
def test_a_wrong_line_of_an_export_is_named(few, changes, message):
    exported(few, **changes)
    code, output = run(
        "data", "build", "egothink", "-", "--out", few / "built", "--questions", few / "labels"
    )
    assert code == 1
    assert re.search(message, " ".join(output.split())), output
    assert not (few / "built/egothink").exists()


def test_a_users_file_in_the_layout_is_not_deleted(few):
    exported(few)
    arguments = (
        "data",
        "build",
        "egothink",
        "-",
        "--out",
        few / "built",
        "--questions",
        few / "labels",
    )
    for _ in range(2):
        code, output = run(*arguments)
        assert code == 0, output
    mine = few / "built/egothink/Object/mine.txt"
    mine.write_text("mine")
    code, output = run(*arguments)
    assert code == 1
    assert "mine.txt: this run would replace a file that no earlier run wrote" in " ".join(
        output.split()
    )
    assert mine.read_text() == "mine"


def test_scenes_below_one_percent_are_counted_together():
    values = {
        "image": "a.jpg",
        "digest": "0",
        "video": "a",
        "frame": 0,
        "unanimous": True,
        "concept": "bar",
    }
    values |= {"question": "Where am I?", "answer": "bar", "dimension": "location"}
    names = ["kitchen"] * 198 + ["garage", "street"] + ["Kitchen"] * 1
    result = statistics([WrittenQuestion(**values, scene=name) for name in names])
    assert result["scenes"] == {"kitchen": 199}
    assert (result["other_scenes"], result["other_questions"]) == (2, 2)


@pytest.mark.parametrize(
    "content", ["", '{"image": "frames/a.jpg", "video": "a", "frame": 0}\n', '{"image": 1}\n']
)
def test_frames_that_cannot_be_read_are_named(tmp_path, content):
    path = tmp_path / "frames.jsonl"
    path.write_text(content)
    with pytest.raises(LmmsEgoplanError, match=r"frames\.jsonl(: no frames|, line 1: image: )"):
        read_items(path, MediaFolder(tmp_path / "media"))


def test_each_writer_gets_two_dimensions():
    """Sec. 3.2: six annotators, twelve dimensions, two for each."""
    writers = [FLOW.allowed_options(number, 6)["dimension"] for number in range(1, 7)]
    assert [name for dimensions in writers for name in dimensions] == [*DIMENSION_NAMES]
    assert {len(dimensions) for dimensions in writers} == {2}
    assert FLOW.allowed_options(7, 9)["dimension"] == writers[0]
    assert FLOW.allowed_options(1, 5) == {}


def test_writers_see_and_save_only_their_dimensions(few):
    store = start(few, annotators=6)
    with served(store) as address:
        client = enter(address, store, "annotator-2")
        options = re.findall(r'name="dimension" value="(\w+)"', client.page.text)
        assert options == ["affordance", "activity"]
        where, hidden = form_in(client.page.text)
        values = {
            "use": "yes",
            "question": "q?",
            "answer": "a",
            "concept": "c",
            "scene": "s",
        }
        refused = client.post(where, data=hidden | values | {"dimension": "existence"})
        assert refused.status_code == 422
        assert (
            client.post(where, data=hidden | values | {"dimension": "activity"}).status_code == 200
        )
    store.close()
