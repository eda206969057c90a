"""What the heat map shows of logged runs, and how it is drawn."""

import io
import math
import random
import re
from statistics import fmean
from xml.etree import ElementTree

import matplotlib
import pytest
from PIL import Image

from benchmarks.egointent.logged import METADATA, graded_step, read_runs, sample, scenario_run, write_run
from lmms_egoplan.benchmarks.egointent.heatmap import make_heatmap
from lmms_egoplan.benchmarks.egointent.heatmap_drawing import draw_heatmap
from lmms_egoplan.benchmarks.egointent.protocol import FIELDS


def heatmap_of(*folders):
    return make_heatmap(read_runs(folders))


def save(heatmap, path):
    """Draw it with texts as texts."""
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw_heatmap(heatmap).savefig(path, dpi=160)


def svg_texts(path):
    """All texts of an svg file, lines of one text apart."""
    root = ElementTree.parse(path).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


def test_cells_are_means_of_field_means(tmp_path):
    source = random.Random(0)
    rated = [
        (f"s{number}", source.choice(["yard", "kitchen", "garage"]), [source.uniform(0, 100) for _ in FIELDS])
        for number in range(40)
    ]
    write_run(tmp_path, [sample(graded_step(step_id, ratings), scenario) for step_id, scenario, ratings in rated])
    heatmap = heatmap_of(tmp_path)
    expected = {
        scenario: fmean(fmean(r[field] for _, s, r in rated if s == scenario) for field in range(3))
        for scenario in {s for _, s, _ in rated}
    }
    assert heatmap.models == ("Model-7B",)
    assert list(heatmap.scenarios) == sorted(expected, key=expected.get)
    assert [cell.score for cell in heatmap.cells[0]] == pytest.approx(sorted(expected.values()))
    assert heatmap.overall[0].score == pytest.approx(fmean(fmean(r[field] for *_, r in rated) for field in range(3)))
    assert heatmap.notes == ("Judge: qwen", "judge coverage 100.0%", "40 steps")
    assert not heatmap.warnings


def test_order_of_models_and_scenarios(tmp_path):
    scenario_run(tmp_path / "a", {"bedroom": 60, "yard": 10, "kitchen": 20}, "weak")
    scenario_run(tmp_path / "b", {"bedroom": 50, "yard": 15, "kitchen": 70}, "strong")
    heatmap = heatmap_of(tmp_path)
    assert heatmap.models == ("strong", "weak")
    assert heatmap.scenarios == ("yard", "kitchen", "bedroom")
    assert [[cell.score for cell in row] for row in heatmap.cells] == [[15, 70, 50], [10, 20, 60]]


def test_what_is_not_judged_is_not_a_number_and_comes_last(tmp_path):
    nothing = [None, None, None]
    lines = [
        sample(graded_step("s1", [10.0, None, 30.0]), "part"),
        sample(graded_step("s2", [30.0, 20.0, 50.0]), "part"),
        sample(graded_step("s3", nothing), "none"),
        sample(graded_step("s4", [0.0, 0.0, 0.0], found=()), "missing"),
    ]
    write_run(tmp_path / "b", lines, "b")
    write_run(tmp_path / "a", [sample(graded_step(f"s{number}", nothing), "part") for number in range(1, 5)], "a")
    write_run(tmp_path / "c", [sample(graded_step(f"s{number}", nothing), "part") for number in range(1, 5)], "c")
    heatmap = heatmap_of(tmp_path)
    assert heatmap.models == ("b", "a", "c")
    assert heatmap.scenarios == ("missing", "part", "none")
    missing, part, none = heatmap.cells[0]
    assert (missing.score, missing.partial) == (0, False)
    assert part.score == pytest.approx(fmean([20, 20, 40]))
    assert part.partial
    assert math.isnan(none.score)
    assert math.isnan(heatmap.overall[1].score)
    assert heatmap.notes[1] == f"judge coverage 0.0% to {5 / 9:.1%}"


def test_versions_of_the_task_that_do_not_compare_are_told(tmp_path):
    lines = [sample(graded_step("s1", [1.0, 2.0, 3.0]))]
    for name, version in (("a", 1.0), ("b", 2.0), ("c", 1)):
        write_run(tmp_path / name, lines, name, metadata=METADATA | {"version": version})
    assert heatmap_of(tmp_path).warnings == (
        "different versions of the task, whose scores do not compare (version 1.0: a, c; version 2.0: b)",
    )


