"""Query responses agree with the state of the model; the detector finds each query."""

from __future__ import annotations

import pytest

from ptyctl.core.screen import QueryDetector, ScreenModel


def responses_to(data: bytes) -> list[bytes]:
    model = ScreenModel(80, 24)
    model.feed(data)
    return model.responses


QUERIES = [
    (b"\x1b[5n", b"\x1b[0n"),
    (b"ab\r\nc\x1b[6n", b"\x1b[2;2R"),
    (b"\x1b[5;9r\x1b[?6h\n\x1b[6n", b"\x1b[2;1R"),
    (b"x" * 80 + b"\x1b[6n", b"\x1b[1;80R"),
    (b"\x1b[?6n", b"\x1b[?1;1;1R"),
    (b"\x1b[?15n", b"\x1b[?13n"),
    (b"\x1b[?25n", b"\x1b[?21n"),
    (b"\x1b[?26n", b"\x1b[?27;1;0;0n"),
    (b"\x1b[?996n", b"\x1b[?997;1n"),
    (b"\x1b[c", b"\x1b[?64;6;21;22;28c"),
    (b"\x1b[0c", b"\x1b[?64;6;21;22;28c"),
    (b"\x1bZ", b"\x1b[?64;6;21;22;28c"),
    (b"\x1b[>c", b"\x1b[>41;0;0c"),
    (b"\x1b[=c", b"\x1bP!|00000000\x1b\\"),
    (b"\x1b[>q", b"\x1bP>|ptyctl(1)\x1b\\"),
    (b"\x1b[>0q", b"\x1bP>|ptyctl(1)\x1b\\"),
    (b"\x1b[x", b"\x1b[2;1;1;128;128;1;0x"),
    (b"\x1b[1x", b"\x1b[3;1;1;128;128;1;0x"),
    (b"\x1b[4$p", b"\x1b[4;2$y"),
    (b"\x1b[4h\x1b[4$p", b"\x1b[4;1$y"),
    (b"\x1b[2$p", b"\x1b[2;2$y"),
    (b"\x1b[11$p", b"\x1b[11;4$y"),
    (b"\x1b[6$p", b"\x1b[6;0$y"),
    (b"\x1b[?60$p", b"\x1b[?60;4$y"),
    (b"\x1b[?55n", b"\x1b[?50n"),
    (b"\x1b[?56n", b"\x1b[?57;0n"),
    (b"\x1b[?62n", b"\x1b[0*{"),
    (b"\x1b[?63;7n", b"\x1bP7!~0000\x1b\\"),
    (b"\x1b[?75n", b"\x1b[?70n"),
    (b"\x1b[?85n", b"\x1b[?83n"),
    (b"AB\x1b[7;1;1;1;1;2*y", b"\x1bP7!~FF7D\x1b\\"),
    (b"\x1b[1mAB\x1b[7;1;1;1;1;2*y", b"\x1bP7!~FE7D\x1b\\"),
    (b"\x1b[3#y\x1b[1mAB\x1b[7;1;1;1;1;2*y", b"\x1bP7!~0083\x1b\\"),
    (b"\x1b]4;1;rgb:8/80/800\x1b\\\x1b]4;1;?\x07", b"\x1b]4;1;rgb:8888/8080/7f7f\x07"),
    (b"\x1b]10;#f80;#112233\x07\x1b]11;?\x07", b"\x1b]11;rgb:1111/2222/3333\x07"),
    (b"\x1b]5;0;#888\x07\x1b]4;256;?\x07", b"\x1b]4;256;rgb:8080/8080/8080\x07"),
    (b"\x1b]4;1;#888\x07\x1b]104;1\x07\x1b]4;1;?\x07", b"\x1b]4;1;rgb:cdcd/0000/0000\x07"),
    (b"\x1b]11;#888\x07\x1b]111\x07\x1b]11;?\x07", b"\x1b]11;rgb:0000/0000/0000\x07"),
    (b"\x1bP+q436F\x1b\\", b"\x1bP1+r436F=323536\x1b\\"),
    (b"\x1b[?69h\x1b[3;4s\x1bP$qs\x1b\\", b"\x1bP1$r3;4s\x1b\\"),
    (b'\x1b[1"q\x1bP$q"q\x1b\\', b'\x1bP1$r1"q\x1b\\'),
    (b'\x1b[63;1"p\x1bP$q"p\x1b\\', b'\x1bP1$r63;1"p\x1b\\'),
    (b"\x1b[2*x\x1bP$q*x\x1b\\", b"\x1bP1$r2*x\x1b\\"),
    (b"\x1b[?69h\x1b[3;9s\x1b[?6h\x1b[2C\x1b[6n", b"\x1b[1;3R"),
    (b"\x1b[?7$p", b"\x1b[?7;1$y"),
    (b"\x1b[?2004$p", b"\x1b[?2004;2$y"),
    (b"\x1b[?2004h\x1b[?2004$p", b"\x1b[?2004;1$y"),
    (b"\x1b[?1002h\x1b[?1003h\x1b[?1002$p", b"\x1b[?1002;2$y"),
    (b"\x1b[?1049h\x1b[?1049$p", b"\x1b[?1049;1$y"),
    (b"\x1b[?1048$p", b"\x1b[?1048;2$y"),
    (b"\x1b=\x1b[?66$p", b"\x1b[?66;1$y"),
    (b"\x1b[?3$p", b"\x1b[?3;4$y"),
    (b"\x1b[?9999$p", b"\x1b[?9999;0$y"),
    (b"\x1b]10;?\x07", b"\x1b]10;rgb:e5e5/e5e5/e5e5\x07"),
    (b"\x1b]11;?\x1b\\", b"\x1b]11;rgb:0000/0000/0000\x1b\\"),
    (b"\x1b]4;1;?\x07", b"\x1b]4;1;rgb:cdcd/0000/0000\x07"),
    (b"\x1b]4;208;?\x07", b"\x1b]4;208;rgb:ffff/8787/0000\x07"),
    (b"\x1b]4;255;?\x07", b"\x1b]4;255;rgb:eeee/eeee/eeee\x07"),
    (b"\x1bP$qm\x1b\\", b"\x1bP1$r0m\x1b\\"),
    (b"\x1b[1;38;5;208m\x1bP$qm\x1b\\", b"\x1bP1$r0;1;38;5;208m\x1b\\"),
    (b"\x1b[3;9r\x1bP$qr\x1b\\", b"\x1bP1$r3;9r\x1b\\"),
    (b"\x1b[5 q\x1bP$q q\x1b\\", b"\x1bP1$r5 q\x1b\\"),
    (b"\x1bP$qz\x1b\\", b"\x1bP0$r\x1b\\"),
    (b"\x1bP+q544e\x1b\\", b"\x1bP0+r\x1b\\"),
    (b"\x1b[14t", b"\x1b[4;384;640t"),
    (b"\x1b[16t", b"\x1b[6;16;8t"),
    (b"\x1b[18t", b"\x1b[8;24;80t"),
    (b"\x1b[19t", b"\x1b[9;24;80t"),
    (b"\x1b]2;rm -rf\x07\x1b[21t", b"\x1b]l\x1b\\"),
]


