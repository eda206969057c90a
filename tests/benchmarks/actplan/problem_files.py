"""The released problems, and problems that hypothesis makes."""

from hypothesis import strategies as st

from lmms_egoplan.benchmarks.actplan.bddl import PREDICATES, Formula, Object, Problem, Variable
from shared_data import DATA

RELEASED = DATA / "actplan" / "bddl" / "activity_definitions"
TYPES = ("cup.n.01", "box.n.01", "table.n.02")
_STATES = [name for name, predicate in PREDICATES.items() if len(predicate.arguments) == 1]
_RELATIONS = [name for name, predicate in PREDICATES.items() if predicate.arguments == ("object", "object")]


def described():
    """The 153 task descriptions, each with its problem."""
    for path in sorted(RELEASED.glob("*/task_description_?.txt")):
        yield path, path.parent / f"problem{path.stem[-1]}.bddl"


def atoms(names):
    names = st.sampled_from(names)
    states = st.builds(lambda state, name: Formula(state, arguments=(name,)), st.sampled_from(_STATES), names)
    pairs = st.builds(
        lambda relation, *two: Formula(relation, arguments=two), st.sampled_from(_RELATIONS), names, names
    )
    return states | pairs


@st.composite
def formulas(draw, names, depth=3):
    """A condition over names; its variables are new names."""
    kind = draw(st.sampled_from(["atom"] if not depth else ["atom", "not", "and", "or", "imply", "one", "two"]))
    if kind == "atom":
        return draw(atoms(names))
    inner = formulas(names, depth - 1)
    if kind in ("and", "or"):
        return Formula(kind, tuple(draw(st.lists(inner, min_size=1, max_size=3))))
    if kind in ("not", "imply"):
        return Formula(kind, tuple(draw(inner) for _ in range(1 if kind == "not" else 2)))
    quantifiers = ("forall", "exists", "forn") if kind == "one" else ("forpairs", "fornpairs")
    letters = "a" if kind == "one" else "ab"
    variables = tuple(Variable(f"v{depth}{letter}", draw(st.sampled_from(TYPES))) for letter in letters)
    op = draw(st.sampled_from(quantifiers))
    body = draw(formulas([*names, *(variable.name for variable in variables)], depth - 1))
    return Formula(op, (body,), variables, draw(st.integers(0, 3)) if op in ("forn", "fornpairs") else 0)


@st.composite
def problems(draw):
    objects = [Object(f"{kind}_{number}", kind) for kind in TYPES for number in range(1, draw(st.integers(1, 3)) + 1)]
    names = [thing.name for thing in objects]
    facts = draw(st.lists(atoms(names), max_size=8))
    denied = draw(st.lists(atoms(names).filter(lambda atom: len(atom.arguments) == 1), max_size=2))
    denied = [Formula("not", (atom,)) for atom in denied]
    return Problem("made_0", "igibson", tuple(objects), (*facts, *denied), (draw(formulas(names)),))