def test_what_does_not_compare_is_told(tmp_path):
    lines = [sample(graded_step(f"s{number}", [1.0, 2.0, 3.0])) for number in range(3)]
    write_run(tmp_path / "a", lines, "a")
    write_run(tmp_path / "b", lines[:2], "b", metadata=METADATA | {"prompt": "2"})
    write_run(tmp_path / "c", [sample(graded_step("s1", [1.0, 2.0, 3.0], "gpt"), unverified=True)], "c", together=True)
    heatmap = heatmap_of(tmp_path)
    assert heatmap.notes == (
        "Judges: gpt, qwen",
        "judge coverage 100.0%",
        "1 to 3 steps",
        "17% of the references unverified",
    )
    assert heatmap.warnings == (
        "different judges, whose scores do not compare (gpt: c; qwen: a, b)",
        "different versions of the prompt, whose scores do not compare (version 1: a, c; version 2: b)",
        "different versions of the judge's prompt, whose scores do not compare (version 1: a, b; version 1 with all "
        "fields in one request: c)",
        "runs over different steps, 1 of which are in all (1 steps: c; 2 steps: b; 3 steps: a)",
    )


def test_svg_holds_every_number_as_text(tmp_path):
    scenario_run(tmp_path / "a", {"bed & <b>room</b>": 61.24, "$yard$ _x_": 10, "k\x00itchen": 20}, "we$ak$")
    write_run(tmp_path / "b", [sample(graded_step("x", [None] * 3), "k\x00itchen")], "unjudged")
    out = tmp_path / "map.svg"
    save(heatmap_of(tmp_path), out)
    texts = svg_texts(out)
    for text in ("61.2", "10.0", "20.0", "30.4", "bed & <b>room</b>", "$yard$ _x_", "k itchen", "we$ak$", "Overall"):
        assert texts.count(text) == 1, text
    assert texts.count("n/a") == 4
    assert any(text.startswith("Judge: qwen · judge coverage 0.0% to 100.0% · 1 to 3 steps") for text in texts)
    assert "url(#" in out.read_text()  # the hatches


def test_hatches_and_notes(tmp_path):
    scenario_run(tmp_path / "a", {"kitchen": 20}, "model")
    write_run(tmp_path / "b", [sample(graded_step("x", [None] * 3))], "unjudged")
    heatmap = heatmap_of(tmp_path)
    figure = draw_heatmap(heatmap)
    assert "Judge: qwen" in figure.texts[0].get_text()
    svg = io.StringIO()
    figure.savefig(svg, format="svg")
    (style,) = re.findall(r'<pattern.*?<path[^>]*style="([^"]*)"', svg.getvalue(), re.DOTALL)
    assert ("stroke: #999999" in style, "stroke-width: 0.5" in style) == (True, True)


@pytest.mark.parametrize("size", [1, 7])
def test_higher_is_darker_and_numbers_stand_out(tmp_path, size):
    for model in range(size):
        scores = {f"a rather long scenario {number}": 14 * number + model for number in range(size)}
        scenario_run(tmp_path / str(model), scores, f"Some-Model-{model}B")
    heatmap = heatmap_of(tmp_path)
    save(heatmap, tmp_path / "map.svg")
    text = (tmp_path / "map.svg").read_text()
    scores = [
        cell.score for overall, row in zip(heatmap.overall, heatmap.cells, strict=True) for cell in (overall, *row)
    ]
    shades = [brightness(color) for color in re.findall(r'style="fill: (#\w{6}); stroke: #ffffff', text)]
    numbers = re.findall(r"<text[^>]*>\d+\.\d</text>", text)
    inks = [brightness("#ffffff" if "fill: #ffffff" in number else "#000000") for number in numbers]
    assert len(scores) == len(shades) == len(inks) == size * (size + 1)
    ordered = [shade for _, shade in sorted(zip(scores, shades, strict=True), reverse=True)]
    assert ordered == sorted(ordered)
    assert len(set(ordered)) == len(set(scores))
    for shade, ink in zip(shades, inks, strict=True):
        low, high = sorted((shade, ink))
        assert (high + 0.05) / (low + 0.05) > 4.5  # WCAG's AA
    save(heatmap, tmp_path / "map.png")
    assert Image.open(tmp_path / "map.png").width >= 1000


def brightness(color):
    """Relative luminance of a color like #1f77b4."""
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def goalstep_run(folder, scores, model, as_before=False):
    """A run over Goal-Step steps, a category each; `as_before` as versions before 1.2 logged it."""
    lines = []
    for number, (category, score) in enumerate(scores.items(), 1):
        step = graded_step(f"f20fb254_{number}", [float(score)] * 3)
        named = {"scenario": category} if as_before else {"category": category}
        lines.append(sample(step, unverified=True, video_id="f20fb254-9648-40ea-a500-5493a1ad9eac", **named))
    return write_run(folder, lines, model)


@pytest.mark.parametrize("as_before", [False, True])
def test_goalstep_steps_are_drawn_by_category(tmp_path, as_before):
    heatmap = make_heatmap(read_runs([goalstep_run(tmp_path, {"make tea": 40, "do laundry": 20}, "m", as_before)]))
    assert (heatmap.is_goalstep, heatmap.by, heatmap.scenarios) == (True, "category", ("do laundry", "make tea"))
    assert "2 Goal-Step steps" in heatmap.notes
    assert heatmap.title == "Goal-Step steps: overall score by category"
