"""Versions of tasks in both harnesses, and runs of several versions in one report."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.actplan.synthetic import actplan_answers
from benchmarks.egointent.synthetic import egointent_answers
from benchmarks.egoplan.synthetic import egoplan_answers, egoplan_replies
from benchmarks.egothink.synthetic import EGOTHINK_TASKS, egothink_bench
from lmms_egoplan.benchmarks.base import BENCHMARKS
from lmms_egoplan.paths import LM_EVAL_TASKS, LMMS_EVAL_TASKS
from lmms_egoplan.report.actplan.report import ActPlanReport
from lmms_egoplan.report.benchmarks import report_class
from lmms_egoplan.report.build import build_report
from lmms_egoplan.report.comparable_runs import comparable_parts
from lmms_egoplan.report.egoplan.report import EgoPlanReport
from lmms_egoplan.report.egothink.report import EgoThinkReport
from lmms_egoplan.report.gallery_items import gallery_items
from lmms_egoplan.report.run import age, logged_version
from lmms_egoplan.report.runs import read_runs
from lmms_egoplan.report.sections import build_section
from lmms_egoplan.task_files import package_versions, version_text
from report.prepared import prepare_data
from report.synthetic import write_run

OLD, NEW = ("Old-1B", "Older-1B"), ("New-1B", "Newer-1B")


def write_versions(path, *versions):
    """Write each version into the results of its tasks; None for all tasks.

    The version None removes the version.
    """
    content = json.loads(path.read_text())
    for version, tasks in versions:
        for task in content["versions"].keys() if tasks is None else tasks:
            content["versions"][task] = version
            content["configs"][task]["metadata"] = {} if version is None else {"version": version}
    path.write_text(json.dumps(content))


def tasks_of(seed):
    return {
        "egoplan_val": egoplan_answers(21, 0.4, seed),
        "egoplan_val_generate": egoplan_replies(21, 0.4, seed),
        **egothink_bench(2, 0.6, seed),
        "egointent": egointent_answers(12, 60, seed),
        "actplan": actplan_answers(8, 0.7, seed),
    }


@pytest.fixture(scope="module")
def sections(tmp_path_factory):
    """Build a report on two runs of version 7.0 and two of 8.0, of both harnesses, with gallery
    questions.
    """
    folder, sections, items = tmp_path_factory.mktemp("versions"), [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMMS_EGOPLAN_DATA", str(folder / "data"))
        prepare_data(folder / "data", egoplan=21)
        for seed, (name, version) in enumerate(
            [(OLD[0], 7.0), (NEW[0], 8.0), (OLD[1], "7"), (NEW[1], 8)]
        ):
            path = write_run(
                folder / "runs", ("lmms-eval", "lm-eval")[seed // 2], f"org/{name}", tasks_of(seed)
            )
            write_versions(path, (version, None))
        runs = read_runs([folder / "runs"]).runs
        names = {task.partition("_")[0] for task in tasks_of(0)}
        for benchmark in (benchmark for benchmark in BENCHMARKS if benchmark.name in names):
            parts = comparable_parts(benchmark.name, runs)
            reports = [report_class(benchmark.name)(part.runs) for part in parts]
            assert [part.label for part in parts] == ["version 8.0", "version 7.0"]
            for part, report in zip(parts, reports, strict=True):
                sections.append(part.section(build_section(report)))
                items += part.items(gallery_items(report))
    return sections, items


def test_no_table_has_runs_of_two_versions(sections):
    old, new = 0, 0
    for section in sections[0]:
        for table in section.tables:
            texts = [column.title for column in table.columns]
            texts += [str(value) for row in table.rows if row.is_ours for value in row.values]
            has_old, has_new = (
                any(text.startswith(names) for text in texts) for names in (OLD, NEW)
            )
            assert not (has_old and has_new), table.key
            assert has_old == table.key.endswith("_1_version_7_0"), table.key
            old, new = old + has_old, new + has_new
    assert old == new > 15


def test_no_figure_has_runs_of_two_versions(sections):
    figures = [figure for section in sections[0] for figure in section.figures]
    assert len(figures) > 10
    for figure in figures:
        names, other_names = (OLD, NEW) if figure.key.endswith("_1_version_7_0") else (NEW, OLD)
        assert not any(name in figure.description for name in other_names), figure.key
        assert f"version {7 if names is OLD else 8}.0" in figure.caption


def test_each_version_is_compared_with_itself(sections):
    comparisons = [
        table for section in sections[0] for table in section.tables if "_comparisons" in table.key
    ]
    assert len(comparisons) == 10
    for table in comparisons:
        pairs = [{name.partition(" (")[0] for name in row.values[:2]} for row in table.rows]
        assert pairs == [set(OLD if "version" in table.key else NEW)], table.key


def test_every_table_with_runs_names_incomparable_versions_and_the_reason(sections):
    for section in sections[0]:
        version, other_version = ("7.0", "8.0") if "version" in section.key else ("8.0", "7.0")
        named = (
            f"version {version} ",
            f"version {other_version}:",
            f"tasks/lmms_eval/{section.key.partition('_')[0]}/README.md",
        )
        assert section.title.endswith(f", version {version}")
        assert all(text in section.remarks[0] for text in named)
        for table in section.tables:
            has_own = any(row.is_ours for row in table.rows)
            has_reason = any(all(text in note for text in named) for note in table.notes)
            assert has_reason == table.title.endswith(f", version {version}") == has_own


def test_tables_without_runs_appear_once(sections):
    keys = [table.key for section in sections[0] for table in section.tables]
    assert len(keys) == len(set(keys))
    assert {"egoplan_table4", "egothink_table9"} <= set(keys)
    assert not any(key.startswith(("egoplan_table4_", "egothink_table9_")) for key in keys)


def test_the_gallery_has_a_question_for_each_version(sections):
    items = {item.key: item for item in sections[1]}
    assert len(items) == len(sections[1]) == 2 * (21 + 2 * len(EGOTHINK_TASKS) + 12 + 8)
    assert {"egoplan/1", "egoplan/1 (version 7.0)"} <= items.keys()
    for key, item in items.items():
        is_old = key.endswith(" (version 7.0)")
        assert {run for run, _ in item.answers} == set(OLD if is_old else NEW)
        assert item.benchmark in {section.key for section in sections[0]}
        assert item.benchmark.endswith("_1_version_7_0") is is_old


def runs_of(tmp_path, *described):
    """Write and read runs of EgoPlan, each described by its name and the versions of its tasks."""
    for seed, (name, versions) in enumerate(described):
        tasks = {
            task: egoplan_replies(21, 0.4, seed)
            if "generate" in task
            else egoplan_answers(21, 0.4, seed)
            for task in versions
        }
        path = write_run(tmp_path / name, "lm-eval", name, tasks)
        write_versions(path, *((version, [task]) for task, version in versions.items()))
    return read_runs([tmp_path]).runs


def kinds(parts):
    return [{(run.name, task) for run in part.runs for task in run.tasks} for part in parts]


def test_runs_of_one_version_are_one_part_without_remarks(tmp_path):
    package = {
        task: float(package_versions()[task]) for task in ("egoplan_val", "egoplan_val_blind")
    }
    runs = runs_of(tmp_path, ("a", package), ("b", {"egoplan_val": str(package["egoplan_val"])}))
    (part,) = comparable_parts("egoplan", runs)
    assert part.runs == runs
    section = build_section(EgoPlanReport(runs))
    assert part.section(section) == section
    assert comparable_parts("actplan", runs) == []


def test_versions_other_than_the_packages_are_reported(tmp_path):
    runs = runs_of(tmp_path, ("a", {"egoplan_val": 0.5}))
    (part,) = comparable_parts("egoplan", runs)
    section = part.section(build_section(EgoPlanReport(runs)))
    assert section.key == "egoplan"
    assert section.remarks[0].startswith(
        "This package has a different version of egoplan_val than these runs"
    )


def test_only_the_changed_task_is_in_another_part(tmp_path, monkeypatch):
    """The package has version 2.0 of one task and 1.0 of two tasks."""
    package = {"egoplan_val": "2.0", "egoplan_val_blind": "1.0", "egoplan_val_generate": "1.0"}
    monkeypatch.setattr("lmms_egoplan.report.comparable_runs.package_versions", lambda: package)
    tasks = {"egoplan_val_16": 2.0, "egoplan_val_blind": 1.0}
    runs = runs_of(
        tmp_path,
        ("a", {"egoplan_val": 1.0, "egoplan_val_generate": 1.0}),
        ("b", {"egoplan_val": 2.0, **tasks}),
    )
    parts = comparable_parts("egoplan", runs)
    assert kinds(parts) == [
        {
            ("b", "egoplan_val"),
            ("b", "egoplan_val_16"),
            ("b", "egoplan_val_blind"),
            ("a", "egoplan_val_generate"),
        },
        {("a", "egoplan_val")},
    ]
    assert [part.divided for part in parts] == [("a",), ("a",)]
    first = parts[0].section(build_section(EgoPlanReport(parts[0].runs)))
    assert first.title == "EgoPlan"
    assert first.remarks[0].startswith(
        "Runs of one version of a task are not compared with runs of another: "
    )
    assert first.remarks[0].endswith(": egoplan_val 1.0.")


def test_an_old_run_of_one_task_is_separate_from_new_runs_of_other_tasks(tmp_path):
    runs = runs_of(tmp_path, ("a", {"egoplan_val": 7.0}), ("b", {"egoplan_val_blind": 8.0}))
    assert kinds(comparable_parts("egoplan", runs)) == [
        {("b", "egoplan_val_blind")},
        {("a", "egoplan_val")},
    ]


def test_unknown_versions_are_separate_and_reported(tmp_path):
    runs = runs_of(tmp_path, ("a", {"egoplan_val": None}), ("b", {"egoplan_val": 1.0}))
    of_version_1, unknown = comparable_parts("egoplan", runs)
    assert kinds([of_version_1, unknown]) == [{("b", "egoplan_val")}, {("a", "egoplan_val")}]
    section = unknown.section(build_section(EgoPlanReport(unknown.runs)))
    assert section.title == "EgoPlan, version unknown"
    assert any("version of egoplan_val" in remark for remark in section.remarks)


def test_averages_never_mix_dimensions_of_two_versions(tmp_path):
    path = write_run(tmp_path, "lmms-eval", "m", egothink_bench(2, 0.6))
    write_versions(
        path, (7.0, None), (8.0, [task for task in EGOTHINK_TASKS if "planning" in task])
    )
    new, old = comparable_parts("egothink", read_runs([tmp_path]).runs)
    assert (len(new.versions), len(old.versions)) == (2, 10)
    for part in (new, old):
        section = part.section(build_section(EgoThinkReport(part.runs)))
        headline, *_ = section.headlines
        assert headline.value is None
        assert any(
            remark.startswith("m: ") and "several versions" in remark for remark in section.remarks
        )


def test_two_results_files_of_one_folder_are_two_runs(tmp_path):
    """The same task was run again in the same folder, after an update."""
    for version, time in ((7.0, "20260101_120000"), (8.0, "20260301_120000")):
        path = write_run(
            tmp_path, "lmms-eval", "org/m", {"actplan": actplan_answers(8, version / 10)}, time=time
        )
        write_versions(path, (version, None))
    parts = comparable_parts("actplan", read_runs([tmp_path]).runs)
    assert [[run.time for run in part.runs] for part in parts] == [
        ["2026-03-01 04:00:00 UTC"],
        ["2026-01-01 04:00:00 UTC"],
    ]
    assert [len(gallery_items(ActPlanReport(part.runs))) for part in parts] == [8, 8]


def test_any_version_makes_a_page(tmp_path):
    versions = (
        "<b>2</b>",
        "../../x",
        "9" * 5000,
        "2\ud800\x00",
        "1.0|2.0",
        "\u00e9" * 300,
        "a b",
        "a/b",
        1.0,
    )
    for seed, version in enumerate(versions):
        folder, answers = tmp_path / "runs" / str(seed), {"egointent": egointent_answers(4, 60)}
        # Only runs with samples have figures. The first four versions have the oddest names.
        path = write_run(folder, "lm-eval", f"m{seed}", answers, log_samples=seed < 4)
        write_versions(path, (version, None))
    built = build_report([tmp_path / "runs"], tmp_path / "out", {}, BENCHMARKS, lambda *_: None)
    assert (built.counts["runs"], built.counts["benchmarks"], built.counts["questions"]) == (
        9,
        1,
        4 * 4,
    )
    page = built.page.read_text(encoding="utf-8")
    assert "<b>2" not in page
    assert page.count('<section id="egointent') == 9
    names = {path.stem for path in (tmp_path / "out" / "tables").iterdir()} - {"summary", "results"}
    assert len(names) == built.counts["tables"]
    assert all(name.startswith("egointent_") for name in names)


def configs(folder):
    """Read the configurations of tasks and groups with the harness's own loader, by name."""
    paths = sorted(folder.glob("*/**/*.yaml"))
    if folder == LM_EVAL_TASKS:
        from lm_eval.tasks._yaml_loader import load_yaml

        contents = [load_yaml(path, resolve_func=False) for path in paths]
    else:
        from lmms_eval.utils import load_yaml_config

        contents = [load_yaml_config(str(path), mode="simple") for path in paths]
    named = {config.get("group") or config.get("task"): config for config in contents}
    named.pop(None, None)  # Files that tasks include.
    return named


