"""Run EgoIntent's study, on few steps, with simulated people over HTTP."""

import json
import random
import re
from itertools import combinations
from statistics import fmean, median

import pytest
import yaml

from annotation.egointent_labelling import export, unchanged
from annotation.serving import enter, post, served
from annotation.studies import open_store
from benchmarks.egointent.source import FPS, raw_record, write_annotations
from lmms_egoplan.annotation.agreement import measure
from lmms_egoplan.annotation.egointent import FLOW, read_items
from lmms_egoplan.annotation.serve import Team
from lmms_egoplan.annotation.study import read_study
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.benchmarks.egointent.records import read_annotations
from lmms_egoplan.media.frames import count_video_frames

STEPS = 10
SAMPLES = {"review": 5, "supported": 4, "boundary": 6}
TITLES = {stage.title: stage.name for stage in FLOW.stages}
REASONS = {
    "no": "hindsight",
    "confusion": "confusion",
    "abstraction": "abstraction",
    "video": "video",
    "other": "other",
}


def time(number):
    """Return the start of a step: the time of a frame."""
    return round(0.2 * number, 6)


def test_study_has_the_numbers_of_the_paper():
    study = read_study("egointent")
    assert {name: group.count for name, group in study.people.items()} == {
        "annotator": 5,
        "reviewer": 3,
    }
    assert {
        one.name: (one.people, one.per_item, one.sample, one.final) for one in study.rounds
    } == {
        "revise": ("annotator", 1, None, False),
        "verify": ("annotator", 1, None, False),
        "review": ("reviewer", 3, 1510, False),
        "supported": ("reviewer", 1, 873, True),
        "boundary": ("reviewer", 1, 973, True),
    }


@pytest.fixture
def store(tmp_path, numbered_videos):
    """Create a database for the study with smaller samples.

    Each clip has 12 frames and 6 more up to the outcome.
    """
    records = [
        raw_record(
            number, start_sec=time(number), end_sec=time(number + 2), outcome_sec=time(number + 3)
        )
        for number in range(STEPS)
    ]
    steps = write_annotations(tmp_path / "steps.jsonl", records)
    study = read_study("egointent").model_dump()
    for one in study["rounds"]:
        one["sample"] = SAMPLES.get(one["name"])
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    team = Team(study=str(tmp_path / "study.yaml"))
    store = open_store(
        FLOW,
        tmp_path / "labels.sqlite",
        lambda _: read_items(steps, numbered_videos),
        "steps",
        team,
    )
    yield store
    store.close()


class Simulated:
    """People who change and reject things at random. Notes what they send, by step and round."""

    def __init__(self, folder, seed):
        self.folder, self.source, self.sent, self.frames = folder, random.Random(seed), {}, {}

    def answer(self, name, client):
        """Label the client's current page."""
        page = client.page.text
        step = int(re.search(r"hold board (\d+) steady", page)[1])
        stage = TITLES.get(re.search(r'<p class="lead">([^.]+)\.', page)[1], "lead")
        values, roll = unchanged(page), self.source.random()
        field = self.source.choice(FIELDS[1:])
        times = re.search(r'data-times="([^"]+)"', page)
        if stage == "revise" and roll < 0.6:
            values |= {"end_sec": self.source.choice(times[1].split())}
            values |= {f"supported_{field}": "no", field: f"a new {field}"} if roll < 0.4 else {}
        elif stage in ("verify", "review") and roll < (0.5 if stage == "verify" else 0.2):
            values |= {
                f"supported_{field}": self.source.choice([*REASONS]),
                field: f"{name} on {field}",
            }
        elif stage in ("verify", "review") and roll < (0.6 if stage == "verify" else 0.3):
            values |= {"boundary": "no", "end_sec": times[1].split()[-3]}
        elif stage in ("supported", "boundary") and roll < 0.4:
            values |= {self.source.choice([*values]): "no"}
        elif stage == "lead":
            values |= {"global_intent": "what the lead says", "end_sec": times[1].split()[-2]}
        if stage == "review":
            # A browser does not send the text of a label that the reviewer keeps.
            values = {
                key: text
                for key, text in values.items()
                if key not in FIELDS or values[f"supported_{key}"] != "yes"
            }
        clip = self.folder / f"{step}-{stage}-{name}.mp4"
        clip.write_bytes(client.get(re.search(r'<video src="([^"]+)"', page)[1]).content)
        self.frames[step, stage, name] = count_video_frames(clip)
        assert post(client, **values).status_code == 200, client.page.text
        self.sent.setdefault((step, stage), {})[name] = values


