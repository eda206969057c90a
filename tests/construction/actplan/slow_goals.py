"""A slow check of goals: a condition is expanded over all objects until it contains only facts."""

from itertools import combinations, product


def naive(problem, formula, facts, bound=None):
    """Check a formula by expanding quantifiers to and, or and not; `facts` are those that hold."""
    bound = bound or {}
    if formula.is_atom:
        return (formula.op, *(bound.get(name, name) for name in formula.arguments)) in facts
    if formula.op in ("forpairs", "fornpairs"):
        return _pairs(problem, formula, facts, bound)
    if not formula.variables:
        parts = [naive(problem, part, facts, bound) for part in formula.parts]
        return {
            "not": parts == [False],
            "and": False not in parts,
            "or": True in parts,
            "imply": parts != [True, False],
        }[formula.op]
    (variable,), (body,) = formula.variables, formula.parts
    objects = [thing.name for thing in problem.objects if thing.type == variable.type]
    true = {name for name in objects if naive(problem, body, facts, bound | {variable.name: name})}
    if formula.op == "forall":
        return true == set(objects)
    if formula.op == "exists":
        return true != set()
    return any(set(chosen) == true for chosen in combinations(objects, formula.number))


def _pairs(problem, formula, facts, bound):
    """Require that enough distinct objects of both types have a partner."""
    first, second = formula.variables
    firsts = [thing.name for thing in problem.objects if thing.type == first.type]
    seconds = [thing.name for thing in problem.objects if thing.type == second.type]
    required = min(len(firsts), len(seconds)) if formula.op == "forpairs" else formula.number

    def together(one, two):
        pair = {first.name: one, second.name: two}
        return one != two and naive(problem, formula.parts[0], facts, bound | pair)

    table = {pair: together(*pair) for pair in product(firsts, seconds)}
    rows = any(
        all(any(table[x, y] for y in seconds) for x in part)
        for part in combinations(firsts, required)
    )
    columns = any(
        all(any(table[x, y] for x in firsts) for y in part)
        for part in combinations(seconds, required)
    )
    return rows and columns
