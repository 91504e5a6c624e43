"""The file by which a study is agreed on: its plan, the public schema, and how long to wait."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from heterofedsyn._defaults import MOST_ROWS, PATIENCE
from heterofedsyn._files import file_written_whole, read_whole
from heterofedsyn._toml import NotToml, from_toml, to_toml
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.schema import Schema, with_atoms

STUDY_VERSION = 1
MOST_STUDY_BYTES = 2**24
_MOST_MOST_ROWS = 10**9


class Study(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """What a coordinator sends to every steward; approved by the fingerprint of its plan.

    Attributes:
        schema: the public schema, shaped like its TOML.
        quorum: how many sites must answer a round for the study to go on.
        patience: seconds that a round may take at a site, beyond what its noise needs.
        most_rows: that any site has; who tells of more is left out, so that no site can swell sums.
    """

    plan: Plan
    schema: dict[str, Any]
    quorum: int
    patience: float = PATIENCE
    most_rows: int = MOST_ROWS
    version: int = STUDY_VERSION

    def __post_init__(self) -> None:
        if self.version != STUDY_VERSION:
            raise UsageError(
                f"the study has version {self.version}, not {STUDY_VERSION}; install the same "
                "version of heterofedsyn at hub and sites"
            )
        if not 1 <= self.quorum <= len(self.plan.sites):
            raise UsageError(
                f"quorum ({self.quorum}) must be in 1..{len(self.plan.sites)}, the sites"
            )
        trust = self.plan.trust_model
        if isinstance(trust, SecureAggregation) and self.quorum != trust.quorum:
            raise UsageError(
                f"quorum ({self.quorum}) is not that of the plan ({trust.quorum}), on which the "
                "noise of sums hangs; make the study anew"
            )
        if not 1 <= self.patience <= 86_400:
            raise UsageError(f"patience ({self.patience}) must be in 1..86400 seconds")
        if not 1 <= self.most_rows <= _MOST_MOST_ROWS:
            raise UsageError(f"most_rows ({self.most_rows}) must be in 1..{_MOST_MOST_ROWS}")
        _ = self.encoding  # made once, and refuses what it refuses

    @cached_property
    def public(self) -> Schema:
        """The public schema."""
        return Schema.of(self.schema)

    @cached_property
    def encoding(self) -> Schema:
        """The schema by which sites encode: the public one, or that with atoms."""
        # Studies made before plans named both name the one that sites encode by alone.
        if self.plan.schema in (self.public.fingerprint, self.plan.encoded_by):
            for schema in (self.public, with_atoms(self.public)):
                if schema.fingerprint == self.plan.encoded_by:
                    return schema
        raise UsageError("the plan was made for another schema; make the study anew")

    @property
    def fingerprint(self) -> str:
        """What names the study, and what a steward approves."""
        return self.plan.fingerprint

    @classmethod
    def load(cls, path: Path) -> Study:
        """The study in a file.

        Raises:
            UsageError: if it is anything else.
        """
        try:
            text = read_whole(path, MOST_STUDY_BYTES).decode("utf-8")
            return _read(text)
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not UTF-8 text; save it as UTF-8") from None
        except (NotToml, msgspec.ValidationError) as error:
            raise UsageError(f"{path}: this is no study: {error}") from None
        except RecursionError:
            raise UsageError(f"{path}: this is no study: it is nested too deeply") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"cannot read study {path}: {reason}; check the path") from None
        except HeterofedsynError as error:
            raise UsageError(f"{path}: {error}") from None
        except ValueError:
            raise UsageError(f"{path}: this is no study: a number in it is too long") from None

    def save(self, path: Path) -> None:
        """Write the study as TOML."""
        with file_written_whole(path) as partial:
            partial.write_text(self.to_toml(), "utf-8")

    def to_toml(self) -> str:
        """The study as TOML; `load` gives it back."""
        return to_toml(msgspec.to_builtins(self, builtin_types=(datetime,)))


@lru_cache(maxsize=4)
def _read(text: str) -> Study:
    """The study in a text; an agent reads its file at every request, mostly the same one."""
    return msgspec.convert(from_toml(text), Study)
