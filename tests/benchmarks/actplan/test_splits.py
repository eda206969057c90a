import pytest

from benchmarks.actplan.release import write_release
from lmms_egoplan.benchmarks.actplan.instances import find_instances, prompt_text, read_instance, views
from lmms_egoplan.benchmarks.actplan.prepare import prepare_actplan
from lmms_egoplan.benchmarks.splits import ACTPLAN
from media.files import read_number

pytestmark = pytest.mark.usefixtures("data")


@pytest.fixture
def docs(tmp_path):
    prepare_actplan(write_release(tmp_path / "source", 8))
    return ACTPLAN.load("test")


def test_the_task_description_is_asked_to_the_letter(docs, tmp_path):
    instances, _ = find_instances(tmp_path / "source")
    records = {str(instance): read_instance(tmp_path / "source", instance) for instance in instances}
    assert len(docs) == 8
    for doc in docs:
        assert prompt_text(doc) == records[doc["id"]].task_description
        assert prompt_text({"task_description": doc["task_description"]}) == prompt_text(doc)


def test_all_views_are_shown_in_the_order_of_the_release(docs):
    for doc in docs:
        images = views(doc)
        numbers = [read_number(image) for image in images]
        assert {image.mode for image in images} == {"RGB"}
        assert numbers == list(range(numbers[0], numbers[0] + len(doc["images"])))
