"""Laws of masks: they cancel, they hide, and no two things have one name."""

from __future__ import annotations

import secrets
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.errors import UsageError
from heterofedsyn.masking import sealing, shamir, streams, words
from heterofedsyn.masking.identity import from_base64, is_signed, key_fingerprint, raw_key
from heterofedsyn.masking.sealing import Pair
from heterofedsyn.site.signing import Identity

FIELD = 2**255 - 19
WHERE = ("study", "query", bytes(32))

fields = st.lists(st.one_of(st.binary(max_size=4), st.text("ab", max_size=3)), max_size=4)
secret_bytes = st.binary(min_size=shamir.SECRET_BYTES, max_size=shamir.SECRET_BYTES)
names = st.text("abAB.é", min_size=1, max_size=3)
pairs = st.dictionaries(names, st.binary(max_size=3), max_size=3)


# Encodings


def plain(each: bytes | str) -> bytes:
    return each.encode() if isinstance(each, str) else each


@given(st.text("ab", max_size=2), fields, st.text("ab", max_size=2), fields)
def test_different_fields_or_purposes_are_never_joined_to_the_same_bytes(
    one: str, first: list[bytes | str], two: str, second: list[bytes | str]
) -> None:
    same = (one, [*map(plain, first)]) == (two, [*map(plain, second)])
    assert (words.joined(one, *first) == words.joined(two, *second)) == same
    assert (words.digest(one, *first) == words.digest(two, *second)) == same


@given(st.text("ab", max_size=2), fields, st.binary(max_size=3))
def test_joined_bytes_never_go_on_as_others(
    purpose: str, some: list[bytes | str], more: bytes
) -> None:
    longer = words.joined(purpose, *some, more)
    assert not longer.startswith(words.joined(purpose, *some))


@given(pairs, pairs, st.randoms(use_true_random=False))
def test_a_list_and_a_set_are_known_whatever_their_order_and_by_nothing_else(
    one: dict[str, bytes], two: dict[str, bytes], random: object
) -> None:
    for hashed in (words.list_hash, words.set_hash):
        shuffled = [*one.items()]
        random.shuffle(shuffled)  # type: ignore[attr-defined]
        assert hashed(shuffled) == hashed(one.items())
        assert (hashed(one.items()) == hashed(two.items())) == (one == two)
    assert words.list_hash(one.items()) != words.set_hash(one.items())


@given(st.binary(min_size=16, max_size=16))
def test_what_is_published_of_a_self_seed_is_not_what_masks(seed: bytes) -> None:
    told = {words.seed_hash(seed), words.digest("self mask", seed), seed}
    assert streams.self_mask_seed(seed) not in told
    assert len({words.answer_hash(seed, b""), words.answer_hash(b"", seed)}) == 2


# Shares


@given(secret_bytes, st.integers(1, 5), st.integers(0, 3))
def test_any_so_many_shares_tell_the_secret(secret: bytes, needed: int, more: int) -> None:
    shares = shamir.split(secret, needed, range(1, needed + more + 1))
    for chosen in combinations(shares, needed):
        assert shamir.combine({point: shares[point] for point in chosen}) == secret
    assert shamir.combine(shares) == secret


@given(secret_bytes, secret_bytes, st.integers(2, 5))
def test_one_share_less_is_consistent_with_every_secret(
    secret: bytes, other: bytes, needed: int
) -> None:
    shares = shamir.split(secret, needed, range(1, needed + 1))
    known = {point: int.from_bytes(shares[point], "big") for point in range(1, needed)}
    # With the other secret at 0 there is one polynomial through what is known; its last share:
    through = {0: int.from_bytes(other, "big"), **known}
    last = at(through, needed).to_bytes(shamir.SHARE_BYTES, "big")
    assert shamir.combine({**shares, needed: last}) == other


def at(values: dict[int, int], place: int) -> int:
    total = 0
    for point, value in values.items():
        above = below = 1
        for other in values:
            if other != point:
                above, below = above * (place - other), below * (point - other)
        total += value * above * pow(below, -1, shamir.PRIME)
    return total % shamir.PRIME


