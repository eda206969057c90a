"""ActPlan-1K's labelled plans: small generated ones, and the shortest published ones."""

import json

from shared_data import DATA

PLANS, ACTIVITIES = (
    DATA / "actplan" / name for name in ("plans_train_val.jsonl", "activities.txt")
)


def record(number=0, **fields):
    """Return the object of a line: an instance with two gold plans, a wrong and a correct plan."""
    activity = f"filling_a_box_{number}"
    golds = [
        f"walk_to(thing{number}) grab(thing{number}) place_inside(box, thing{number})",
        "grab(cup) open(box)",
    ]
    return {
        "path": f"../annotation/Scene_int/{activity}/0/sample_0",
        "activity": activity,
        "gold_gpt": golds[:1],
        "gold_gemini": golds[1:],
        "pos_gpt": [],
        "neg_gpt": [f"walk_to(box) switch-on(thing{number})"],
        "pos_gemini": [f"grab(thing{number}) close(box)"],
        "neg_gemini": [],
    } | fields


def write_plans(folder, records, splits):
    """Write both files, with a split (or None) for the activity of each record, and return their
    paths.
    """
    plans, activities = folder / "plans.jsonl", folder / "activities.txt"
    plans.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    lines = {
        f"{row['activity']}\t{split}\n": None
        for row, split in zip(records, splits, strict=True)
        if split
    }
    activities.write_text("".join(lines), encoding="utf-8")
    return plans, activities


def shortest(count, split):
    """Return the real instances of a split with the shortest plans, as records."""
    activities = dict(line.split("\t") for line in ACTIVITIES.read_text().splitlines())
    records = [json.loads(line) for line in PLANS.read_text().splitlines()]
    records = [row for row in records if activities[row["activity"]] == split]
    return sorted(records, key=lambda row: (_longest_pair(row), row["path"]))[:count]


def _longest_pair(row):
    lengths = sorted(
        len(plan) for plans in row.values() if isinstance(plans, list) for plan in plans
    )
    return sum(lengths[-2:])


def write_overfit(folder, count):
    """Write both files: the shortest real train instances, repeated as val instances under other
    activities.
    """
    train = shortest(count, "train")
    val = [
        json.loads(json.dumps(row).replace(row["activity"], f"{row['activity']}_again"))
        for row in train
    ]
    return write_plans(folder, train + val, ["train"] * count + ["val"] * count)
