"""Measure how often planners reach goals in the simulated kitchen, with goals and pictures that
tuning did not see.

A seed sets the camera, slightly off its usual position, and which other elements are open or on at
the start. Training uses separate seeds. First, all weights of a tiny LLaVA are trained to describe
the possible actions in a view, without any goal. Then `lmms_egoplan.training` tunes it on rendered
episodes, one frame per step.

The goals are split into three parts. Each part is tested with a model tuned on the other two ("new
goals"), and with a model tuned on this part and another ("known goals"). The goal-only model is
tuned on the same episodes and tested, both without pictures. Planners rank all actions of the
kitchen.

    MUJOCO_GL=osmesa python perf/planner.py      # 2 CPU cores, about 30 minutes
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.stats import bootstrap
from transformers import AutoModelForImageTextToText, AutoProcessor, CLIPImageProcessor, set_seed

from lmms_egoplan.benchmarks.egoplan.prompts import QUESTION
from lmms_egoplan.demo.checkpoint import llava, llava_processor, train_tokenizer
from lmms_egoplan.harnesses.adapter import load_adapter
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.planner.kitchen import ACTIONS, GOALS, Kitchen
from lmms_egoplan.planner.planner import ActionOutcome, Episode, Proposal, Status, run_episode
from lmms_egoplan.planner.proposals import Proposer
from lmms_egoplan.training.run import tune
from lmms_egoplan.training.samples import Mix, Sample
from lmms_egoplan.training.settings import TuningSettings

TRAINING_SEEDS, SEEDS = range(4), range(4, 7)
PARTS = 3
MAX_STEPS = 10
ELEMENTS = sorted({element for parts in GOALS.values() for element in parts})
CAPTION_PROMPT = "What can be done now?"
SIDE, PATCH = 128, 16
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
# Maximum offsets of a seed's camera from the kitchen's own: metres, metres, degrees and degrees.
MAX_TARGET_OFFSET, MAX_DISTANCE_OFFSET, MAX_AZIMUTH_OFFSET, MAX_ELEVATION_OFFSET = (
    0.05,
    0.15,
    5.0,
    3.0,
)

State = frozenset[str]
Pictures = dict[tuple[int, State], Image.Image]


def draw_pictures(kitchen: Kitchen, folder: Path) -> Pictures:
    """Return the picture of every state for every seed; missing pictures are drawn and saved in the
    folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    camera = kitchen._camera
    usual_camera = camera.lookat.copy(), camera.distance, camera.azimuth, camera.elevation
    pictures = {}
    for seed in (*TRAINING_SEEDS, *SEEDS):
        generator = random.Random(f"camera {seed}")
        camera.lookat[:] = [
            value + generator.uniform(-MAX_TARGET_OFFSET, MAX_TARGET_OFFSET)
            for value in usual_camera[0]
        ]
        camera.distance = usual_camera[1] + generator.uniform(
            -MAX_DISTANCE_OFFSET, MAX_DISTANCE_OFFSET
        )
        camera.azimuth = usual_camera[2] + generator.uniform(
            -MAX_AZIMUTH_OFFSET, MAX_AZIMUTH_OFFSET
        )
        camera.elevation = usual_camera[3] + generator.uniform(
            -MAX_ELEVATION_OFFSET, MAX_ELEVATION_OFFSET
        )
        for state in all_states():
            path = (
                folder
                / f"{seed} {' '.join(str(int(element in state)) for element in ELEMENTS)}.png"
            )
            if not path.exists():
                kitchen.set(state)
                kitchen.observe().save(path)
            pictures[seed, state] = Image.open(path).convert("RGB")
    return pictures


def all_states() -> list[State]:
    return [
        frozenset(state)
        for count in range(len(ELEMENTS) + 1)
        for state in combinations(ELEMENTS, count)
    ]


class StillKitchen:
    """An environment with a goal: the kitchen's simulation and success check, and one stored
    picture per state.
    """

    name = Kitchen.name

    def __init__(self, kitchen: Kitchen, pictures: Pictures, goal: str, seed: int) -> None:
        self._kitchen, self._pictures, self._goal, self._seed = (
            kitchen,
            pictures,
            set(GOALS[goal]),
            seed,
        )
        generator = random.Random(f"{goal} {seed}")
        kitchen.set(
            [
                element
                for element in ELEMENTS
                if element not in self._goal and generator.random() < 0.3
            ]
        )

    def observe(self) -> Image.Image:
        return self._pictures[self._seed, self.state()]

    def status(self) -> Status:
        return Status(list(ACTIONS), done=not self._goal & self._kitchen.unreached)

    def execute(self, action: str) -> ActionOutcome:
        view = self.observe()
        outcome = self._kitchen.execute(action)
        return ActionOutcome(
            outcome.changed, outcome.message, Clip([view] if outcome.changed else ())
        )

    def state(self) -> State:
        return frozenset(
            element for element, is_reached in self._kitchen.state().items() if is_reached
        )


