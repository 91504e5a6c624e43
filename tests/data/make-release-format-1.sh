#!/bin/sh
# How release-format-1 was made, once, by version 0.1.0. Never make it again: every later version
# must load it as it is. Run from the root of the repository.
set -eu
here=tests/data
work=$(mktemp -d)
PYTHONPATH=tests .venv/bin/python -c "
import pyarrow.csv
from invented import SCHEMA, patients
open('$work/s.toml', 'w').write(SCHEMA)
pyarrow.csv.write_csv(patients(), '$work/d.csv')"
.venv/bin/heterofedsyn simulate --schema $work/s.toml --data $work/d.csv --sites 2 --epsilon 4 \
    --delta 1e-9 --method adafedprivsyn --set bound=1 --seed 1 --out "$here/release-format-1"
rm -r "$work"
rm "$here/release-format-1/synthetic.csv" "$here/release-format-1/synthetic.parquet"
.venv/bin/heterofedsyn sample "$here/release-format-1" --rows 40 --seed 1 \
    --out "$here/release-format-1.csv"
