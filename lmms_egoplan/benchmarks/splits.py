"""List the prepared splits of all benchmarks, with their official sizes.

`official` is the number of questions of each split in the paper, and `digests` has the digests of
the published records (tools/record_digests.py). Bump `data_format` when the prepared data change.
"""

from lmms_egoplan.storage import PreparedData

# Table 2. Since format 3, questions have a question set, and the frames of video files are at the
# times of the records' numbers.
EGOPLAN = PreparedData(
    benchmark="egoplan",
    title="EgoPlan's {} split",
    how=(
        "Prepare it with: lmms-egoplan data prepare egoplan {file}.json --split {split} "
        "--epic-kitchens DIR --ego4d DIR, or with --clips DIR. Annotations: "
        "https://github.com/ChenYi99/EgoPlan; videos: https://epic-kitchens.github.io "
        "(RGB frames) and https://ego4d-data.org (canonical, 288p)"
    ),
    data_format=3,
    oldest_format=3,
    official={"val": 3355, "test": 1584},
    question_id="sample_id",
    files={"val": "EgoPlan_validation", "test": "EgoPlan_test"},
)

# Sec. 3. Format 2 is EgoPlan's format 3.
EGOPLAN_BENCH2 = PreparedData(
    benchmark="egoplan_bench2",
    title="EgoPlan-Bench2's {} split",
    how=(
        "Prepare it with: lmms-egoplan data prepare egoplan_bench2 hub --ego4d DIR, or with "
        "--clips DIR. Videos: https://ego4d-data.org (canonical, 288p)"
    ),
    data_format=2,
    oldest_format=2,
    official={"test": 1321},
    question_id="sample_id",
)

# Table 4: one split per dimension. Since format 2, questions have a question set.
EGOTHINK = PreparedData(
    benchmark="egothink",
    title="EgoThink's dimension {}",
    how=(
        "Prepare all twelve with: lmms-egoplan data prepare egothink hub (the dataset "
        "EgoThink/EgoThink), or with the folder of a clone of https://github.com/AdaCheng/EgoThink "
        "instead of hub. For images with marks: --marks FOLDER"
    ),
    data_format=2,
    oldest_format=2,
    official={
        "existence": 50,
        "attribute": 50,
        "affordance": 50,
        "activity": 100,
        "location": 50,
        "spatial": 50,
        "counting": 50,
        "comparison": 50,
        "situated": 50,
        "forecasting": 100,
        "navigation": 50,
        "assistance": 50,
    },
    digests={
        "existence": "eee1f744af3bebfb0bd970043233c8052f9ff542047ce8edcfa63917d89c4d54",
        "attribute": "ae67279f5bf9319c6ee54fa0a24bc2c3b6efc30466968bb31bda50be389b6f52",
        "affordance": "1514c55e52d177e8dd81510f0b4cf69e368eb87f4a23693c51d8d5378c00c356",
        "activity": "a40e107938670d37454b23d33e02ce2d9715247a8fe631cdf258b8cad07efcd0",
        "location": "554d016244a4fc4a7fb0c7fbdc287bfa8887d27caac592b8144b632a805e329e",
        "spatial": "7a7a881fc21c103f43b77834609769ed7b76632bd609fa6a6dfab0886362cb86",
        "counting": "c49883a4455a6931047507c945b50be42d6f2433b8dc1e89c25a69f826df82e8",
        "comparison": "2fd0df909be91be43364521a9e571efce3177eec5561c0268f93351779f3538f",
        "situated": "5f86ef43be4801c136eb699137fc2a61d2336d82a670164580b9c9f8d5d9ca71",
        "forecasting": "925a134450328a0c7a280dca6b7927965a5ad2cf0b350ce8126170931285a7f2",
        "navigation": "385f89a6cf4c0c3bf8a813ec646a18002d6d7f72f0f0abb0344e511be2199bd1",
        "assistance": "67749382be41b38cf067f6c110b6c5d8904fe00017560d87457f17f426e35510",
    },
)

# Sec. 3.1. Since format 4, steps have a question set. The split `leakage` is this project's, so it
# has no official size.
EGOINTENT = PreparedData(
    benchmark="egointent",
    title="EgoIntent's {} split",
    how=(
        "Prepare it with: lmms-egoplan data prepare egointent hub --videos DIR (for the split "
        "leakage: with --leakage), or with an annotation file instead of hub "
        "(https://github.com/YePan2/EgoIntent; {tasks}/egointent/FORMAT.md describes its format). "
        "Without annotations, you can build steps: lmms-egoplan data build egointent --help"
    ),
    data_format=4,
    oldest_format=4,
    official={"test": 3014},
    question_id="step_id",
    substitutes={"categories": "Goal-Step steps, not EgoIntent's"},
)

# Table 2. Since format 3, instances have a question set; since format 4, no problem in BDDL.
ACTPLAN = PreparedData(
    benchmark="actplan",
    title="ActPlan-1K's split {}",
    how=(
        "Prepare it with: lmms-egoplan data prepare actplan DIR. DIR is the folder annotation "
        "of the full release, which https://github.com/HKUST-KnowComp/ActPlan-1K links"
    ),
    data_format=4,
    oldest_format=3,
    official={"test": 1187},
)

SPLITS = (EGOPLAN, EGOPLAN_BENCH2, EGOTHINK, EGOINTENT, ACTPLAN)
"""The splits of all benchmarks, in the order of the registry."""
