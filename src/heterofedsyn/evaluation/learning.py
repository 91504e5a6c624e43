"""Machine learning on synthetic rows, tested on real ones.

Three usual models with fixed settings: what is compared are the tables, not the models.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heterofedsyn._arrays import Floats, Integers, stream
from heterofedsyn.evaluation.binning import is_numeric
from heterofedsyn.evaluation.extra import need
from heterofedsyn.evaluation.rows import Rows
from heterofedsyn.schema import Schema

MODELS = ("random_forest", "mlp", "xgboost")
MOST_DUMMIES = 64
"""A category of more values is given to the models as one number, not as one column a value."""

Predict = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Task:
    """What is to be predicted, and how predictions are judged."""

    label: str
    classes: bool

    @classmethod
    def of(cls, schema: Schema) -> Task | None:
        """The task of a schema, or None if it names no label or nothing to predict it from."""
        if schema.label is None or len(schema.columns) < 2:
            return None
        by_kind = not is_numeric(schema.column(schema.label))
        classes = by_kind if schema.task is None else schema.task != "regression"
        return cls(schema.label, classes)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The figures of every model; the first is the one that is averaged."""
        return ("f1_weighted", "f1_macro") if self.classes else ("rmse", "rmse_rank")

    def known(self, rows: Rows) -> Rows:
        """The rows whose label is known."""
        return rows.take(np.flatnonzero(~np.isnan(self.labels(rows))))

    def labels(self, rows: Rows) -> Floats:
        """The number to be predicted, or the code of the class; NaN where it is not known."""
        values = rows.values[rows.schema.domain.names.index(self.label)]
        return np.where(np.isnan(values), np.nan, self.binned(rows)) if self.classes else values

    def binned(self, rows: Rows) -> Floats:
        """The bin of every label."""
        codes = rows.fine.codes[rows.schema.domain.names.index(self.label)]
        return np.asarray(codes, np.float64)


Figures = dict[str, dict[str, float]]
"""For every model its figures by metric."""


def learn(task: Task, train: Rows, test: Rows, seed: int = 0, *, made: bool) -> Figures | None:
    """Figures on test rows of models fitted to training rows; None if nothing can be fitted.

    `rmse_rank` is the paper's figure: it predicts the rank of a label among those of its own
    table. Where the rows are made up, as told by `made`, the labels of one bin are one: the
    paper's program writes one value a bin.
    """
    train, test = task.known(train), task.known(test)
    if train.number < 2 or not test.number:
        return None
    features = [_features(task, rows) for rows in (train, test)]
    truth, wanted = task.labels(train), task.labels(test)

    def judge(predict: Predict) -> dict[str, float]:
        guessed = predict(features[1])
        return _f1(wanted, guessed) if task.classes else {"rmse": _rmse(wanted, guessed)}

    threads = need("threadpoolctl", "machine-learning scores")
    with threads.threadpool_limits(1), warnings.catch_warnings():
        # One thread: the same sums in the same order. A model that still improves may stop.
        warnings.simplefilter("ignore")
        figures = {
            name: judge(_fit(name, task.classes, features[0], truth, seed)) for name in MODELS
        }
        if not task.classes:
            ranks, wanted = _ranks(task.binned(train) if made else truth), _ranks(wanted)
            for name in MODELS:
                ranked = judge(_fit(name, False, features[0], ranks, seed))
                figures[name]["rmse_rank"] = ranked["rmse"]
    return figures


def guess(task: Task, train: Rows, test: Rows) -> dict[str, float]:
    """Figures of the best constant: the most frequent class, or the mean."""
    train, test = task.known(train), task.known(test)
    truth, wanted = task.labels(train), task.labels(test)
    if task.classes:
        values, counts = np.unique(truth, return_counts=True)
        return _f1(wanted, np.full(len(wanted), values[counts.argmax()]))
    return {
        "rmse": _rmse(wanted, np.full(len(wanted), truth.mean())),
        "rmse_rank": _rmse(_ranks(wanted), np.full(len(wanted), _ranks(truth).mean())),
    }


def average(figures: Figures, metric: str) -> float:
    """The mean of a figure over models."""
    return float(np.mean([of_model[metric] for of_model in figures.values()]))