class Oracle:
    """A planner that proposes the first action that the goal still needs."""

    def __init__(self, kitchen: StillKitchen, goal: str) -> None:
        self._kitchen, self._goal = kitchen, goal

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, step_name: str
    ) -> list[Proposal]:
        action = needed_action(self._goal, self._kitchen.state())
        return [Proposal(action, 0.0, 1, action)]


class Chance:
    """A planner that proposes the kitchen's actions in random order."""

    def __init__(self, seed: str) -> None:
        self._generator = random.Random(seed)

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, step_name: str
    ) -> list[Proposal]:
        shuffled = self._generator.sample(list(actions or ()), len(actions or ()))
        return [Proposal(action, 0.0, 1, action) for action in shuffled]


class GoalOnly:
    """A planner that asks the model without any picture."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, step_name: str
    ) -> list[Proposal]:
        return self._proposer.propose(question, [], actions, step_name)


def needed_action(goal: str, state: State) -> str:
    """Return the next action towards the goal."""
    element = next(element for element in GOALS[goal] if element not in state)
    return next(
        action for action, effect in ACTIONS.items() if effect == {"element": element, "to": "done"}
    )


def possible_actions(state: State) -> list[str]:
    """Return the actions that change something."""
    return [
        action
        for action, effect in ACTIONS.items()
        if (effect["to"] == "done") != (effect["element"] in state)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--caption-updates", type=int, default=800, help="Updates of the first training."
    )
    parser.add_argument("--tuning-updates", type=int, default=400, help="Updates of each tuning.")
    parser.add_argument(
        "--goals", type=int, default=len(GOALS), help="Test only the first N goals of each part."
    )
    parser.add_argument(
        "--pictures",
        type=Path,
        help="Folder for drawn views, reused if it exists. Default: a temporary folder.",
    )
    arguments = parser.parse_args()
    parts = [list(GOALS)[part::PARTS] for part in range(PARTS)]
    tested_parts = [part[: arguments.goals] for part in parts]
    kitchen = Kitchen(ELEMENTS, motion_frames=0)
    with tempfile.TemporaryDirectory() as folder:
        pictures = draw_pictures(kitchen, arguments.pictures or Path(folder) / "pictures")
        print(f"{len(pictures)} views", flush=True)
        results: dict[str, dict[str, list[Episode]]] = {}

        def run_planner(
            name: str, goals: list[str], make_planner: Callable[[StillKitchen, str, int], Any]
        ) -> None:
            """Run a planner's episodes on these goals with every seed, and print a summary."""
            for goal in goals:
                episodes = results.setdefault(name, {}).setdefault(goal, [])
                for seed in SEEDS:
                    environment = StillKitchen(kitchen, pictures, goal, seed)
                    planner = make_planner(environment, goal, seed)
                    episodes.append(
                        run_episode(planner, environment, goal, MAX_STEPS, frames_per_clip=1)
                    )
            print_summary(name, results[name])

        tested_goals = [goal for part in tested_parts for goal in part]
        run_planner("oracle", tested_goals, lambda environment, goal, _: Oracle(environment, goal))
        run_planner("chance", tested_goals, lambda _, goal, seed: Chance(f"{goal} {seed}"))
        base, started = Path(folder) / "base", time.monotonic()
        train_base(base, pictures, arguments.caption_updates)
        print(f"captions: {time.monotonic() - started:.0f} s", flush=True)
        run_planner("not tuned", tested_goals, with_model(base, None, has_pictures=True))
        for number, new_goals in enumerate(tested_parts):
            training_goals = [
                goal for part in parts[:number] + parts[number + 1 :] for goal in part
            ]
            known_goals = tested_parts[(number + 1) % PARTS]
            for name, has_pictures in (("tuned", True), ("goal only", False)):
                started, adapter = time.monotonic(), Path(folder) / f"{name} {number}"
                samples = [
                    sample(count, training_goals, pictures if has_pictures else None)
                    for count in range(16 * arguments.tuning_updates)
                ]
                settings = TuningSettings(
                    steps=arguments.tuning_updates,
                    per_device_batch_size=16,
                    contrastive_group=16,
                    learning_rate=3e-3,
                    final_learning_rate=1e-4,
                    precision="float32",
                    workers=0,
                    log_every=50,
                    lora={"r": 16, "alpha": 32, "dropout": 0.0, "targets": LAYERS},
                )
                mix = Mix({"episodes": samples}, seed=settings.seed)
                tune(str(base), mix, [], settings, adapter, {"data": "rendered kitchen"})
                print(
                    f"part {number}, {name}: tuning {time.monotonic() - started:.0f} s", flush=True
                )
                make_planner = with_model(base, adapter, has_pictures)
                run_planner(f"{name}, new goals", new_goals, make_planner)
                run_planner(f"{name}, known goals", known_goals, make_planner)
    models = (
        "tuned, new goals",
        "goal only, new goals",
        "tuned, known goals",
        "goal only, known goals",
    )
    for name, baseline in (
        *((name, "chance") for name in ("not tuned", *models)),
        models[:2],
        models[2:],
    ):
        rates = [
            [np.mean(successes(results[arm][goal])) for goal in tested_goals]
            for arm in (name, baseline)
        ]
        difference = np.subtract(*rates)
        low, high = bootstrap(
            (difference,), np.mean, method="percentile", rng=0
        ).confidence_interval
        print(
            f"{name} minus {baseline}: {np.mean(difference):+.3f}, 95 % interval "
            f"{low:+.3f} to {high:+.3f}, over goals"
        )


