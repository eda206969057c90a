"""Goals the slow way: a condition is written out over all objects until nothing but facts is left of it."""

from itertools import combinations, product

from lmms_egoplan.benchmarks.actplan.bddl import problems as p


def naive(problem, formula, facts, bound=None):
    """Whether a formula holds, by writing quantifiers out as and, or and not; `facts` are those that hold."""
    bound = bound or {}
    if isinstance(formula, p.Atom):
        return (formula.predicate, *(bound.get(name, name) for name in formula.arguments)) in facts
    if isinstance(formula, p.Not):
        return not naive(problem, formula.part, facts, bound)
    if isinstance(formula, p.And):
        return not any(not naive(problem, part, facts, bound) for part in formula.parts)
    if isinstance(formula, p.Or):
        return any(naive(problem, part, facts, bound) for part in formula.parts)
    if isinstance(formula, p.Imply):
        return naive(problem, p.Or((p.Not(formula.premise), formula.conclusion)), facts, bound)
    if isinstance(formula, p.ForPairs):
        return _pairs(problem, formula, facts, bound)
    objects = [thing.name for thing in problem.objects if thing.type == formula.variable.type]
    true = {name for name in objects if naive(problem, formula.body, facts, bound | {formula.variable.name: name})}
    if isinstance(formula, p.ForAll):
        return true == set(objects)
    if isinstance(formula, p.Exists):
        return true != set()
    return any(set(chosen) == true for chosen in combinations(objects, formula.number))


def _pairs(problem, formula, facts, bound):
    """That so many different firsts have a partner, and so many different seconds."""
    firsts = [thing.name for thing in problem.objects if thing.type == formula.first.type]
    seconds = [thing.name for thing in problem.objects if thing.type == formula.second.type]
    wanted = min(len(firsts), len(seconds)) if formula.number is None else formula.number

    def together(one, two):
        pair = {formula.first.name: one, formula.second.name: two}
        return one != two and naive(problem, formula.body, facts, bound | pair)

    table = {pair: together(*pair) for pair in product(firsts, seconds)}
    rows = any(all(any(table[one, two] for two in seconds) for one in some) for some in combinations(firsts, wanted))
    columns = any(all(any(table[one, two] for one in firsts) for two in some) for some in combinations(seconds, wanted))
    return rows and columns