def test_shares_too_few_are_spread_over_the_whole_field() -> None:
    """Of one secret, the first of two shares is uniform: 16 cells, 4,000 splits."""
    secret = bytes(shamir.SECRET_BYTES)
    drawn = [int.from_bytes(shamir.split(secret, 2, (1, 2))[1], "big") for _ in range(4_000)]
    cells = np.bincount([16 * value // shamir.PRIME for value in drawn], minlength=16)
    chi_square = float(((cells - 250) ** 2 / 250).sum())
    assert chi_square < 15 + 8 * np.sqrt(30)  # of 15 degrees of freedom: variance 30


@pytest.mark.parametrize("points", [(0, 1), (1, 1), (-1, 1), (shamir.PRIME, 1)])
def test_no_point_is_the_secret_itself_or_there_twice(points: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="points"):
        shamir.split(bytes(16), 2, points)


@pytest.mark.parametrize(("secret", "needed"), [(bytes(16), 0), (bytes(16), 4), (bytes(17), 2)])
def test_a_secret_of_another_length_or_too_many_shares_are_refused(
    secret: bytes, needed: int
) -> None:
    with pytest.raises(ValueError, match="of"):
        shamir.split(secret, needed, (1, 2, 3))


def test_shares_of_no_secret_of_16_bytes_tell_none() -> None:
    high = (2**129).to_bytes(shamir.SHARE_BYTES, "big")
    assert shamir.combine({1: high}) is None


# Streams


@given(
    st.lists(st.binary(min_size=32, max_size=32), max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
)
def test_streams_that_are_added_and_taken_away_cancel(seeds: list[bytes], some: list[int]) -> None:
    values = np.array(some, dtype=np.int64).view(np.uint64)
    masked = streams.add_streams(values, seeds, [])
    assert np.array_equal(streams.add_streams(masked, [], seeds), values)
    assert np.array_equal(np.array(some), values.view(np.int64)), "the values are not changed"


@given(st.integers(0, 200), st.integers(0, 200))
def test_a_stream_goes_on_as_it_began(one: int, two: int) -> None:
    seed = secrets.token_bytes(32)
    shorter, longer = sorted((one, two))
    assert np.array_equal(streams.stream(seed, longer)[:shorter], streams.stream(seed, shorter))


def test_a_stream_is_chacha20_from_the_start() -> None:
    """The first block of RFC 8439, 2.3.2's cipher with an all-zero key, nonce and counter."""
    first = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert streams.stream(bytes(32), 4).astype("<u8").tobytes() == first


def test_a_seed_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        streams.stream(bytes(31), 1)


@given(names, names)
def test_of_a_pair_one_adds_and_the_other_takes_away(one: str, two: str) -> None:
    if one != two:
        assert {streams.sign_of(one, two), streams.sign_of(two, one)} == {1, -1}


# Pairs


def exchanged(where: tuple[str, str, bytes] = WHERE, one: str = "a", two: str = "bc") -> list[Pair]:
    first, second = KEYS
    return [
        Pair(first, sealing.public_of(second), own=one, other=two, where=where),
        Pair(second, sealing.public_of(first), own=two, other=one, where=where),
    ]


KEYS = sealing.make_key(), sealing.make_key()


def test_both_of_a_pair_have_the_same_mask_and_every_query_study_and_list_another() -> None:
    wheres = list(product(("study", "studyq"), ("query", "uery", "q"), (bytes(32), bytes(31))))
    seeds = set()
    for where in wheres:
        one, two = exchanged(where)
        assert one.mask_seed() == two.mask_seed()
        seeds.add(one.mask_seed())
    for one_name, two_name in (("ab", "c"), ("a", "b"), ("b", "a")):
        seeds.add(exchanged(one=one_name, two=two_name)[0].mask_seed())
    assert len(seeds) == len(wheres) + 2  # a and b, b and a: one pair


@given(st.binary(max_size=40), st.binary(max_size=20))
def test_what_is_sealed_opens_for_the_other_alone(message: bytes, bound: bytes) -> None:
    one, two = exchanged()
    sealed = one.seal(message, bound)
    assert two.unseal(sealed, bound) == message
    assert two.unseal(sealed, bound + b"x") is None
    assert one.unseal(sealed, bound) is None, "one key for each direction"
    assert one.seal(message, bound)[:12] != sealed[:12], "a nonce serves once"
    for other in (("studx", *WHERE[1:]), ("study", "x", WHERE[2]), (*WHERE[:2], b"x" * 32)):
        assert exchanged(other)[1].unseal(sealed, bound) is None
    stranger = Pair(
        sealing.make_key(), sealing.public_of(KEYS[0]), own="bc", other="a", where=WHERE
    )
    assert stranger.unseal(sealed, bound) is None


@given(st.binary(max_size=60))
def test_what_nobody_sealed_does_not_open(data: bytes) -> None:
    assert exchanged()[1].unseal(data, b"") is None


def test_a_seal_with_one_bit_changed_does_not_open() -> None:
    one, two = exchanged()
    sealed = one.seal(b"a share", b"")
    for place in range(len(sealed)):
        spoilt = sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
        assert two.unseal(spoilt, b"") is None


LOW = [
    *(0, 1, FIELD - 1, FIELD, FIELD + 1),
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]


@pytest.mark.parametrize("point", LOW)
def test_a_point_of_low_order_shares_nothing(point: int) -> None:
    with pytest.raises(ValueError, match="shared key"):
        Pair(KEYS[0], point.to_bytes(32, "little"), own="a", other="b", where=WHERE)


@pytest.mark.parametrize("many", [0, 31, 33])
def test_a_key_of_another_length_shares_nothing(many: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Pair(KEYS[0], bytes([9] * many), own="a", other="b", where=WHERE)


# Identities


def test_only_the_holder_of_a_key_signs_with_it() -> None:
    one, two = Identity.fresh(), Identity.fresh()
    signature = one.sign(b"data")
    assert is_signed(b"data", one.public, signature)
    assert not is_signed(b"data", two.public, signature)
    assert not is_signed(b"date", one.public, signature)
    assert not is_signed(b"data", one.public, signature[:-1])
    assert not is_signed(b"data", one.public, b"")
    assert key_fingerprint(one.public) != key_fingerprint(two.public)


@given(st.binary(max_size=34))
def test_one_text_alone_is_a_key(raw: bytes) -> None:
    import base64

    text = base64.b64encode(raw).decode()
    assert from_base64(text) == raw
    if len(raw) == 32 and raw[1:-1] not in (bytes(30), b"\xff" * 30):  # see the next test
        assert raw_key(text) == raw
        other = text[:-2] + chr(ord(text[-2]) + 1) + "="
        with pytest.raises(UsageError, match="no public key"):
            raw_key(other)
    elif len(raw) != 32:
        with pytest.raises(UsageError, match="no public key"):
            raw_key(text)


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("start", ["00", "01", "ec", "ed", "ee", "26", "c7"])
def test_no_signature_is_accepted_under_a_key_that_has_no_private_half(
    start: str, sign: int
) -> None:
    import base64

    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    eighth = "e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    other = "176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"
    rest = {"26": eighth, "c7": other, "00": "00" * 31, "01": "00" * 31}
    raw = bytearray.fromhex(start + rest.get(start, "ff" * 30 + "7f"))
    raw[-1] |= sign << 7
    forged = bytes([1]) + bytes(63)  # by nobody: the neutral point, and the exponent 0

    def library_accepts(data: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(bytes(raw)).verify(forged, data)
        except InvalidSignature:
            return False
        return True

    accepted = [data for data in (bytes([i]) for i in range(200)) if library_accepts(data)]
    # The neutral point is everybody's signature; one with a sign is none by the letter.
    assert accepted or (start, sign) in {("01", 1), ("ee", 1), ("ec", 1)}
    key = base64.b64encode(raw).decode()
    for data in (*accepted, b"data"):
        with pytest.raises(UsageError, match="everyone can sign in its name"):
            is_signed(data, key, forged)
    with pytest.raises(UsageError, match="everyone can sign"):
        key_fingerprint(key)