def label_all(people, clients):
    while True:
        before = len(people.frames)
        for name, client in clients.items():
            client.page = client.get("/")
            if 'id="label"' in client.page.text:
                people.answer(name, client)
        if len(people.frames) == before:
            return


def texts(values):
    return {field: values[field] for field in FIELDS}


def is_accepted(values):
    return values["boundary"] == "yes" and all(
        values[f"supported_{field}"] == "yes" for field in FIELDS
    )


def kept_steps(sent):
    """Return the final values of the settled steps, by a slow reading of what was sent."""
    settled = {}
    for step in range(STEPS):
        (revised,), (verified,) = sent[step, "revise"].values(), sent[step, "verify"].values()
        if (step, "lead") in sent:
            (decided,) = sent[step, "lead"].values()
            settled[step] = texts(decided) | {"end_sec": float(decided["end_sec"])}
            continue
        reviews = [*sent.get((step, "review"), {}).values()]
        if reviews:
            agree = all(
                is_accepted(one) and one["end_sec"] == verified["end_sec"] for one in reviews
            )
        else:
            same = texts(verified) == texts(revised) and verified["end_sec"] == revised["end_sec"]
            agree = same and is_accepted(verified)
        if agree:
            settled[step] = texts(verified) | {"end_sec": float(verified["end_sec"])}
    return settled


def labels_of(sent, *stages):
    return [values for (_, stage), by in sent.items() if stage in stages for values in by.values()]


def expected_rates(sent, settled):
    """Count the audit's rates, by a slow reading of what was sent."""
    moves = {step: round(values["end_sec"] - time(step + 2), 6) for step, values in settled.items()}
    moved = [abs(seconds) for seconds in moves.values() if seconds]
    rates = {
        "cuts_moved": (len(moved), len(settled)),
        "cuts_moved_earlier": (sum(seconds < 0 for seconds in moves.values()), len(settled)),
        "cuts_moved_later": (sum(seconds > 0 for seconds in moves.values()), len(settled)),
    }
    supported = labels_of(sent, "supported")
    verdicts = [one[f"supported_{field}"] == "yes" for one in supported for field in FIELDS]
    rates["labels_supported_before_the_cut"] = (sum(verdicts), 3 * SAMPLES["supported"])
    whole = sum(all(one[f"supported_{field}"] == "yes" for field in FIELDS) for one in supported)
    rates["steps_with_all_labels_supported"] = (whole, SAMPLES["supported"])
    boundaries = labels_of(sent, "boundary")
    rates["outcome_not_yet_visible"] = (
        sum(one["boundary"] == "yes" for one in boundaries),
        SAMPLES["boundary"],
    )
    checks = labels_of(sent, "verify", "review")
    rejected = [
        one[f"supported_{field}"]
        for one in checks
        for field in FIELDS
        if one[f"supported_{field}"] != "yes"
    ]
    rates |= {
        f"rejected_for_{name}": (rejected.count(value), len(rejected))
        for value, name in REASONS.items()
    }
    for field in FIELDS:
        rewritten = sum(one[field] == f"a new {field}" for one in labels_of(sent, "revise"))
        rates[f"candidates_rewritten_for_hindsight_{field}"] = (rewritten, STEPS)
    return rates, moved