@pytest.fixture(scope="module")
def harness_configs():
    return configs(LMMS_EVAL_TASKS), configs(LM_EVAL_TASKS)


def version(config):
    return version_text(config["metadata"]["version"])


def test_every_task_has_a_number_as_version(harness_configs):
    lmms_eval, lm_eval = harness_configs
    assert min(len(lmms_eval), len(lm_eval)) >= 29
    for config in (*lmms_eval.values(), *lm_eval.values()):
        assert isinstance(config["metadata"]["version"], float), config


def test_a_task_has_one_version_in_both_harnesses(harness_configs):
    lmms_eval, lm_eval = harness_configs
    both = lmms_eval.keys() & lm_eval.keys()
    assert len(both) > 25
    assert {name: version(lmms_eval[name]) for name in both} == {
        name: version(lm_eval[name]) for name in both
    }


def test_the_report_reads_the_versions_that_the_harnesses_read(harness_configs):
    lmms_eval, lm_eval = harness_configs
    assert package_versions() == {
        name: version(config) for name, config in (lmms_eval | lm_eval).items()
    }


def test_a_group_has_the_newest_version_of_its_tasks(harness_configs):
    for configs_of_harness in harness_configs:
        for name, config in configs_of_harness.items():
            if "group" in config:
                tasks = [package_versions()[task] for task in config["task"]]
                assert version(config) == max(tasks, key=age), name


