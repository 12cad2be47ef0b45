"""SecretMasker: distinctive secrets are masked everywhere for any split, others in their echo; other text is unchanged."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ptyctl.core.secret_masker import MAX_PERSISTENT, SecretMasker, is_distinctive

secrets = st.text("abcé*", min_size=1, max_size=6).map(str.encode)
distinct = st.text("ab1", min_size=8, max_size=12).map(str.encode).filter(is_distinctive)
texts = st.text("abcé*\n ", max_size=30).map(str.encode)


def fed(masker: SecretMasker, data: bytes, places: list[int], now: float = 1.0) -> bytes:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    pieces = [data[begin:end] for begin, end in pairwise(ends)]
    return b"".join(masker.feed(piece, now) for piece in pieces) + masker.flush()


@given(distinct, texts, texts, st.lists(st.integers(0, 99), max_size=8))
def test_feed_distinctive_secret_is_masked_everywhere(secret: bytes, before: bytes, behind: bytes, places: list[int]) -> None:
    masker = SecretMasker()
    masker.arm(secret + b"\r", 0.0)
    text = before + secret + behind + secret
    assert fed(masker, text, places) == text.replace(secret, b"*" * len(secret))
    assert masker.armed


@given(st.lists(distinct, min_size=1, max_size=3), st.data())
def test_feed_distinctive_secret_never_shown_completely(several: list[bytes], data: st.DataObject) -> None:
    """At any time, for any split, and with flushes in between."""
    masker = SecretMasker()
    for secret in several:
        masker.arm(secret, 0.0)
    text = b"".join(data.draw(st.lists(st.sampled_from([*several, *(secret[:5] for secret in several), b"a", b" "]))))
    shown, begin = b"", 0
    while begin < len(text):
        size = data.draw(st.integers(1, 30))
        shown += masker.feed(text[begin : begin + size], 1000.0)
        shown += masker.flush() if data.draw(st.booleans()) else b""
        begin += size
    shown += masker.flush()
    assert len(shown) == len(text)
    assert not any(secret in shown for secret in several)


def test_flush_released_start_rest_of_secret_is_masked() -> None:
    masker = SecretMasker()
    masker.arm(b"s3cret-Word", 0.0)
    assert masker.feed(b"it is s3c", 60.0) == b"it is "
    assert masker.flush() == b"s3c"
    assert masker.feed(b"ret", 61.0) == b""
    assert masker.feed(b"-Word.", 61.0) == b"********."
    assert masker.feed(b" s3c", 62.0) + masker.flush() == b" s3c"
    assert masker.feed(b"ure", 63.0) == b"ure"


def test_arm_keeps_most_recent_distinctive_secrets() -> None:
    masker = SecretMasker()
    for number in range(MAX_PERSISTENT + 1):
        masker.arm(b"secret-%04d\r" % number, 0.0)
    assert masker.feed(b"secret-0000 secret-0001\n", 60.0) == b"secret-0000 ***********\n"


@given(st.lists(secrets, max_size=3), texts, st.lists(st.integers(0, 99), max_size=8))
def test_feed_other_text_is_unchanged(several: list[bytes], text: bytes, places: list[int]) -> None:
    masker = SecretMasker()
    for secret in several:
        masker.arm(secret, 0.0)
    masked = fed(masker, text, places)
    assert len(masked) == len(text)
    assert all(there in (was, ord("*")) for there, was in zip(masked, text, strict=True))
    if not any(secret in text for secret in several):
        assert masked == text


@given(st.lists(distinct, min_size=1, max_size=3), texts, texts)
def test_mask_whole_text_has_no_distinctive_secret(several: list[bytes], before: bytes, behind: bytes) -> None:
    masker = SecretMasker()
    masker.remember(b"\n".join(several))
    for secret in several:
        text = before + secret + behind
        assert len(masker.mask(text)) == len(text)
        assert secret not in masker.mask(text)
    assert SecretMasker().mask(before) == before
