"""How EgoPlan-Bench's and EgoPlan-Bench2's tasks obtain their scores, in the ledger's words."""

# How the tasks of EgoPlan-Bench obtain their scores, in the words of the ledger.
_RANKED = {
    "prompt": "question without options",
    "thinking": "off",
    "parser": "likelihood without the end token",
}
_RANKED_WITH_END = {
    "prompt": "question without options",
    "thinking": "off",
    "parser": "likelihood",
}
_SEED_BENCH_R1 = {
    "prompt": "think and answer tags",
    "thinking": "on",
    "parser": "first letter in answer tags",
    "frames": "4-16 at 2 per second, and the observation image",
}
EGOPLAN_FIELDS = {
    "egoplan_val": _RANKED,
    "egoplan_val_clips": _RANKED,
    "egoplan_val_published": _RANKED_WITH_END,
    "egoplan_val_clips_published": _RANKED_WITH_END,
    "egoplan_val_generate": {
        "prompt": "question and options with letter only",
        "parser": "clear letter",
    },
    "egoplan_val_thinking": {
        "prompt": "question and options with boxed letter",
        "thinking": "on",
        "parser": "clear letter",
    },
    "egoplan_val_reasoned": {
        "prompt": "summary, description, then letter",
        "thinking": "asked for",
        "parser": "clear letter",
    },
    "egoplan_val_clips_marked": _RANKED,
    # Presets, with the texts of ledger.csv for the same source.
    "egoplan__official": _RANKED_WITH_END,
    "egoplan__lmms-eval-0.7.3": {
        "prompt": "short phrase, then letter",
        "parser": "lmms-eval first letter",
    },
    "egoplan__seed-bench-r1": _SEED_BENCH_R1,
}
# How the tasks of EgoPlan-Bench2 obtain their scores, in the words of the ledger.
EGOPLAN_BENCH2_FIELDS = {
    "egoplan_bench2": _RANKED,
    "egoplan_bench2_generate": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "official EgoPlan-Bench2",
    },
    "egoplan_bench2_thinking": {
        "prompt": "official instruction with boxed letter",
        "thinking": "on",
        "parser": "clear letter",
    },
    "egoplan_bench2__official": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "official EgoPlan-Bench2",
    },
    "egoplan_bench2__lmms-eval-0.7.3": {
        "prompt": "official EgoPlan-Bench2",
        "parser": "lmms-eval first letter",
    },
    "egoplan_bench2__flageval": {
        "prompt": "FlagEvalMM option letter",
        "parser": "FlagEvalMM",
    },
    "egoplan_bench2__mimo": {
        "prompt": "official question, then boxed answer",
        "thinking": "on",
        "parser": "boxed, exact match",
    },
    # Its source also says "or the model's own" prompt, so the texts differ.
    "egoplan_bench2__physbrain-evalkit": {
        "prompt": "EmbodiedEvalKit letter only",
        "parser": "PhysBrainEvalKit",
    },
    "egoplan_bench2__physbrain-evalkit-thinking": {
        "prompt": "EmbodiedEvalKit letter only",
        "thinking": "on",
        "parser": "PhysBrainEvalKit",
    },
    "egoplan_bench2__seed-bench-r1": _SEED_BENCH_R1,
}