@pytest.mark.parametrize(
    "names",
    [
        [name for name in package_versions() if name.startswith("egothink")],
        ["actplan", "actplan_normal", "actplan_counterfactual"],
    ],
    ids=["egothink", "actplan"],
)
def test_averaged_tasks_have_one_version(names):
    assert len(names) >= 3
    assert len({package_versions()[name] for name in names}) == 1


def test_changelogs_have_a_line_for_each_current_version(harness_configs):
    for folder, tasks in zip((LMMS_EVAL_TASKS, LM_EVAL_TASKS), harness_configs, strict=True):
        for benchmark in BENCHMARKS:
            path = folder / benchmark.name / "README.md"
            lines = path.read_text(encoding="utf-8").partition("## Changelog")[2].splitlines()
            listed = {
                match[1] for line in lines if (match := re.match(r"[-*] \**(\d+\.\d+)\b", line))
            }
            current = {
                version(config) for name, config in tasks.items() if name.startswith(benchmark.name)
            }
            assert current, path
            assert current <= listed, path


def test_equal_numbers_are_one_version():
    for value in (2, 2.0, "2", "2.0", " 2.0 "):
        results = {
            "versions": {"egoplan_val": value},
            "configs": {"egoplan_val": {"metadata": {"version": 2.0}}},
        }
        assert logged_version(results, "egoplan_val") == "2.0", value


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ({"versions": {"t": 1.0}}, "1.0"),
        ({"configs": {"t": {"metadata": {"version": "1.0-beta"}}}}, "1.0-beta"),
        ({"versions": {"t": "Yaml"}, "configs": {"t": {"metadata": {"version": 3}}}}, "3.0"),
        ({"versions": {"t": 1.0}, "configs": {"t": {"metadata": {"version": 2.0}}}}, "1.0 or 2.0"),
        ({"versions": {"other": 1.0}, "configs": {"t": {"metadata": None}}}, None),
        ({"versions": {"t": {}}, "configs": None}, None),
        ({"versions": [1.0]}, None),
        ({"versions": {"t": float("nan")}}, None),
        ({"versions": {"t": True}}, None),
        ([], None),
    ],
)
def test_versions_in_results(results, expected):
    assert logged_version(results, "t") == expected


@settings(max_examples=30)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9), st.lists
    )
)
def test_any_value_is_a_version_or_none(value):
    version = logged_version({"versions": {"t": value}}, "t")
    assert version is None or (version and version_text(version) == version)
    assert age(None) <= age(version)


def test_the_newest_version_is_the_last():
    assert sorted(["10.0", None, "2.0", "1.1", "1.0"], key=age) == [
        None,
        "1.0",
        "1.1",
        "2.0",
        "10.0",
    ]
