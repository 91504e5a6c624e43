"""What an agent checks of itself before it answers anybody; takes a second or two."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import numpy as np

from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable, PrivacyRefusal
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import gaussian_p_value
from heterofedsyn.privacy.noise import Calibration, NoiseSource, SecureNoise, add_noise
from heterofedsyn.site.books import Books
from heterofedsyn.site.settings import SiteSettings

BIASED_BEFORE = (0, 14, 2)
"""Versions of OpenDP whose discrete Gaussian has the wrong shape at some sigmas."""

ALARM = 1e-9
"""The chance at which a sound source is called unsound; there are three looks at it."""

_SIGMAS = (1.5, 2.5, 41.0)
"""The biased versions fail at the second."""

_DRAWS = 20_000


def self_check(
    settings: SiteSettings, books: Books, noise: NoiseSource = SecureNoise()
) -> Iterator[str]:
    """Refuse to serve with software or books that are not sound; yields a line for each check.

    Raises:
        PrivacyRefusal: saying what is wrong and what to do.
    """
    check_version()
    yield f"OpenDP {version('opendp')} draws without bias"
    check_noise(noise)
    yield f"noise looks as it should at sigma {', '.join(f'{sigma:g}' for sigma in _SIGMAS)}"
    yield from check_ledger(settings, books)


def check_version() -> None:
    """Refuse an OpenDP that is known to draw biased noise.

    Raises:
        PrivacyRefusal: naming the version.
    """
    installed = version("opendp")
    if _numbers(installed) < BIASED_BEFORE:
        raise PrivacyRefusal(
            f"OpenDP {installed} draws biased noise, as all before "
            f"{'.'.join(map(str, BIASED_BEFORE))} do; install 0.16 or later"
        )


def check_noise(noise: NoiseSource) -> None:
    """Refuse a source whose noise is not the exact discrete Gaussian, or is not fresh.

    Raises:
        PrivacyRefusal: saying at which sigma.
    """
    for sigma in _SIGMAS:
        budget = Budget((1 + 1e-9) / (2 * sigma**2))
        terms = Calibration(1.0, sigma, budget, budget)
        zeros = np.zeros(_DRAWS // 2, dtype=np.int64)
        halves = [add_noise(zeros, terms, noise, f"self-check {i}".encode()) for i in range(2)]
        chance = gaussian_p_value(np.concatenate(halves), sigma)
        if chance < ALARM:
            raise PrivacyRefusal(
                f"noise at sigma {sigma:g} is no discrete Gaussian (p {chance:.1g}); nothing is "
                "served: install OpenDP anew and run `heterofedsyn bench audit`"
            )
        if np.array_equal(halves[0], halves[1]):
            raise PrivacyRefusal(
                f"noise at sigma {sigma:g} came twice; nothing is served: install OpenDP anew and "
                "run `heterofedsyn bench audit`"
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
    yield f"the ledger's {account.number + 1:,} entries hold, each answer was charged"


def _numbers(text: str) -> tuple[int, ...]:
    """A version as numbers, as far as it is one.

    >>> _numbers("0.14.1"), _numbers("0.16.0a1") > (0, 14, 2)
    ((0, 14, 1), True)
    """
    found = []
    for part in text.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
    return tuple(found)
