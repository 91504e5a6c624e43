"""The figures of a comparison: as a table, as JSON, as one chart and on one page."""

from __future__ import annotations

import html
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofedsyn._files import file_written_whole
from heterofedsyn.bench.compare.asked import CommonTerms, Comparison
from heterofedsyn.bench.compare.dealt import Dealt
from heterofedsyn.bench.resumable.cells import Cell
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.bench.resumable.results import CLOSING
from heterofedsyn.drawing import SERIES, SOFT, can_draw, figure, svg
from heterofedsyn.evaluation.learning import Task
from heterofedsyn.hub import METHODS
from heterofedsyn.hub.release.lines import html_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS, CHART, PAGE = "results.json", "errors.svg", "compare.html"
FILES = ("run.json", "results.csv", RESULTS, CHART, PAGE)
"""All that a folder of a comparison holds."""

NOTICE = "errors against the rows themselves, without noise: for public or invented rows only"

MEASURES = {
    "tvd.one_way": "1-way TVD",
    "tvd.two_way": "2-way TVD",
    "query.train.2_way": "range queries",
}
"""Errors, of which 0 is best: total variation, and queries of two conditions."""

LEARNT = "ml.average"

CLOSENESS = "tvd.two_way"
"""What a verdict looks at, where a table has pairs."""

CLEAR = 2.0
"""Standard errors of a difference from which it counts."""