@pytest.mark.parametrize(
    "seed", [pytest.param(1, marks=pytest.mark.whole), pytest.param(2, marks=pytest.mark.nightly)]
)
def test_kept_steps_rates_and_clips_equal_a_slow_count(store, tmp_path, seed):
    people, sent = Simulated(tmp_path, seed), None
    with served(store) as address:
        clients = {
            progress.person: enter(address, store, progress.person) for progress in store.progress()
        }
        assert len(clients) == 8
        label_all(people, clients)
        lead = enter(address, store, "lead")
        waiting = sorted({*re.findall(r'href="[^"]+(/adjudicate/\d+)"', lead.page.text)})
        undecided = set(range(STEPS)) - kept_steps(people.sent).keys()
        assert len(waiting) == len(undecided) > 1
        for number, path in enumerate(waiting):
            lead.page = lead.get(path)
            people.answer("lead", lead)
            if number == 0:
                # Steps that nobody has decided have no final labels to review.
                label_all(people, clients)
                assert len(labels_of(people.sent, "supported")) <= SAMPLES["supported"]
        label_all(people, clients)
    sent = people.sent
    settled = kept_steps(sent)
    needed = {
        "revise": STEPS,
        "verify": STEPS,
        "review": 3 * SAMPLES["review"],
        "supported": SAMPLES["supported"],
        "boundary": SAMPLES["boundary"],
    }
    assert {stage: len(labels_of(sent, stage)) for stage in needed} == needed
    steps, rates, output = export(store)
    records = {int(record.step_id.removeprefix("s")): record for record in read_annotations(steps)}
    assert {
        step: texts(vars(record)) | {"end_sec": record.end_sec} for step, record in records.items()
    } == settled
    assert len(settled) == STEPS
    assert "the round supported" in output
    assert "the round boundary" in output
    expected, moved = expected_rates(sent, settled)
    assert {
        name: (int(rates[name]["count"]), int(rates[name]["of"])) for name in expected
    } == expected
    assert moved
    for name, statistic in (("median", median), ("mean", fmean)):
        assert float(rates[f"{name}_adjustment_sec"]["value"]) == pytest.approx(
            statistic(moved), abs=6e-4
        )

    # No clip but that of the first round has a frame at or after the latest cut.
    for (step, stage, _), count in people.frames.items():
        before = {"verify": "revise", "review": "verify", "lead": "verify"}.get(stage)
        if stage == "lead" and (step, "review") not in sent:
            before = "revise"
        cut = (
            settled[step]["end_sec"]
            if before is None
            else float(next(iter(sent[step, before].values()))["end_sec"])
        )
        end = time(step + 3) if stage == "revise" else cut
        assert count == round((end - time(step)) * FPS), (step, stage)

    # Agreement of the reviewers.
    reviews = [by for (_, stage), by in sent.items() if stage == "review"]
    for scale in FLOW.scales(store.labelled()):
        units = [{name: scale.value_of(values) for name, values in by.items()} for by in reviews]
        measured = measure(scale, units)
        assert measured.items == SAMPLES["review"]
        name = f"supported_{scale.title.partition(':')[0].lower().replace(' ', '_')}"
        yes = {"kept as it is": {"yes"}, "supported": {"yes", "confusion", "abstraction", "other"}}
        key, accepted = (
            (name, yes[scale.title.partition(": ")[2]])
            if ":" in scale.title
            else ("boundary", {"yes"})
        )
        pairs = [
            (one[key] in accepted) == (other[key] in accepted)
            for by in reviews
            for one, other in combinations(by.values(), 2)
        ]
        assert measured.percent == pytest.approx(100 * fmean(pairs))
    labels = [json.loads(line) for line in (steps.parent / "labels.jsonl").read_text().splitlines()]
    for step in range(STEPS):
        by_stage = {one["stage"]: one["person"] for one in labels if one["item"] == f"s{step}"}
        assert by_stage["revise"] != by_stage["verify"]


@pytest.mark.parametrize("judging", ["supported", "boundary"])
def test_nobody_judges_values_of_their_own(judging):
    study = read_study("egointent")
    assert {*study.apart(judging, FLOW.stages)} == {judging, "revise", "verify"}
    assert judging in study.apart("revise", FLOW.stages)
    assert judging not in study.apart("review", FLOW.stages)