def _features(task: Task, rows: Rows) -> Floats:
    """Numbers as they are, NaN for those unknown, and one column for every value of a category."""
    columns: list[Any] = []
    for place, column in enumerate(rows.schema.columns):
        if column.name == task.label:
            continue
        if is_numeric(column):
            columns.append(rows.values[place])
            if column.nullable:
                columns.append(np.isnan(rows.values[place]))
        elif column.size > MOST_DUMMIES:
            columns.append(rows.fine.codes[place])
        else:
            columns += [rows.fine.codes[place] == code for code in range(column.size)]
    return np.stack([np.asarray(column, np.float32) for column in columns], axis=1)


def _fit(name: str, classes: bool, features: Floats, labels: Floats, seed: int) -> Predict:
    """How a model predicts after being fitted."""
    if name == "mlp" and classes:  # it sets rows of every class aside, so one is not enough
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        enough = np.flatnonzero(counts[codes] > min(1, counts.max() - 1))
        features, labels = features[enough], labels[enough]
    values, codes = np.unique(labels, return_inverse=True)
    if len(values) < 2:
        return lambda unseen: np.full(len(unseen), values[0])
    known = np.flatnonzero(~np.isnan(features).all(axis=0))
    middle, scale = np.zeros(features.shape[1]), np.ones(features.shape[1])
    middle[known] = np.nanmean(features[:, known], axis=0)
    scale[known] = np.nanstd(features[:, known], axis=0)
    scale[scale == 0] = 1

    def scaled(rows: Floats) -> Floats:
        return np.nan_to_num((rows - middle) / scale)

    model = _model(name, classes, int(stream(seed, f"model {name}").integers(2**31)), codes)
    if classes:
        model.fit(scaled(features), codes)
        return lambda unseen: values[model.predict(scaled(unseen)).astype(np.int64)]
    shift, unit = labels.mean(), labels.std()
    model.fit(scaled(features), (labels - shift) / unit)
    return lambda unseen: np.asarray(model.predict(scaled(unseen)), np.float64) * unit + shift


def _model(name: str, classes: bool, number: int, codes: Integers) -> Any:
    if name == "random_forest":
        ensemble = need("sklearn.ensemble", "machine-learning scores")
        if classes:
            return ensemble.RandomForestClassifier(100, min_samples_leaf=3, random_state=number)
        return ensemble.RandomForestRegressor(
            100, min_samples_leaf=3, max_features=1 / 3, random_state=number
        )
    if name == "xgboost":
        xgboost = need("xgboost", "machine-learning scores")
        kind = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
        return kind(
            n_estimators=200,
            max_depth=4,
            learning_rate=0.1,
            subsample=0.8,
            n_jobs=1,
            random_state=number,
        )
    network = need("sklearn.neural_network", "machine-learning scores")
    kind = network.MLPClassifier if classes else network.MLPRegressor
    rare = classes and len(codes) < 20 * (int(codes.max()) + 1)
    return kind(
        hidden_layer_sizes=(64, 64),
        alpha=0.1,
        learning_rate_init=3e-3,
        early_stopping=not rare and len(codes) >= 20,
        random_state=number,
    )


def _ranks(labels: Floats) -> Floats:
    """The place of each label among the different ones of its own table."""
    ranks: Floats = np.unique(labels, return_inverse=True)[1].astype(np.float64)
    return ranks


def _rmse(wanted: Floats, guessed: Floats) -> float:
    return float(np.sqrt(np.mean((wanted - guessed) ** 2)))


def _f1(wanted: Floats, guessed: Floats) -> dict[str, float]:
    """F1 over the classes that occur, weighted by their true frequency, and plain."""
    classes = np.unique(np.concatenate([wanted, guessed]))
    true, said = (labels[:, None] == classes for labels in (wanted, guessed))
    both = np.logical_and(true, said).sum(axis=0)
    scores = 2 * both / (true.sum(axis=0) + said.sum(axis=0))
    return {
        "f1_weighted": float(np.average(scores, weights=true.sum(axis=0))),
        "f1_macro": float(scores.mean()),
    }
