"""Maximum spanning forests of weighted pairs."""

from __future__ import annotations

from collections.abc import Mapping

from heterofedsyn.schema import Clique


def spanning_forest(weights: Mapping[Clique, float]) -> list[Clique]:
    """The heaviest pairs that close no circle, heaviest first; only positive weights.

    >>> spanning_forest({("a", "b"): 3.0, ("b", "c"): 2.0, ("a", "c"): 1.0, ("c", "d"): 0.0})
    [('a', 'b'), ('b', 'c')]
    """
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    chosen = []
    for pair in sorted(weights, key=lambda pair: -weights[pair]):
        first, second = find(pair[0]), find(pair[1])
        if weights[pair] > 0 and first != second:
            leader[first] = second
            chosen.append(pair)
    return chosen