def with_model(base: Path, adapter: Path | None, has_pictures: bool) -> Callable[..., Any]:
    """Load a model, and return a function that returns the same planner, which ranks all actions,
    for every episode.
    """
    model = AutoModelForImageTextToText.from_pretrained(base).eval()
    model = load_adapter(model, adapter) if adapter else model
    proposer = Proposer(model, AutoProcessor.from_pretrained(base), len(ACTIONS), "rank")
    return lambda *_: proposer if has_pictures else GoalOnly(proposer)


def successes(episodes: Sequence[Episode]) -> list[bool]:
    return [episode.is_success for episode in episodes]


def print_summary(name: str, episodes_by_goal: Mapping[str, Sequence[Episode]]) -> None:
    """Print the success rate, mean number of steps to success, and median seconds per step."""
    episodes = [episode for goal_episodes in episodes_by_goal.values() for episode in goal_episodes]
    if problems := {episode.problem for episode in episodes if episode.problem}:
        raise SystemExit(f"{name}: {problems}")
    rate = statistics.fmean(successes(episodes))
    steps = [len(episode.steps) for episode in episodes if episode.is_success]
    seconds = [step.model_seconds for episode in episodes for step in episode.steps]
    print(
        f"{name}: success {rate:.3f} in {len(episodes)} episodes, "
        f"{statistics.fmean(steps or [0]):.2f} steps to "
        f"success, {statistics.median(seconds):.3f} s per step",
        flush=True,
    )


def train_base(folder: Path, pictures: Pictures, updates: int) -> None:
    """Train all weights of a toy-sized LLaVA to list each state's possible actions, in the training
    cameras' views.
    """
    set_seed(0)
    texts = [CAPTION_PROMPT, *ACTIONS, *(QUESTION.format(goal=goal) for goal in GOALS)]
    images = CLIPImageProcessor(size={"height": SIDE, "width": SIDE}, do_center_crop=False)
    processor = llava_processor(
        images, train_tokenizer([f" {text}" for text in texts], 1024), PATCH
    )
    model = llava(
        processor, SIDE, {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 128}
    )
    model.config.vision_feature_layer = -1
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates, pct_start=0.1)
    message = {
        "role": "user",
        "content": [{"type": "image"}, {"type": "text", "text": CAPTION_PROMPT}],
    }
    prompt = processor.apply_chat_template([message], add_generation_prompt=True)
    views = [(seed, state) for seed in TRAINING_SEEDS for state in all_states()]
    answers = [
        f" {', '.join(possible_actions(state))}{processor.tokenizer.eos_token}"
        for _, state in views
    ]
    rows = [f"{prompt}{answer}" for answer in answers]
    inputs = processor(
        images=[pictures[view] for view in views], text=rows, padding=True, return_tensors="pt"
    )
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, answer in enumerate(answers):  # padding is on the left
        count = len(processor.tokenizer(answer, add_special_tokens=False).input_ids)
        labels[row, -count:] = inputs["input_ids"][row, -count:]
    for update in range(updates):
        chosen = torch.randint(len(views), (32,))
        batch = {name: values[chosen] for name, values in inputs.items()}
        loss = model(**batch, labels=labels[chosen]).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if update % 50 == 0 or update == updates - 1:
            print(f"captions, update {update}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def sample(number: int, goals: Sequence[str], pictures: Pictures | None) -> Sample:
    """Make a sample that asks for the next action at a random point of an episode.

    The sample shows up to four past frames and the current view, or no picture at all.
    """
    generator = random.Random(f"episode {number}")
    goal = generator.choice(goals)
    state = frozenset(generator.sample(ELEMENTS, generator.randint(0, 3)))
    states = [state]
    while generator.random() < 0.7 and len(states) < 5:
        element = next((part for part in GOALS[goal] if part not in state), None)
        if element is None:
            break
        state |= {element}
        states.append(state)
    if set(GOALS[goal]) <= state:
        state -= {generator.choice(GOALS[goal])}
        states = [state]
    answer = needed_action(goal, state)
    return Sample(
        f"episode {number}",
        ((QUESTION.format(goal=goal), answer),),
        tuple(action for action in ACTIONS if action != answer),
        partial(sample_media, generator.choice(TRAINING_SEEDS), states, pictures)
        if pictures
        else list,
        len(states) if pictures else 0,
    )


def sample_media(seed: int, states: Sequence[State], pictures: Pictures) -> list[Any]:
    """Return the past frames as clips of one frame, then the current view."""
    *past, view = (pictures[seed, state] for state in states)
    return [*(Clip([frame]) for frame in past), view]


if __name__ == "__main__":
    main()
