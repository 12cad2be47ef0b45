"""A shell text is read in another way only where shells may read it so: each variant is parsed."""

from __future__ import annotations

import pytest

from ptyctl.policy.shell_variants import variants
from tests.cost import assert_linear


@pytest.mark.parametrize(
    "text",
    [
        "docker run \\\n  -e 'A=b c' \\\n  image",
        "grep 'a\\d' x \\\n  | wc -l  # count\nls \\\n  -l",
        'echo "it\'s" \\\n  a#b ${x#y}',
        "cd /tmp && \\\n\\\n  x=$(ls 'a') # b",
        '[ "$a" != \'b\' ] \\\n  && echo "${a} \\"c\\" \\\n d"',
    ],
)
def test_continued_text_with_plain_quotes_has_one_variant(text: str) -> None:
    assert list(variants(text)) == [text.replace("\\\n", "")]


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a\\\nb'",  # in quotes
        "echo 'a' \\\\\nls",  # an escaped backslash
        "echo a # b \\\nls",  # in a comment
        "cat <<'E'\na\\\nE\n",  # in a here-document
        "echo a # it's \\\nls",  # a shell without comments takes the quote for one
        "echo $'a\\'' \\\nls '\\\n'",  # only some shells know these quotes
        "echo 'a\\' \\\nls '\\\n'",  # fish escapes the quote
        "echo \"$(echo '\\\n')\" 'a'",  # quotes in quotes
        "echo `echo 'a' \\\nls`",  # other escapes
        "echo $((1 + 'a \\\n 2))",  # quotes of arithmetic are none in some shells
        "echo 'a' \\\n# b\nls",  # fish skips the comment, and continues
        "echo 'a' !x \\\nls",  # the history may have quotes
        "echo 'a' \\\n",  # the rest is missing
    ],
)
def test_text_whose_backslash_may_continue_nothing_has_second_variant(text: str) -> None:
    assert list(variants(text))[:2] == [text.replace("\\\n", ""), text]


@pytest.mark.parametrize("unit", ["'a' ", '"a" ', "\\\n", "# a\n", "$x", "${x}", "!", "a'", 'a"', "#\\\n", '"a\\\n', "a"])
@pytest.mark.parametrize("end", ["", "'", '"', "`"])
def test_variants_of_continued_text_take_linear_time(unit: str, end: str) -> None:
    assert_linear(lambda data: list(variants(data.decode() + end)), unit.encode(), b"' '\\\n", largest=60_000)
