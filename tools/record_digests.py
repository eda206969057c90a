#!/usr/bin/env python3
"""Print the digests of a benchmark's records, for `digests` in
``lmms_egoplan/benchmarks/splits.py``.

Run it once on the published file. From then on, prepared data with the same records are the
question set ``official`` instead of ``official by counts``, and data with other records are
``own``. It reads no videos.

    python tools/record_digests.py egoplan EgoPlan_validation.json --split val
    python tools/record_digests.py egoplan_bench2 hub
    python tools/record_digests.py egothink EgoThink
    python tools/record_digests.py egointent hub
    python tools/record_digests.py actplan ActPlan-1K/annotation
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from lmms_egoplan.benchmarks.actplan.instances import find_instances, read_instance
from lmms_egoplan.benchmarks.actplan.prepare import record_parts
from lmms_egoplan.benchmarks.egointent.records import read_annotations as read_steps
from lmms_egoplan.benchmarks.egoplan.records import read_annotations, read_bench2_annotations
from lmms_egoplan.benchmarks.egothink.dimensions import DIMENSIONS
from lmms_egoplan.benchmarks.egothink.prepare import HUB
from lmms_egoplan.benchmarks.egothink.prepare import records_digest as dimension_digest
from lmms_egoplan.benchmarks.egothink.records import check_records, read_folder, read_hub
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.storage import fingerprint, records_digest


def egothink_digests(source: str, _split: str) -> dict[str, str]:
    """Return the digest of each dimension."""
    records = check_records(read_hub() if source == HUB else read_folder(Path(source)))
    digests = {}
    for dimension in DIMENSIONS:
        of_dimension = [record for record in records if record.dimension == dimension.name]
        digests[dimension.name] = dimension_digest(of_dimension)
    return digests


def actplan_digests(source: str, split: str) -> dict[str, str]:
    """Return the digest of all instances in a folder."""
    folder = Path(source)
    instances, _ = find_instances(folder)
    return {
        split: fingerprint(record_parts(read_instance(folder, instance)) for instance in instances)
    }


DIGESTS: dict[str, Callable[[str, str], dict[str, str]]] = {
    "egoplan": lambda source, split: {split: records_digest(read_annotations(source, split))},
    "egoplan_bench2": lambda source, split: {
        split: records_digest(read_bench2_annotations(source))
    },
    "egothink": egothink_digests,
    "egointent": lambda source, split: {split: records_digest(read_steps(source))},
    "actplan": actplan_digests,
}


def main() -> None:
    """Print one line per split."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("benchmark", choices=DIGESTS)
    parser.add_argument(
        "source", help="the published file or folder, as for `lmms-egoplan data prepare`"
    )
    parser.add_argument("--split", choices=("val", "test"), default="test")
    arguments = parser.parse_args()
    try:
        digests = DIGESTS[arguments.benchmark](arguments.source, arguments.split)
    except LmmsEgoplanError as error:
        sys.exit(str(error))
    for name, digest in digests.items():
        print(f"{name}: {digest}")


if __name__ == "__main__":
    main()
