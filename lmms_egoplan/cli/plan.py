"""Commands ``lmms-egoplan plan``: guide an agent with a model.

The environment is a simulated kitchen, VirtualHome or a recorded video.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.options import OutFolder
from lmms_egoplan.outputs import output_folder

plan = typer.Typer(
    help="""
    Let a model guide an agent step by step, and write the episode as a web page and a video.

    At each step, the model gets EgoPlan's question, the last four actions and the current view. It
    proposes five actions, and the best one is executed (first version of EgoPlan-Bench,
    Applications).

    Example: `lmms-egoplan plan kitchen --goal "heat water" --model Qwen/Qwen2.5-VL-7B-Instruct
    --out episode`
    """,
    no_args_is_help=True,
)

_Model = Annotated[
    str, typer.Option(help="Checkpoint of a vision-language model that transformers can load.")
]
_Peft = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Adapter from `lmms-egoplan train egoplan`.")
]
_Method = Annotated[
    Literal["generate", "rank"],
    typer.Option(
        help=(
            "`generate`: write freely and take the nearest action. `rank`: rank all actions "
            "by likelihood."
        )
    ),
]
_Beams = Annotated[int, typer.Option(min=1, help="Beam width, and number of proposals per step.")]
_MaxSteps = Annotated[int, typer.Option(min=1, help="Maximum number of steps.")]


def _list_goals(is_list: bool) -> None:
    if is_list:
        from lmms_egoplan.planner.kitchen import GOALS

        for name, parts in GOALS.items():
            typer.echo(f"{name}: {', '.join(parts)}")
        raise typer.Exit


@plan.command("kitchen")
def kitchen(
    goal: Annotated[
        str, typer.Option(help='Goal of the episode, such as "heat water". See --list.')
    ] = "",
    model: _Model = "",
    out: OutFolder = Path("episode"),
    elements: Annotated[
        list[str] | None,
        typer.Option(
            "--element",
            help="Kitchen element that a goal in your own words needs. Repeat for several.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed for the kitchen's noise.")] = 0,
    peft: _Peft = None,
    method: _Method = "generate",
    beams: _Beams = 5,
    max_steps: _MaxSteps = 20,
    _is_list: Annotated[
        bool,
        typer.Option(
            "--list",
            callback=_list_goals,
            is_eager=True,
            help="Print goals with elements, and exit.",
        ),
    ] = False,
) -> None:
    """Guide a robot in a simulated kitchen (Franka Kitchen).

    To install the simulator: `pip install "lmms-egoplan[kitchen]"`. Without a screen, set
    `MUJOCO_GL=egl` (GPU) or `MUJOCO_GL=osmesa`. The motion of each action is scripted. The
    simulator decides if the goal is reached.

    Example: `lmms-egoplan plan kitchen --goal "heat water" --model Qwen/Qwen2.5-VL-7B-Instruct
    --out episode`
    """
    from lmms_egoplan.planner.episode_files import FILES
    from lmms_egoplan.planner.guide import Guide, raise_failure
    from lmms_egoplan.planner.kitchen import GOALS, Kitchen

    with output_folder(out, "plan kitchen", FILES):
        if not model:
            raise LmmsEgoplanError(
                "missing --model; set it to the name or folder of a vision-language checkpoint"
            )
        goal_elements = elements or GOALS.get(goal)
        if not goal or goal_elements is None:
            raise LmmsEgoplanError(
                f"--goal {goal!r} is not one of the kitchen's goals; choose one from --list, or "
                "add --element for each element that your goal needs"
            )
        with closing(Kitchen(goal_elements, seed)) as environment:
            guide = Guide(model, peft, method, beams)
            raise_failure(guide.run(environment, goal, max_steps, out, seed=seed))


@plan.command("virtualhome")
def virtualhome(
    goal: Annotated[str, typer.Option(help='Goal of the episode, such as "heat the stove".')],
    until: Annotated[
        list[str],
        typer.Option(
            metavar="OBJECT=STATE",
            help="State that the goal needs, such as stove=ON. Repeat for several.",
        ),
    ],
    model: _Model,
    out: OutFolder = Path("episode"),
    url: Annotated[str, typer.Option(help="Address of the simulator.")] = "http://127.0.0.1:8080",
    camera: Annotated[
        int, typer.Option(min=0, help="Number of the camera that shows the character's view.")
    ] = 0,
    peft: _Peft = None,
    method: _Method = "generate",
    beams: _Beams = 5,
    max_steps: _MaxSteps = 20,
) -> None:
    """Guide a character in VirtualHome. You run its simulator yourself, release v2.3.0; this
    command was not tested with it.

    Example: `lmms-egoplan plan virtualhome --goal "heat the stove" --until stove=ON --model NAME
    --out episode`
    """
    from lmms_egoplan.planner.episode_files import FILES
    from lmms_egoplan.planner.guide import Guide, raise_failure
    from lmms_egoplan.planner.virtualhome import VirtualHome

    with output_folder(out, "plan virtualhome", FILES):
        states = []
        for state in until:
            name, _, value = state.partition("=")
            if not (name and value):
                raise LmmsEgoplanError(
                    f"--until {state}: use the form OBJECT=STATE, such as stove=ON"
                )
            states.append((name, value))
        with closing(VirtualHome(url, states, camera)) as environment:
            guide = Guide(model, peft, method, beams)
            raise_failure(guide.run(environment, goal, max_steps, out))


@plan.command("video")
def video(
    model: _Model,
    out: OutFolder = Path("episodes"),
    goalstep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Goal-Step's annotations, to replay instead of EgoPlan's questions.",
        ),
    ] = None,
    ego4d: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with Goal-Step's videos.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of videos to replay.")
    ] = None,
    peft: _Peft = None,
    method: _Method = "generate",
    beams: _Beams = 5,
) -> None:
    """Replay narrated videos, and measure how often the best proposal is the action that the video
    shows next.

    Replays the goals of EgoPlan's prepared validation split, or the videos of Goal-Step's
    annotations. Each gets a separate folder. The result includes two baselines that see nothing: a
    guess among all actions of the goal ("by chance"), and a guess among the actions that the video
    has not shown yet ("not done yet").

    Example: `lmms-egoplan plan video --model Qwen/Qwen2.5-VL-7B-Instruct --limit 20 --out episodes`
    """
    from lmms_egoplan.benchmarks.splits import EGOPLAN
    from lmms_egoplan.planner.guide import Guide
    from lmms_egoplan.planner.recorded import egoplan_videos, goalstep_videos
    from lmms_egoplan.planner.replay import replay

    with output_folder(out, "plan video"):
        if (goalstep is None) != (ego4d is None):
            raise LmmsEgoplanError("--goalstep and --ego4d need each other; set both or neither")
        videos = (
            goalstep_videos(goalstep, ego4d)
            if goalstep and ego4d
            else egoplan_videos(EGOPLAN.load("val"))
        )
        replay(Guide(model, peft, method, beams), videos[:limit], out)
