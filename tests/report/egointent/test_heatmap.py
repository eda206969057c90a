"""Test the contents and the drawing of the heat map."""

import io
import math
import random
import re
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pytest
from matplotlib.colors import to_hex

from lmms_egoplan.benchmarks.egointent.judge import GradedStep
from lmms_egoplan.benchmarks.egointent.metrics import score_step
from lmms_egoplan.benchmarks.egointent.prompts import FIELDS
from lmms_egoplan.report.egointent.answers import read_graded
from lmms_egoplan.report.egointent.heatmap import draw, heatmap_figure, heatmap_of
from lmms_egoplan.report.egointent.report import EgoIntentReport
from lmms_egoplan.report.run import Run, TaskRun, scoring_of
from lmms_egoplan.report.sections import build_section

PROMPTS = {"prompt": "1", "judge_prompt": "1"}
NOTHING = (None, None, None)


def sample(
    step_id,
    ratings,
    scenario="make tea",
    found_fields=FIELDS,
    judge="qwen",
    category=None,
    video_id="v1",
):
    """Return the logged line of a step with these ratings of the three fields."""
    rated = dict(zip(FIELDS, ratings, strict=True))
    step = GradedStep(
        step_id=step_id,
        fields=dict.fromkeys(found_fields, "text"),
        ratings=rated,
        judgements=dict.fromkeys(FIELDS),
        judges={
            field: judge if field in found_fields and rated[field] is not None else None
            for field in FIELDS
        },
        errors={field: "no reply" if rated[field] is None else None for field in FIELDS},
        suspect=[],
        truncated=False,
        frames_shown=6,
        frames_sampled=6,
    )
    group = {
        "scenario": None if category else scenario,
        "category": category,
        "environment": "indoor",
    }
    doc = {
        "step_id": step_id,
        "video_id": video_id,
        "unverified": category is not None,
        "split_size": 10,
        **group,
    }
    return score_step(doc, [step.to_text()])


def run_of(name, samples, judge="qwen", prompts=PROMPTS):
    scoring = scoring_of("egointent", {}, ["next_step_plan"])
    task = TaskRun(
        "egointent", {"judge_model": judge}, {"metadata": prompts}, tuple(samples), "2.1", scoring
    )
    return Run(name, Path(name), "lmms-eval", f"org/{name}", "20260101_120000", {"egointent": task})


def graded(*runs):
    return list(read_graded(runs))


def of_scores(name, scores):
    """Return a run with one step in each scenario; all its fields have the same rating."""
    return run_of(
        name,
        [
            sample(f"{scenario}-1", [float(score)] * 3, scenario)
            for scenario, score in scores.items()
        ],
    )


def save(heatmap, path):
    """Draw the heat map with texts as SVG texts."""
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw(heatmap).savefig(path, dpi=160)


def svg_texts(path):
    """Return all texts of an SVG file; each line of a text is a separate item."""
    root = ElementTree.parse(path).getroot()
    return [
        "".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]


def test_cells_are_means_of_field_means():
    source = random.Random(0)
    rated = [
        (
            f"s{number}",
            source.choice(["yard", "kitchen", "garage"]),
            [source.uniform(0, 100) for _ in FIELDS],
        )
        for number in range(40)
    ]
    heatmap = heatmap_of(
        graded(
            run_of(
                "Model-7B", [sample(step, ratings, scenario) for step, scenario, ratings in rated]
            )
        )
    )
    expected = {
        scenario: fmean(fmean(r[field] for _, s, r in rated if s == scenario) for field in range(3))
        for scenario in {s for _, s, _ in rated}
    }
    assert heatmap.runs == ("Model-7B",)
    assert heatmap.columns == ("Overall", *sorted(expected, key=expected.get))
    overall, *cells = [cell.score for cell in heatmap.cells[0]]
    assert cells == pytest.approx(sorted(expected.values()))
    assert overall == pytest.approx(fmean(fmean(r[field] for *_, r in rated) for field in range(3)))


def test_order_of_runs_and_scenarios():
    weak = of_scores("weak", {"bedroom": 60, "yard": 10, "kitchen": 20})
    heatmap = heatmap_of(
        graded(weak, of_scores("strong", {"bedroom": 50, "yard": 15, "kitchen": 70}))
    )
    assert heatmap.runs == ("strong", "weak")
    assert heatmap.columns == ("Overall", "yard", "kitchen", "bedroom")
    assert [[cell.score for cell in row[1:]] for row in heatmap.cells] == [
        [15, 70, 50],
        [10, 20, 60],
    ]