Row = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Scoreboard:
    """What is known of a comparison so far."""

    comparison: Comparison
    question: CommonTerms
    dealt: Dealt
    lookup: Lookup

    @property
    def measures(self) -> dict[str, str]:
        """What stands in the table; a table of one column has no pairs."""
        cells = [*self.comparison.cells()]
        known = {
            metric: name
            for metric, name in MEASURES.items()
            if any(self.lookup.mean(cell, metric) for cell in cells)
        }
        task = Task.of(self.comparison.trial.bench.schema) if self.comparison.ml else None
        return {**(known or MEASURES), **({LEARNT: f"ML: {task.metrics[0]}"} if task else {})}

    @property
    def head(self) -> Row:
        """Of the table."""
        return ("method", "epsilon", *self.measures.values())

    @property
    def rows(self) -> list[Row]:
        """Of the table: means and standard errors, and what chance alone does."""
        rows = [
            (_called(cell.method), f"{cell.epsilon:g}", *self._shown(cell))
            for cell in self.comparison.cells()
        ]
        return [*rows, ("real rows anew", "", *self._shown(self.comparison.floor))]

    @property
    def dealt_head(self) -> Row:
        """Of the table of sites."""
        return ("site", "rows", *(f"{self.dealt.label} {value}" for value in self.dealt.values))

    @property
    def dealt_rows(self) -> list[Row]:
        """Of the table of sites."""
        shares = self.dealt.shares or [()] * len(self.dealt.rows)
        return [
            (f"site-{place}", f"{rows:,}", *(f"{share:.0%}" for share in own))
            for place, (rows, own) in enumerate(zip(self.dealt.rows, shares, strict=True), start=1)
        ]

    @property
    def dealt_title(self) -> str:
        """What the table of sites shows."""
        asked = self.comparison
        return (
            f"How --split {asked.split} dealt {sum(self.dealt.rows):,} rows "
            f"(noise seed {asked.seed * 1_000}; each seed deals anew)"
        )

    @property
    def title(self) -> str:
        """What the table shows."""
        return f"Distance from the real rows, mean ± standard error of {self.comparison.seeds}"

    @property
    def verdict(self) -> str:
        """Which method has the least error at each epsilon, in one line; empty for one method."""
        if len(self.comparison.methods) < 2:
            return ""
        metric = CLOSENESS if CLOSENESS in self.measures else next(iter(self.measures))
        told: dict[str, list[str]] = {}
        for epsilon in self.comparison.epsilons:
            told.setdefault(self._winner(metric, epsilon), []).append(f"{epsilon:g}")
        won = "; ".join(f"at epsilon {', '.join(own)} {who}" for who, own in told.items())
        return f"Least {self.measures[metric]} (0 is best): {won}."

    def _winner(self, metric: str, epsilon: float) -> str:
        """The method with the least error, if chance does not explain it."""
        means = {
            _called(method): mean
            for method in self.comparison.methods
            if (mean := self.lookup.mean(self.comparison.cell(method, epsilon), metric))
        }
        if len(means) < 2:
            return "no two methods to compare"
        (best, least), (_, second), *_ = sorted(means.items(), key=lambda own: own[1].value)
        errors = [mean.error for mean in (least, second)]
        if errors[0] is None or errors[1] is None:
            return f"{best}, of a single draw of noise (more with --seeds)"
        if second.value - least.value < CLEAR * math.hypot(errors[0], errors[1]):
            return f"{best}, but the next is too close to tell apart"
        return best

    def as_dict(self) -> dict[str, Any]:
        """All of it for programs."""
        asked = self.comparison
        return {
            "notice": NOTICE,
            "question": asdict(self.question),
            "methods": [*asked.methods],
            "epsilons": [*asked.epsilons],
            "seeds": asked.seeds,
            "cells": [
                {"method": cell.method, "epsilon": cell.epsilon, **self._figures(cell)}
                for cell in asked.cells()
            ],
            "verdict": self.verdict,
            "floor": self._figures(asked.floor)["figures"],
            "dealt": asdict(self.dealt),
        }

    def write(self, folder: Path) -> list[str]:
        """Write all files; the names of those that were written."""
        files = {RESULTS: json.dumps(self.as_dict(), indent=1) + "\n"}
        drawn = self.chart() if can_draw() else None
        if drawn is not None:
            files[CHART] = drawn
        files[PAGE] = self._page(drawn or "")
        for name, text in files.items():
            with file_written_whole(folder / name) as partial:
                partial.write_text(text, "utf-8")
        return [*files]

    def chart(self) -> str:
        """Every measure by epsilon, a line for each method, as SVG."""
        measures = self.measures
        with figure(300 * len(measures), 260) as drawn:
            every = drawn.subplots(1, len(measures), squeeze=False)[0]
            for axes, (metric, name) in zip(every, measures.items(), strict=True):
                self._draw(axes, metric, name)
            handles, labels = every[0].get_legend_handles_labels()
            drawn.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
            words = f"{self.title}: {', '.join(measures.values())} by epsilon"
            return svg(drawn, "compare", "Methods by epsilon", words)

    def _draw(self, axes: Axes, metric: str, name: str) -> None:
        asked = self.comparison
        for place, method in enumerate(asked.methods):
            means = {
                epsilon: mean
                for epsilon in asked.epsilons
                if (mean := self.lookup.mean(asked.cell(method, epsilon), metric))
            }
            axes.errorbar(
                [*means],
                [mean.value for mean in means.values()],
                yerr=[mean.error or 0 for mean in means.values()],
                marker="o",
                markersize=4,
                linestyle=("-", "--", ":")[place // len(SERIES) % 3],
                color=SERIES[place % len(SERIES)],
                label=_called(method),
            )
        floor = self.lookup.mean(asked.floor, metric)
        if floor:
            axes.axhline(floor.value, color=SOFT, linestyle=":", label="real rows anew")
        axes.set_xscale("log")
        axes.set_xticks(asked.epsilons, [f"{epsilon:g}" for epsilon in asked.epsilons])
        axes.minorticks_off()
        if metric != LEARNT:
            axes.set_ylim(bottom=0)
        axes.set_xlabel("epsilon")
        axes.set_title(name)

    def _page(self, drawn: str) -> str:
        tables = (
            (self.title, html_of(self.head, self.rows)),
            (self.dealt_title, html_of(self.dealt_head, self.dealt_rows)),
        )
        body = "".join(f"<h2>{html.escape(title)}</h2>{table}" for title, table in tables)
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width">'
            f"<title>Methods compared</title><style>{_STYLE}</style></head><body>"
            f"<h1>Methods compared</h1><p>{html.escape(NOTICE)}</p>"
            f"<p>{html.escape(self.verdict)}</p>{drawn}{body}</body></html>\n"
        )

    def _shown(self, cell: Cell) -> list[str]:
        return [self._cell(cell, metric) for metric in self.measures]

    def _cell(self, cell: Cell, metric: str) -> str:
        mean = self.lookup.mean(cell, metric)
        return self.lookup.shown(cell, metric) if mean is None else mean.with_error

    def _figures(self, cell: Cell) -> dict[str, Any]:
        """The mean and the standard error of every measure, and why there is none."""
        figures = {
            metric: mean.as_dict()
            for metric in self.lookup.metrics(cell)
            if not metric.startswith(CLOSING) and (mean := self.lookup.mean(cell, metric))
        }
        refused = {kind: self.lookup.refusal(cell, kind) for kind in self.comparison.kinds}
        said = {kind: word for kind, word in refused.items() if word}
        return {"figures": figures, **({"refused": said} if said else {})}


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;"
    "color:#1c2128;background:#fff}table{border-collapse:collapse;display:block;overflow-x:auto}"
    "td,th{padding:.2rem .7rem;border-bottom:1px solid #d5dae0}svg{max-width:100%;height:auto}"
)


def _called(method: str) -> str:
    """A method's name, with what a reader must know of it."""
    return f"{method} (pools)" if METHODS.find(method).pools else method
