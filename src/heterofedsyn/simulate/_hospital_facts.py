"""What is invented about the five hospitals: their schema, whom they treat, and for what.

Frequencies and effects are plausible at best: they come from no register and say nothing about
medicine.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = """\
label = "readmitted"
task = "binary_classification"
columns = [
  {name = "admitted_at", type = "datetime", min = 2025-01-01, max = 2025-12-31T23:59:59, bins = 12},
  {name = "age", type = "integer", min = 0, max = 100, bins = 20},
  {name = "sex", type = "categorical", values = ["female", "male", "unspecified"]},
  {name = "insurance", type = "categorical", values = [
    "statutory", "supplementary", "private", "none"]},
  {name = "smoker", type = "boolean", nullable = true},
  {name = "bmi", type = "number", min = 12, max = 52, bins = 16, decimals = 1},
  {name = "prior_admissions", type = "integer", min = 0, max = 9, bins = 10},
  {name = "diagnosis", type = "categorical", values = [
    "cancer", "circulatory", "digestive", "endocrine", "infection", "injury",
    "musculoskeletal", "neurological", "pregnancy", "respiratory", "urinary"]},
  {name = "emergency", type = "boolean"},
  {name = "triage", type = "categorical", ordered = true, values = [
    "non-urgent", "standard", "urgent", "very urgent", "immediate"]},
  {name = "systolic_pressure", type = "integer", min = 70, max = 200, bins = 13},
  {name = "creatinine", type = "number", nullable = true, min = 0.2, max = 2.6, bins = 12, \
decimals = 2},
  {name = "ward", type = "categorical", values = [
    "cardiology", "general medicine", "geriatrics", "intensive care", "neurology",
    "obstetrics", "oncology", "orthopaedics", "paediatrics", "surgery"]},
  {name = "length_of_stay", type = "integer", min = 0, max = 30, bins = 15},
  {name = "cost", type = "number", min = 0, max = 24000, bins = 20, decimals = 2},
  {name = "discharge", type = "categorical", values = [
    "home", "home care", "rehabilitation", "nursing home", "other hospital", "died"]},
  {name = "readmitted", type = "boolean"},
]
rules = [
  {never = {sex = "male", diagnosis = "pregnancy"}},
  {never = {diagnosis = "pregnancy", age = {below = 12}}},
  {never = {diagnosis = "pregnancy", age = {above = 55}}},
  {never = {ward = "obstetrics", diagnosis = [
    "cancer", "circulatory", "digestive", "endocrine", "infection", "injury",
    "musculoskeletal", "neurological", "respiratory", "urinary"]}},
  {never = {ward = "paediatrics", age = {above = 17}}},
  {never = {ward = "geriatrics", age = {below = 60}}},
  {never = {smoker = true, age = {below = 12}}},
  {never = {discharge = "died", readmitted = true}},
]
"""

COLUMNS: dict[str, dict[str, Any]] = {
    column["name"]: column for column in tomllib.loads(SCHEMA)["columns"]
}


@dataclass(frozen=True)
class Hospital:
    """Whom a hospital treats; shares and weights are relative."""

    name: str
    share: float
    groups: tuple[float, ...]  # weights, in the order of GROUPS
    insurance: Mapping[str, float]
    emergency: float  # log-odds where the diagnosis adds nothing
    treats: Mapping[str, float]  # the diagnoses seen more or less often than elsewhere
    geriatrics: float  # weight of that ward at the age of 90, all others together being 1


HOSPITALS = (
    Hospital(  # in the country, for the old
        name="elmwood",
        share=0.19,
        groups=(0.01, 0.01, 0.13, 0.45, 0.40),
        insurance={"statutory": 72, "supplementary": 20, "private": 6, "none": 2},
        emergency=-0.85,
        treats={"circulatory": 1.3, "neurological": 1.4, "pregnancy": 0.1, "injury": 1.2},
        geriatrics=3.0,
    ),
    Hospital(  # of a university
        name="kingsbridge",
        share=0.30,
        groups=(0.05, 0.07, 0.36, 0.39, 0.13),
        insurance={"statutory": 62, "supplementary": 16, "private": 19, "none": 3},
        emergency=0.0,
        treats={"cancer": 2.0, "neurological": 1.4},
        geriatrics=0.5,
    ),
    Hospital(  # a private clinic for planned operations
        name="lakeside",
        share=0.10,
        groups=(0.02, 0.07, 0.62, 0.26, 0.03),
        insurance={"statutory": 22, "supplementary": 25, "private": 51, "none": 2},
        emergency=-1.9,
        treats={"musculoskeletal": 3.0, "infection": 0.4, "respiratory": 0.5, "injury": 0.8},
        geriatrics=0.1,
    ),
    Hospital(  # in the city centre, open all night
        name="northgate",
        share=0.25,
        groups=(0.14, 0.10, 0.48, 0.22, 0.06),
        insurance={"statutory": 75, "supplementary": 6, "private": 7, "none": 12},
        emergency=1.1,
        treats={"injury": 1.6, "infection": 1.4, "cancer": 0.6},
        geriatrics=0.3,
    ),
    Hospital(  # for children and mothers
        name="st-anna",
        share=0.16,
        groups=(0.55, 0.37, 0.07, 0.01, 0.00),
        insurance={"statutory": 81, "supplementary": 9, "private": 6, "none": 4},
        emergency=0.2,
        treats={"pregnancy": 2.0, "injury": 0.7},
        geriatrics=0.0,
    ),
)

# Mean and spread of age, and the share of women; the ages of children are drawn differently.
GROUPS = {
    "children": (0.0, 0.0, 0.48),
    "mothers": (30.5, 5.0, 0.98),
    "working": (46.0, 13.0, 0.48),
    "retired": (72.0, 7.0, 0.51),
    "very old": (84.0, 5.0, 0.63),
}


@dataclass(frozen=True)
class Diagnosis:
    """Who has it, and what it does; effects on chances are log-odds."""

    often: tuple[float, ...]  # weights at the ages of AGES, between them in proportion
    wards: Mapping[str, float]  # of adults; geriatrics and intensive care come on top
    cost: float
    heavy: float = 0.0  # log-weight for each point of bmi over 25
    smoking: float = 0.0  # log-weight for smokers
    chronic: bool = False
    emergency: float = 0.0
    rehabilitation: float = 0.0
    pressure: float = 0.0
    creatinine: float = 0.0  # on its logarithm
    winter: float = 0.0  # how far the season swings


AGES = (0, 8, 18, 35, 50, 65, 80, 100)

DIAGNOSES = {
    "cancer": Diagnosis(
        often=(1, 1, 1, 3, 8, 14, 11, 7),
        wards={"oncology": 0.65, "surgery": 0.25, "general medicine": 0.1},
        cost=3600,
        smoking=0.5,
        emergency=-1.2,
    ),
    "circulatory": Diagnosis(
        often=(1, 1, 1, 4, 12, 22, 28, 30),
        wards={"cardiology": 0.7, "general medicine": 0.2, "neurology": 0.1},
        cost=2600,
        heavy=0.05,
        smoking=0.4,
        chronic=True,
        emergency=0.4,
        rehabilitation=0.8,
        pressure=11,
        creatinine=0.1,
    ),
    "digestive": Diagnosis(
        often=(6, 10, 12, 14, 14, 11, 9, 8),
        wards={"surgery": 0.55, "general medicine": 0.45},
        cost=1900,
    ),
    "endocrine": Diagnosis(
        often=(2, 3, 3, 4, 6, 6, 5, 4),
        wards={"general medicine": 0.9, "surgery": 0.1},
        cost=1100,
        heavy=0.16,
        chronic=True,
        creatinine=0.18,
    ),
    "infection": Diagnosis(
        often=(14, 9, 5, 4, 4, 5, 7, 9),
        wards={"general medicine": 0.9, "surgery": 0.1},
        cost=1000,
        emergency=1.0,
        pressure=-9,
        winter=0.4,
    ),
    "injury": Diagnosis(
        often=(6, 20, 22, 14, 11, 10, 14, 18),
        wards={"orthopaedics": 0.55, "surgery": 0.4, "neurology": 0.05},
        cost=2200,
        emergency=1.6,
        rehabilitation=0.9,
        pressure=-3,
        winter=-0.15,
    ),
    "musculoskeletal": Diagnosis(
        often=(1, 4, 7, 9, 14, 15, 9, 5),
        wards={"orthopaedics": 0.9, "general medicine": 0.1},
        cost=4200,
        heavy=0.06,
        emergency=-1.8,
        rehabilitation=2.0,
    ),
    "neurological": Diagnosis(
        often=(4, 6, 6, 6, 6, 7, 8, 7),
        wards={"neurology": 0.85, "general medicine": 0.15},
        cost=1700,
        rehabilitation=1.2,
    ),
    "pregnancy": Diagnosis(
        often=(0, 0, 30, 60, 0, 0, 0, 0),
        wards={"obstetrics": 1.0},
        cost=1500,
    ),
    "respiratory": Diagnosis(
        often=(30, 14, 6, 5, 6, 9, 11, 13),
        wards={"general medicine": 0.9, "oncology": 0.05, "surgery": 0.05},
        cost=1100,
        smoking=1.0,
        chronic=True,
        emergency=0.8,
        winter=0.6,
    ),
    "urinary": Diagnosis(
        often=(3, 4, 5, 6, 6, 7, 8, 8),
        wards={"surgery": 0.5, "general medicine": 0.5},
        cost=1500,
        chronic=True,
        emergency=-0.4,
        creatinine=0.4,
    ),
}

MEAN_DAYS = {
    "cardiology": 5.5,
    "general medicine": 6.0,
    "geriatrics": 12.0,
    "intensive care": 9.0,
    "neurology": 7.5,
    "obstetrics": 3.5,
    "oncology": 8.0,
    "orthopaedics": 6.5,
    "paediatrics": 3.2,
    "surgery": 5.0,
}

COST_OF_A_DAY = {
    "cardiology": 720,
    "general medicine": 520,
    "geriatrics": 430,
    "intensive care": 1150,
    "neurology": 600,
    "obstetrics": 560,
    "oncology": 760,
    "orthopaedics": 560,
    "paediatrics": 610,
    "surgery": 640,
}
