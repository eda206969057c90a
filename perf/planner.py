"""How often planners reach goals in the simulated kitchen: an oracle, chance, a tiny model before and after tuning.

The tiny LLaVA is first trained whole to tell from a rendered view what can be done, without any goal. Then it is tuned
by `lmms_egoplan.training` on rendered episodes of the 30 goals, one frame a step. Planners rank the kitchen's actions.
Each goal is tried with 3 seeds, which say what else is open or on at the start.

    MUJOCO_GL=osmesa python perf/planner.py      # 2 CPU cores, about 15 minutes
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

from lmms_egoplan.benchmarks.egoplan.construction.questions import QUESTION
from lmms_egoplan.demo.checkpoint import llava, llava_processor, train_tokenizer
from lmms_egoplan.media.clip import Clip
from lmms_egoplan.planner.environment import Outcome
from lmms_egoplan.planner.kitchen import ACTIONS, GOALS, Kitchen
from lmms_egoplan.planner.planner import Episode, Planner, run_episode
from lmms_egoplan.planner.proposals import RANK, Proposal
from lmms_egoplan.training.adapter import load_adapter
from lmms_egoplan.training.run import tune
from lmms_egoplan.training.samples import Sample
from lmms_egoplan.training.settings import TuningSettings

SEEDS = range(3)
MAX_STEPS = 10
ELEMENTS = sorted({element for parts in GOALS.values() for element in parts})
ASKED = "What can be done now?"
SIDE, PATCH = 128, 16
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

State = frozenset[str]


def drawn(kitchen: Kitchen) -> dict[State, Image.Image]:
    """The view of each state of a kitchen."""
    pictures = {}
    for count in range(len(ELEMENTS) + 1):
        for state in combinations(ELEMENTS, count):
            kitchen.set(state)
            pictures[frozenset(state)] = kitchen.observe()
    return pictures


class StillKitchen:
    """A kitchen with a goal, its own simulation and judgement, and one picture of each state."""

    name = Kitchen.name

    def __init__(self, kitchen: Kitchen, pictures: Mapping[State, Image.Image], goal: str, seed: int) -> None:
        self._kitchen, self._pictures, self._goal = kitchen, pictures, set(GOALS[goal])
        generator = random.Random(f"{goal} {seed}")
        kitchen.set([element for element in ELEMENTS if element not in self._goal and generator.random() < 0.3])

    def observe(self) -> Image.Image:
        return self._pictures[self.state()]

    def actions(self) -> list[str]:
        return self._kitchen.actions()

    def execute(self, action: str) -> Outcome:
        view = self.observe()
        outcome = self._kitchen.execute(action)
        return Outcome(outcome.changed, outcome.message, Clip([view] if outcome.changed else ()))

    def done(self) -> bool:
        return not self._goal & self._kitchen.left

    def state(self) -> State:
        return frozenset(element for element, is_reached in self._kitchen.state().items() if is_reached)


class Oracle:
    """The first action that the goal still needs."""

    def __init__(self, kitchen: StillKitchen, goal: str) -> None:
        self._kitchen, self._goal = kitchen, goal

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, place: str
    ) -> list[Proposal]:
        action = needed(self._goal, self._kitchen.state())
        return [Proposal(action, 0.0, 1, action)]


class Chance:
    """The kitchen's actions in random order."""

    def __init__(self, seed: str) -> None:
        self._generator = random.Random(seed)

    def propose(
        self, question: str, visuals: Sequence[Any], actions: Sequence[str] | None, place: str
    ) -> list[Proposal]:
        shuffled = self._generator.sample(list(actions or ()), len(actions or ()))
        return [Proposal(action, 0.0, 1, action) for action in shuffled]


def needed(goal: str, state: State) -> str:
    """What an oracle does next."""
    element = next(element for element in GOALS[goal] if element not in state)
    return next(action for action, what in ACTIONS.items() if what == {"element": element, "to": "done"})


