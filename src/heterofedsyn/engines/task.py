"""What hub and sites say to each other through an engine, and what a job leaves."""

from __future__ import annotations

import base64

from heterofedsyn.errors import UsageError
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.terms import hears_sums

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


def pack(text: str) -> str:
    """Text for the configuration of a job, in letters that mean nothing to an engine.

    NVFlare takes what stands in braces, in any text of a configuration, for the name of a
    variable, of the server's environment too.
    """
    return base64.b64encode(text.encode()).decode()


def unpack(packed: str) -> str:
    """The text that was packed.

    Raises:
        UsageError: if it is anything else.
    """
    try:
        text = base64.b64decode(packed, validate=True).decode()
    except ValueError:  # also of base64 and of UTF-8
        text = ""
    if not text or pack(text) != packed:
        raise UsageError("the job holds no study; submit it with `heterofedsyn study run`")
    return text


def check_keys(study: Study) -> None:
    """Refuse a study that only a simulation can run: its sites would have no keys to hide with.

    Raises:
        UsageError: saying what to do.
    """
    if hears_sums(study.plan) and not study.plan.roster:
        raise UsageError(
            f"the study has trust {study.plan.trust!r} but no keys of its sites, so it can only be "
            "simulated; make it anew with `study new --site NAME=KEY`"
        )
