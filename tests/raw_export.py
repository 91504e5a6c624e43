"""An invented export as hospitals have them: German, from a spreadsheet, with all its habits."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

CODES = 5_000
COLUMNS = (
    *("Fallnummer", "Patienten-ID", "Geschlecht", "geboren", "aufgenommen", "entlassen"),
    *("Aufnahme", "Größe", "Gewicht", "BMI", "Kosten", "ICD", "Kapitel", "Station"),
    *("PLZ", "Raucher", "verstorben", "CRP", "Haus", "Bemerkung"),
)
WARDS = ("Chirurgie", "Gynäkologie", "Innere", "Kardiologie", "Urologie")
_WORDS = ("Patient", "stabil", "Wunde", "gut", "verheilt", "Verlegung", "nach", "Rücksprache")


def write_raw(path: Path, rows: int = 12_000, seed: int = 0) -> Path:
    """Semicolons, cp1252, decimal commas, thousands points, German dates, Ja and Nein."""
    rng = np.random.default_rng(seed)
    codes = [f"{letter}{n // 10:02}.{n % 10}" for letter in "ABCDE" for n in range(CODES // 5)]
    patient = rng.integers(0, rows // 2, rows)
    with path.open("w", encoding="cp1252", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerow(COLUMNS)
        for row in range(rows):
            sex = rng.choice(["m", "w"])
            ward = rng.choice([w for w in WARDS if (w, sex) not in _NEVER])
            height, weight = rng.normal(171, 9), rng.normal(78, 14)
            born = np.datetime64("1935-01-01") + int(rng.integers(0, 30_000))
            came = np.datetime64("2024-01-01") + int(rng.integers(0, 360))
            left = came + int(rng.integers(0, 20))
            often = int(rng.exponential(CODES / 6))
            code = codes[row if row < CODES else min(often, CODES - 1)]
            cost = f"{rng.exponential(4_000):,.2f}".translate(str.maketrans(",.", ".,"))
            time = f"{rng.integers(0, 24):02}:{rng.integers(0, 60):02}"
            writer.writerow(
                [
                    f"F24-{row * 7 + 1_000_001}",
                    f"P{patient[row]:06}",
                    sex,
                    _german(born),
                    _german(came),
                    _german(left) if rng.random() < 0.97 else "",
                    f"{_german(came)} {time}",
                    round(height),
                    _comma(weight, 1),
                    _comma(weight / (height / 100) ** 2, 1),
                    cost,
                    code,
                    f"Kapitel {'ABCDE'.index(code[0]) + 1}",
                    ward,
                    f"0{rng.integers(1, 60) * 17:04}",
                    rng.choice(["Ja", "Nein"]),
                    rng.choice(["ja", "nein"], p=[0.04, 0.96]),
                    _comma(rng.exponential(9), 2) if rng.random() < 0.9 else "k.A.",
                    "Klinikum Süd",
                    " ".join(rng.choice(_WORDS, 9)) + f" ({row})",
                ]
            )
    return path


_NEVER = {("Gynäkologie", "m"), ("Urologie", "w")}


def _german(day: np.datetime64) -> str:
    year, month, number = str(day).split("-")
    return f"{number}.{month}.{year}"


def _comma(number: float, places: int) -> str:
    return f"{number:.{places}f}".replace(".", ",")
