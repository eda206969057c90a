"""The general commands and those of the benchmarks, and the help of their groups."""

GROUPS = {
    "data": """
        Prepare the benchmarks' data, and list the prepared splits.

        Example: `lmms-egoplan data prepare egothink hub`, then `lmms-egoplan data status`
    """,
    "data prepare": """
        Check the files of a benchmark and convert them to a dataset.

        The dataset is written to `$LMMS_EGOPLAN_DATA` (by default `~/.cache/lmms_egoplan`).

        Example: `lmms-egoplan data prepare actplan ActPlan-1K/annotation`
    """,
    "data list": """
        List the videos that a benchmark needs, as input for the publishers' downloaders.

        Example: `lmms-egoplan data list egoplan EgoPlan_validation.json --out ids.txt`
    """,
    "data cut": """
        Cut the parts of videos that the tasks read. You can then store or move them without the
        full videos.

        Example: `lmms-egoplan data cut egoplan EgoPlan_validation.json --split val
        --epic-kitchens EPIC-KITCHENS --ego4d ego4d/video_288p --out clips`
    """,
    "judge": """
        Judge stored answers.

        LMMS_EGOPLAN_JUDGE_BASE_URL, LMMS_EGOPLAN_JUDGE_API_KEY and LMMS_EGOPLAN_JUDGE_MODEL set
        the judge for all benchmarks. Without LMMS_EGOPLAN_JUDGE_MODEL, each benchmark uses its
        default judge: EgoThink gpt-4o-2024-11-20, EgoIntent Qwen/Qwen3-32B, egointent_v1
        Qwen/Qwen3-32B, EgoIntent's diagnostics Qwen/Qwen3-VL-32B-Instruct.

        Example: `lmms-egoplan judge egothink runs/my-model --out judged.jsonl`
    """,
    "agreement": """
        Measure the agreement between judges and people.

        Example: `lmms-egoplan agreement egothink gpt-4o.jsonl qwen.jsonl --human annotators.csv
        --out agreement.csv`
    """,
    "score": """
        Score plans from any source.

        Example: `lmms-egoplan score actplan plans.jsonl --out scores.json`
    """,
    "submit": """
        Create a submission file from the samples of a run.

        Example: `lmms-egoplan submit egoplan
        runs/model/20250101_120000_samples_egoplan_test.jsonl --out submission.json`
    """,
    "evaluate": """
        Evaluate the models and checks used by a benchmark's metrics.

        Example: `lmms-egoplan evaluate actplan-bleurt classifier finetuning_data.jsonl
        activities.txt --split val`
    """,
    "metrics-path": """
        Print the folder of a benchmark's metrics, for Hugging Face's evaluate library.

        Example: `METRICS=$(lmms-egoplan metrics-path actplan)`
    """,
}

COMMANDS = {
    "demo": "demo:demo",
    "run": "run:run",
    "data status": "data:status",
    "show": "report:show",
    "report": "report:report",
    "ledger": "ledger:ledger",
    "compare": "report:compare",
    "tasks-path": "data:tasks_path",
    "data prepare egoplan": "egoplan:prepare",
    "data prepare egoplan_bench2": "egoplan:prepare_bench2",
    "data prepare egothink": "egothink:prepare",
    "data prepare egointent": "egointent:prepare",
    "data prepare actplan": "actplan:prepare",
    "data list egoplan": "egoplan:list_videos",
    "data list egoplan_bench2": "egoplan:list_bench2_videos",
    "data list egointent": "egointent:list_videos",
    "data cut egoplan": "egoplan:cut",
    "data cut egoplan_bench2": "egoplan:cut_bench2",
    "judge egoplan": "egoplan:judge",
    "judge egothink": "egothink:judge",
    "judge egointent": "egointent:judge",
    "judge actplan": "actplan:judge",
    "agreement egothink": "egothink:agreement",
    "score actplan": "actplan:score",
    "submit egoplan": "egoplan:submit",
    "evaluate actplan-bleurt": "actplan:evaluate_classifier",
    "metrics-path actplan": "actplan:metrics_path",
}