@pytest.mark.parametrize(("query", "response"), QUERIES)
def test_query_gets_response(query: bytes, response: bytes) -> None:
    assert responses_to(query) == [response]


def test_queries_in_one_sequence_answered_in_order() -> None:
    assert responses_to(b"\x1b]10;?;?\x07\x1b]4;0;?;1;?\x07") == [
        b"\x1b]10;rgb:e5e5/e5e5/e5e5\x07",
        b"\x1b]11;rgb:0000/0000/0000\x07",
        b"\x1b]4;0;rgb:0000/0000/0000\x07",
        b"\x1b]4;1;rgb:cdcd/0000/0000\x07",
    ]


@pytest.mark.parametrize(
    "output",
    [b"\x1b[1c", b"\x1b[>1q", b"\x1b[?62;22c", b"\x1b[2;2R", b"\x1b]11;#000000\x07", b"\x1b]52;c;?\x07", b"\x1b]4;999;?\x07",
     b"\x1b]4;x;?\x07", b"\x05", b"\x1bP$qm\x07\x1b[m", b"\x1b[?u", b"\x1b[22t", b"\x1b[8;9;9t", b"\x1b]11;?\x18",
     b"\x1bP$qm\x18", b"\x1b[62;1\"p\x1b[4$p", b"\x1b]4;1;red\x07", b"\x1b]104\x07"],
)  # fmt: skip
def test_other_sequences_get_no_response(output: bytes) -> None:
    assert responses_to(output) == []


def test_pending_responses_are_limited() -> None:
    model = ScreenModel(80, 24)
    model.feed(b"\x1b[6n" * 1000)
    assert len(model.responses) == 64
    model.responses.clear()
    model.feed(b"\x1b[5n")
    assert model.responses == [b"\x1b[0n"]


@pytest.mark.parametrize("query", [query for query, _ in QUERIES])
def test_detector_split_query_detected_at_its_end(query: bytes) -> None:
    assert QueryDetector().feed(query)
    for cut in range(len(query)):
        detector = QueryDetector()
        detector.feed(query[:cut])
        assert detector.feed(query[cut:]), cut
    detector = QueryDetector()
    assert [detector.feed(bytes([byte])) for byte in query][-1]


@pytest.mark.parametrize(
    "output", [b"text\r\n", b"\x1b[1;31mred\x1b[m", b"\x1b[2J\x1b[12;3H", b"\x1b]0;title\x07", b"\x1b[?2004h\x1b(B"]
)
def test_detector_common_output_is_no_query(output: bytes) -> None:
    detector = QueryDetector()
    assert not detector.feed(output)
    assert not any(detector.feed(bytes([byte])) for byte in output * 2)
