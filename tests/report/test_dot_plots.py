"""The charts of main scores on the page: their scores, axis, gaps and signs."""

from dataclasses import replace

from lmms_egoplan.report.charts import model_colours
from lmms_egoplan.report.document import Headline, Reference, Section
from lmms_egoplan.report.dot_plots import dot_plots, signs_of
from lmms_egoplan.report.page import write_page


def line(run, value=40.0, **fields):
    interval = None if value is None else (value - 2, value + 2)
    return Headline(
        run, "Bench", "task", "accuracy", value, 2, interval, 100, **{"coverage": 1.0} | fields
    )


def test_charts_of_a_section_share_an_axis_and_mark_chance(tmp_path):
    lines = [line("A", 30.0, chance=25.0, is_main=True)]
    lines.append(replace(lines[0], task="other", value=60.0, interval=(58.0, 62.0)))
    section = Section("bench", "Bench", "", tuple(lines))
    write_page(tmp_path, [section], [], [], ())
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    chart = page.partition('id="scores-bench"')[2].partition("</figure>")[0]
    assert chart.count("Axis from 20 to 70") == 1
    assert chart.count('class="chance" style="left: 10.00%"') == 2


def test_scores_of_one_protocol_are_in_one_chart_best_first():
    reference = Reference("Best", 50.0, "Table 1", (50.0,))
    lines = [
        line("A", 40.0, protocol="task, judge X", is_main=True, apart=("other questions",)),
        line("B", None, protocol="task, judge X", is_main=True),
        line("C", 42.0, protocol="task, judge X", is_main=True),
        line("D", 43.0, protocol="task, judge Y", is_main=True, apart=("other questions",)),
        replace(line("A", 90.0, protocol="blind"), task="blind"),
    ]
    section = Section("bench", "Bench", "", tuple(lines), reference=reference)
    first, second = dot_plots(section, is_main=True)
    assert [score.run for score in first.lines] == ["C", "A", "B"]
    assert (first.task, second.task) == ("task, judge X", "task, judge Y")
    # The published score is only next to scores that are comparable with it.
    assert (first.reference, second.reference) == (reference, None)
    (other,) = dot_plots(section, is_main=False)
    assert (other.task, other.reference) == ("blind", None)


def test_what_all_scores_lack_is_said_once():
    lines = [
        line("A", coverage=0.5, truncated=0.1, is_main=True),
        line("B", coverage=0.5, truncated=None, is_main=True),
        line("C", coverage=0.5, truncated=0.0, is_main=True),
    ]
    (plot,) = dot_plots(Section("bench", "Bench", "", tuple(lines)), is_main=True)
    assert plot.shared_gaps == ["50.0\u202f% covered"]
    assert [plot.gaps(score)[1:] for score in lines] == [
        ["10.0\u202f% truncated"], ["truncation unknown"], []
    ]  # fmt: skip


def test_models_have_the_colours_of_the_figures_and_different_signs():
    names = [f"model {number}" for number in range(8)]
    signs = signs_of(names)
    assert {name: sign.colour for name, sign in signs.items()} == model_colours(names)
    assert len({sign.shape for sign in signs.values()}) == len(names)
