"""Provide the small report of the benchmark that a test module's folder names."""

import pytest


@pytest.fixture(scope="module")
def small(request, small_reports):
    with small_reports(request.path.parents[1].name) as report:
        yield report


@pytest.fixture(scope="module")
def runs(small):
    return small.runs


@pytest.fixture(scope="module")
def section(small):
    return small.section


@pytest.fixture(scope="module")
def written(small):
    return small.folder


@pytest.fixture(scope="module")
def logged(small):
    return small.counting.answers(small.folder)


@pytest.fixture(scope="module")
def bert(small):
    return small.inputs.similarity
