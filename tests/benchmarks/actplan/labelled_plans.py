"""ActPlan-1K's labelled plans: small ones made here, and the shortest of the published ones."""

import json

from shared_data import DATA

PLANS, ACTIVITIES = (DATA / "actplan" / name for name in ("plans_train_val.jsonl", "activities.txt"))


def record(number=0, **fields):
    """A line's object: an instance of its own activity with two gold plans, a wrong plan and a correct one."""
    activity = f"filling_a_box_{number}"
    golds = [f"walk_to(thing{number}) grab(thing{number}) place_inside(box, thing{number})", "grab(cup) open(box)"]
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
    """Both files, with a split for the activity of each record (None: none); their paths."""
    plans, activities = folder / "plans.jsonl", folder / "activities.txt"
    plans.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    lines = {f"{each['activity']}\t{split}\n": None for each, split in zip(records, splits, strict=True) if split}
    activities.write_text("".join(lines), encoding="utf-8")
    return plans, activities


def shortest(count, split):
    """The real instances of a split with the least text in their plans, as records."""
    activities = dict(line.split("\t") for line in ACTIVITIES.read_text().splitlines())
    records = [json.loads(line) for line in PLANS.read_text().splitlines()]
    records = [each for each in records if activities[each["activity"]] == split]
    return sorted(records, key=lambda each: (_longest_pair(each), each["path"]))[:count]


def _longest_pair(each):
    lengths = sorted(len(plan) for plans in each.values() if isinstance(plans, list) for plan in plans)
    return sum(lengths[-2:])


def write_overfit(folder, count):
    """Both files with the shortest real train instances, which are the val instances too, under other activities."""
    train = shortest(count, "train")
    val = [json.loads(json.dumps(each).replace(each["activity"], f"{each['activity']}_again")) for each in train]
    return write_plans(folder, train + val, ["train"] * count + ["val"] * count)
