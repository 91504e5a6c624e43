"""What a study publishes, on disk and back; made from noisy answers alone."""

from heterofedsyn.hub.release.folder import FILES, PARTS, TABLES, check_target, is_release
from heterofedsyn.hub.release.model_file import MODEL_FORMAT
from heterofedsyn.hub.release.release import (
    MOST_RELEASED,
    MOST_STREAMED,
    MOST_UNASKED,
    Release,
    check_rows,
    load,
)
from heterofedsyn.hub.release.run_record import Missed, RunRecord, Scaled, ScoredPair

__all__ = [
    "FILES",
    "MODEL_FORMAT",
    "MOST_RELEASED",
    "MOST_STREAMED",
    "MOST_UNASKED",
    "PARTS",
    "TABLES",
    "Missed",
    "Release",
    "RunRecord",
    "Scaled",
    "ScoredPair",
    "check_rows",
    "check_target",
    "is_release",
    "load",
]
