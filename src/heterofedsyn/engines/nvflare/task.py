"""What controller and executor say to each other through NVFlare."""

from __future__ import annotations

TASK = "heterofedsyn"
"""The name of the one task there is: answer a query."""

QUERY = "query"
SECONDS = "seconds"
ANSWER = "answer"
REASON = "reason"

PROGRESS = "heterofedsyn"
"""The topic under which a running study is asked how far it is."""

RESULT = "heterofedsyn"
"""The folder of a job's result that holds `progress.json` and, at the end, `release`."""

STUDY_FILE = "study.toml"
PROGRESS_FILE = "progress.json"
RELEASE = "release"