def possible(state: State) -> list[str]:
    """The actions that change something."""
    return [action for action, what in ACTIONS.items() if (what["to"] == "done") != (what["element"] in state)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--caption-updates", type=int, default=400)
    parser.add_argument("--tuning-updates", type=int, default=400)
    parser.add_argument("--goals", type=int, default=len(GOALS), help="Try only the first so many.")
    arguments = parser.parse_args()
    goals = list(GOALS)[: arguments.goals]
    kitchen = Kitchen(ELEMENTS, motion_frames=0)
    started = time.monotonic()
    pictures = drawn(kitchen)
    print(f"drawing: {(time.monotonic() - started) / len(pictures):.2f} s a frame, {len(pictures)} states", flush=True)

    def tried(name: str, go: Callable[[StillKitchen, str, int], Episode]) -> list[Episode]:
        trials = ((goal, seed) for goal in goals for seed in SEEDS)
        return summed_up(name, [go(StillKitchen(kitchen, pictures, *one), *one) for one in trials])

    results = {
        "oracle": tried("oracle", lambda place, goal, _: run(Oracle(place, goal), place, goal)),
        "chance": tried("chance", lambda place, goal, seed: run(Chance(f"{goal} {seed}"), place, goal)),
    }
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        started = time.monotonic()
        train_base(base, pictures, arguments.caption_updates)
        print(f"captions: {time.monotonic() - started:.0f} s", flush=True)
        started = time.monotonic()
        samples = [sample(number, pictures) for number in range(16 * arguments.tuning_updates)]
        settings = TuningSettings(
            steps=arguments.tuning_updates, per_device_batch_size=16, learning_rate=3e-3, final_learning_rate=1e-4,
            precision="float32", workers=0, log_every=50,
            lora={"r": 16, "alpha": 32, "dropout": 0.0, "targets": LAYERS},
        )  # fmt: skip
        tune(str(base), {"episodes": samples}, [], settings, Path(folder) / "tuned", {"data": "rendered kitchen"})
        print(f"tuning: {time.monotonic() - started:.0f} s", flush=True)
        for name, adapter in (("model, not tuned", None), ("model, tuned", Path(folder) / "tuned")):
            model = AutoModelForImageTextToText.from_pretrained(base).eval()
            model = load_adapter(model, adapter) if adapter else model
            planner = Planner(model, AutoProcessor.from_pretrained(base), method=RANK, frames_per_clip=1)
            results[name] = tried(name, lambda place, goal, _, planner=planner: planner.run(place, goal, MAX_STEPS))
    successes = {name: np.array([episode.is_success for episode in episodes]) for name, episodes in results.items()}
    for name in ("model, not tuned", "model, tuned"):
        difference = (successes[name].astype(float) - successes["chance"]).reshape(len(goals), -1).mean(axis=1)
        low, high = bootstrap((difference,), np.mean, method="percentile", rng=0).confidence_interval
        print(f"{name} minus chance: {difference.mean():+.3f}, 95 % interval {low:+.3f} to {high:+.3f}, over goals")


def run(proposer: Any, kitchen: StillKitchen, goal: str) -> Episode:
    return run_episode(proposer, kitchen, goal, MAX_STEPS, frames_per_clip=1)


def summed_up(name: str, episodes: list[Episode]) -> list[Episode]:
    """Print the success rate of episodes, and the steps and seconds of a step; returns them."""
    if problems := {episode.problem for episode in episodes if episode.problem}:
        raise SystemExit(f"{name}: {problems}")
    rate = statistics.fmean(episode.is_success for episode in episodes)
    steps = [len(episode.steps) for episode in episodes if episode.is_success]
    seconds = [step.model_seconds for episode in episodes for step in episode.steps]
    print(
        f"{name}: success {rate:.3f} of {len(episodes)} episodes, {statistics.fmean(steps or [0]):.2f} steps to it, "
        f"{statistics.median(seconds):.3f} s a step",
        flush=True,
    )
    return episodes


def train_base(folder: Path, pictures: Mapping[State, Image.Image], updates: int) -> None:
    """A LLaVA of toy size, trained whole on what can be done in each state."""
    set_seed(0)
    texts = [ASKED, *ACTIONS, *(QUESTION.format(goal=goal) for goal in GOALS)]
    images = CLIPImageProcessor(size={"height": SIDE, "width": SIDE}, do_center_crop=False)
    processor = llava_processor(images, train_tokenizer([f" {text}" for text in texts], 1024), PATCH)
    model = llava(processor, SIDE, {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 128})
    model.config.vision_feature_layer = -1
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates, pct_start=0.1)
    asked = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": ASKED}]}
    prompt = processor.apply_chat_template([asked], add_generation_prompt=True)
    states = list(pictures)
    answers = [f" {', '.join(possible(state))}{processor.tokenizer.eos_token}" for state in states]
    rows = [f"{prompt}{answer}" for answer in answers]
    inputs = processor(images=list(pictures.values()), text=rows, padding=True, return_tensors="pt")
    labels = torch.full_like(inputs["input_ids"], -100)
    for row, answer in enumerate(answers):  # padding is on the left
        count = len(processor.tokenizer(answer, add_special_tokens=False).input_ids)
        labels[row, -count:] = inputs["input_ids"][row, -count:]
    for update in range(updates):
        chosen = torch.randint(len(states), (32,))
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


def sample(number: int, pictures: Mapping[State, Image.Image]) -> Sample:
    """What comes next at a random point of an episode, up to four frames of its past and its view."""
    generator = random.Random(f"episode {number}")
    goal = generator.choice(list(GOALS))
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
    answer = needed(goal, state)
    return Sample(
        f"episode {number}",
        ((QUESTION.format(goal=goal), answer),),
        tuple(action for action in ACTIONS if action != answer),
        partial(shown, states, pictures),
        len(states),
    )


def shown(states: Sequence[State], pictures: Mapping[State, Image.Image]) -> list[Any]:
    *past, view = (pictures[state] for state in states)
    return [*(Clip([frame]) for frame in past), view]


if __name__ == "__main__":
    main()
