"""`lmms-egoplan annotate`: names and numbers in its help."""

from lmms_egoplan.annotation.flow import LABELLED
from lmms_egoplan.annotation.label_studio import TOKEN
from lmms_egoplan.annotation.serve import DEFAULT_ANNOTATORS, DEFAULT_PER_ITEM
from lmms_egoplan.annotation.study import STUDIES
from lmms_egoplan.cli import annotate
from lmms_egoplan.stats.correction import FEWEST_RATED


def test_the_names_and_numbers_in_the_help_are_those_of_the_room():
    assert annotate.BENCHMARKS == LABELLED
    assert annotate.STUDIES == STUDIES
    assert annotate.DEFAULT_ANNOTATORS == DEFAULT_ANNOTATORS
    assert annotate.DEFAULT_PER_ITEM == DEFAULT_PER_ITEM
    assert annotate.FEWEST_RATED == FEWEST_RATED
    assert annotate.LABEL_STUDIO_TOKEN == TOKEN
