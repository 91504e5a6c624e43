"""What the sections of the page are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn.bench.paper.experiments import Experiment, experiments
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.bench.resumable.results import Identity


@dataclass(frozen=True)
class Page:
    """What a page is made from."""

    lookup: Lookup
    identity: Identity
    figures: frozenset[str]

    def experiment(self, name: str) -> Experiment:
        """An experiment of this run."""
        return experiments(quick=self.identity.quick)[name]

    def present(self, name: str) -> bool:
        """Whether anything was measured for an experiment."""
        cells = {cell.key for cell in self.experiment(name).cells}
        return any(figure.cell in cells for figure in self.lookup.figures)

    def picture(self, name: str, words: str) -> list[str]:
        """A figure, if it was drawn."""
        drawn = [file for file in sorted(self.figures) if Path(file).stem == name]
        return [line for file in drawn for line in (f"![{words}](figures/{file})", "")]


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]
