"""The commands of the planner, and the help of their group."""

GROUPS = {
    "plan": """
        Let a model guide an agent step by step, and write the episode as a web page and a video.

        At each step, the model gets EgoPlan's question, the last four actions and the current
        view. It proposes five actions, and the best one is executed (first version of
        EgoPlan-Bench, Applications).

        Example: `lmms-egoplan plan kitchen --goal "heat water" --model Qwen/Qwen2.5-VL-7B-Instruct
        --out episode`
    """,
}

COMMANDS = {
    "plan kitchen": "commands:kitchen",
    "plan virtualhome": "commands:virtualhome",
    "plan video": "commands:video",
}
