"""What an agent checks of itself before it answers anybody; takes a second or two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np

from heterofedsyn._arrays import Exact, Integers
from heterofedsyn._files import read_whole
from heterofedsyn._words import count
from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable, PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import gaussian_p_value, reuse_p_value, tails_p_value
from heterofedsyn.privacy.noise import NoiseSource, add_noise, check_version
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.durable import saying, write
from heterofedsyn.site.settings import SiteSettings

ALARM = 1e-9
"""The chance at which a sound source is called unsound; there are nine looks at it."""

_SIGMAS = (1.5, 2.5, 41.0, 173.2)
"""The biased versions fail at the second."""

_DRAWS = 16_000

CHECKED = "checked.json"
"""In the site's folder: what the agent's last check of itself said."""

_MOST_CHECKED_BYTES = 2**20


def self_check(settings: SiteSettings, books: Books, noise: NoiseSource) -> Iterator[str]:
    """Refuse to serve with software or books that are not sound; yields a line for each check.

    Args:
        noise: the agent's own source.

    Raises:
        PrivacyRefusal: saying what is wrong and what to do.
    """
    check_version()
    yield f"OpenDP {version('opendp')} draws without bias"
    check_noise(noise)
    check_fresh(noise)
    yield f"noise looks as it should at sigma {', '.join(f'{sigma:g}' for sigma in _SIGMAS)}"
    yield from check_ledger(settings, books)


def check_noise(noise: NoiseSource) -> None:
    """Refuse a source whose noise is not the exact discrete Gaussian, or uses a draw twice.

    Raises:
        PrivacyRefusal: saying at which sigma.
    """
    samples = []
    for sigma in _SIGMAS:
        halves = [_drawn(noise, sigma, _DRAWS // 2, f"self-check {i}") for i in range(2)]
        drawn = np.concatenate(halves)
        where = f"noise at sigma {sigma:g}"
        _require_chance(gaussian_p_value(drawn, sigma), f"{where} is no discrete Gaussian")
        _require_chance(reuse_p_value(drawn), f"{where} came twice")
        samples.append((drawn, sigma))
    _require_chance(tails_p_value(samples), "noise is no discrete Gaussian in its tails")


def check_fresh(noise: NoiseSource) -> None:
    """Refuse a source that would draw the same for the same release again: it has a seed.

    Raises:
        PrivacyRefusal: if it does.
    """
    wide = _SIGMAS[-1]
    first, second = (_drawn(noise, wide, 100, "self-check") for _ in range(2))
    _require(not noise.simulated and not np.array_equal(first, second), "noise has a seed")


def _drawn(noise: NoiseSource, sigma: float, many: int, key: str) -> Integers:
    budget = Budget((1 + 1e-9) / (2 * sigma**2))
    terms = Terms("flat", (), 1.0, sigma, many, budget.rho)
    nothing = Exact(np.zeros(many, dtype=np.int64))
    return add_noise(nothing, terms, budget, noise, key.encode()).values


def _require_chance(chance: float, otherwise: str) -> None:
    """Refuse what has too small a chance."""
    _require(chance >= ALARM, f"{otherwise} (p {chance:.1g})")


def _require(held: bool, otherwise: str) -> None:
    if not held:
        raise PrivacyRefusal(
            f"{otherwise}; nothing is served: install heterofedsyn and OpenDP anew and run "
            "`heterofedsyn audit`"
        )


def check_ledger(settings: SiteSettings, books: Books) -> Iterator[str]:
    """Refuse books that do not say what is on disk, or that know of an answer nobody paid for.

    Opening the books has checked the chain of entries against its anchor. An answer that is lost or
    damaged is told to the steward: it is never drawn again, whoever asks for it.

    Raises:
        LedgerDisputed: saying what contradicts what.
    """
    account = books.account
    if Books.read(settings.folder, settings.anchor) != account:
        raise LedgerDisputed(
            f"the ledger in {settings.folder} changed while it was opened; stop whoever writes to "
            "it, then look at `heterofedsyn site ledger`"
        )
    unpaid = {answered.query for answered in account.answers} - {c.query for c in account.charges}
    if unpaid:
        raise LedgerDisputed(
            f"the ledger in {settings.folder} knows {len(unpaid):,} answers that were never "
            "charged; nothing is served: look at `heterofedsyn site ledger`"
        )
    for answered in account.answers:
        try:
            books.kept(answered.query)
        except LedgerUnavailable as error:
            yield f"remark: {error}"
    hold = count(account.number + 1, "entry holds", "entries hold")
    yield f"the ledger's {hold}, each answer was charged"


def keep_checked(folder: Path, lines: Sequence[str], *, now: datetime) -> None:
    """Keep what a check that held has said, for the steward's pages.

    Raises:
        LedgerUnavailable: if it cannot be written.
    """
    when = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with saying("write to", folder):
        write(folder / CHECKED, msgspec.json.encode((when, tuple(lines))))


def read_checked(folder: Path) -> tuple[str, tuple[str, ...]] | None:
    """When the agent last checked itself and what it said, if that is known."""
    try:
        data = read_whole(folder / CHECKED, _MOST_CHECKED_BYTES)
        return msgspec.json.decode(data, type=tuple[str, tuple[str, ...]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
