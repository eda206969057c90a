"""A row of EgoPlan's prepared validation split, for a video of 120 frames."""

PAST = [("open tap", 40, 60), ("take cup", 80, 90), ("open tap", 100, 110)]


def row(media_path, past=PAST, **changes):
    """Return a row whose past actions are these texts with their first and last frames."""
    return {
        "video_source": "EpicKitchens",
        "video_id": "P01_01",
        "task_goal": "drink water",
        "media_path": str(media_path),
        "sample_id": 1,
        "current_observation_frame": 120,
        "past_actions": [
            {"narration_text": text, "start_frame": a, "stop_frame": b} for text, a, b in past
        ],
    } | changes