def test_unjudged_cells_are_nan_and_come_last():
    lines = [
        sample("s1", [10.0, None, 30.0], "part"),
        sample("s2", [30.0, 20.0, 50.0], "part"),
        sample("s3", NOTHING, "none"),
        sample("s4", [0.0, 0.0, 0.0], "missing", found_fields=()),
    ]
    unjudged = [
        run_of(name, [sample(f"s{n}", NOTHING, "part") for n in range(1, 5)], "none")
        for name in "ac"
    ]
    heatmap = heatmap_of(graded(run_of("b", lines), *unjudged))
    assert heatmap.runs == ("b", "a", "c")
    assert heatmap.columns == ("Overall", "missing", "part", "none")
    _, missing, part, none = heatmap.cells[0]
    assert (missing.score, missing.partial, missing.text) == (0, False, "0.0")
    assert part.score == pytest.approx(fmean([20, 20, 40]))
    assert part.text == f"{part.score:.1f}*"
    assert none.text == "n/a"
    assert math.isnan(heatmap.cells[1][0].score)


def test_remarks_name_runs_that_are_not_comparable():
    lines = [sample(f"s{number}", [1.0, 2.0, 3.0]) for number in range(3)]
    other_judge = run_of("c", [sample("s1", [1.0, 2.0, 3.0], judge="gpt")], judge="gpt")
    runs = [
        run_of("a", lines),
        run_of("b", lines[:2], prompts=PROMPTS | {"prompt": "2"}),
        other_judge,
    ]
    remarks = build_section(EgoIntentReport(runs)).remarks
    for facts in (
        ("judges", "a: qwen; b: qwen; c: gpt"),
        ("prompts", "a: 1; b: 2; c: 1"),
        ("1 steps", "a: 3; b: 2; c: 1"),
    ):
        assert any(all(fact in remark for fact in facts) for remark in remarks), facts
    assert not any("judge's prompts" in remark and "a: 1" in remark for remark in remarks)
    assert "Judges: gpt, qwen" in heatmap_figure(graded(*runs)).caption


def test_svg_contains_every_number_as_text(tmp_path):
    judged = of_scores("we$ak$", {"bed & <b>": 61.24, "$yard$ _x_": 10, "k\x00itchen": 20})
    unjudged = run_of("unjudged", [sample("x", NOTHING, "k\x00itchen")], "none")
    out = tmp_path / "map.svg"
    save(heatmap_of(graded(judged, unjudged)), out)
    texts = svg_texts(out)
    for text in (
        "61.2",
        "10.0",
        "20.0",
        "30.4",
        "bed & <b>",
        "$yard$ _x_",
        "k itchen",
        "we$ak$",
        "Overall",
    ):
        assert texts.count(text) == 1, text
    assert texts.count("n/a") == 4


def test_cells_without_a_score_are_hatched():
    heatmap = heatmap_of(
        graded(of_scores("a", {"kitchen": 20}), run_of("b", [sample("x", NOTHING)], "none"))
    )
    svg = io.StringIO()
    draw(heatmap).savefig(svg, format="svg")
    (style,) = re.findall(r'<pattern.*?<path[^>]*style="([^"]*)"', svg.getvalue(), re.DOTALL)
    assert ("stroke: #999999" in style, "stroke-width: 0.5" in style) == (True, True)


@pytest.mark.parametrize("size", [1, 7])
def test_higher_scores_are_darker_and_numbers_are_legible(size):
    names = [f"a rather long scenario {number}" for number in range(size)]
    runs = [
        of_scores(f"Some-Model-{x}B", {name: 14 * y + x for y, name in enumerate(names)})
        for x in range(size)
    ]
    drawing = draw(heatmap_of(graded(*runs)))
    drawing.draw_without_rendering()
    shades = {}
    for axes in drawing.axes:
        colours = [to_hex(colour) for colour in axes.collections[0].get_facecolors()]
        for colour, text in zip(colours, axes.texts, strict=True):
            shade, ink = brightness(colour), brightness(to_hex(text.get_color()))
            low, high = sorted((shade, ink))
            assert (high + 0.05) / (low + 0.05) > 4.5  # WCAG's AA
            shades.setdefault(float(text.get_text()), set()).add(shade)
    numbers = sorted(shades, reverse=True)
    assert len(numbers) >= size * size
    ordered = [shades[number] for number in numbers]
    assert all(max(first) < min(second) for first, second in pairwise(ordered))


def brightness(color):
    """Return the relative luminance of a color such as #1f77b4."""
    parts = [int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
