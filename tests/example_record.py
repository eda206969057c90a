"""A record in the format of the official validation file."""

RECORD = {
    "sample_id": 7,
    "video_source": "EpicKitchens",
    "video_id": "P01_02",
    "task_goal": "brew tea",
    "question": "What next, in order to brew tea?",
    "choice_a": "fill kettle",
    "choice_b": "pour water",
    "choice_c": "open drawer",
    "choice_d": "wash cup",
    "golden_choice_idx": "B",
    "answer": "pour water",
    "current_observation_frame": 90,
    "task_progress_metadata": [
        {"narration_text": "take kettle", "start_frame": 1, "stop_frame": 40},
        {"narration_text": "boil water", "start_frame": 30, "stop_frame": 95},
    ],
}
