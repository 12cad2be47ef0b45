"""Arithmetic, subscripts and names of variables in a shell text.

Arithmetic and subscripts evaluate the value of a variable, which may hold a substitution: `a[$(...)]`.
"""

from __future__ import annotations

import re
from itertools import pairwise

from tree_sitter import Node

from .shell_syntax import source
from .shell_words import Expansion, Word

#: Expansions whose value is a number.
_NUMBER = re.compile(r"\$[#?$!]|\$\{#\w+(?:\[[@*]\])?\}")
#: A name, or an expansion; `0x1f` and `16#ff` are numbers.
_NAME = re.compile(r"(?<!\w)(?<!\d#)[^\W\d]|[$`\\]")
_SUBSCRIPT = re.compile(r"\w*\[(.*)\]", re.DOTALL)
_ELEMENT = re.compile(r"\[([^\]]*)\]\+?=")
#: An arithmetic expansion in text that the parser does not read as one.
_EXPANSION = re.compile(r"\$(?:\(\(((?:(?!\)\)).)*)|\[([^\]]*))", re.DOTALL)
#: bash expands the value of the variable as a prompt, with its substitutions (`${x@P}`), or as a name, with its subscript
#: (`${!x}`, but not `${!x[@]}` and `${!x*}`, which list keys and names).
_EVALUATED_VALUE = re.compile(r"@P\}\Z|\A\$\{!\w+(?!\w|\[[@*]\]\}|[@*]\})")
#: Variables that are integers in bash or zsh: an assignment evaluates the value.
_INTEGERS = frozenset(
    "RANDOM SRANDOM SECONDS LINENO HISTCMD OPTIND MAILCHECK BASHPID EPOCHSECONDS HISTSIZE SAVEHIST COLUMNS LINES TMOUT SHLVL"  # noqa: SIM905
    " KEYTIMEOUT UID EUID GID EGID PPID LISTMAX FUNCNEST DIRSTACKSIZE LOGCHECK PERIOD BAUD ERRNO TRY_BLOCK_ERROR"
    " TRY_BLOCK_INTERRUPT ARGC".split()
)
#: Builtins of zsh whose arguments are arithmetic.
_COUNTED = frozenset(("shift", "return", "exit", "break", "continue", "repeat", "bye", "logout"))
#: A conversion of `printf` to a number, or a width from an argument, which zsh evaluates.
_CONVERSION = re.compile(r"%[-+ #0'\d.$]*(?:[*]|[hlLqjzt]*[diouxXeEfFgGaA])")
_COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
#: Builtins that evaluate subscripts in the names of variables.
_NAMING = frozenset(("declare", "typeset", "local", "export", "readonly", "read", "unset", "mapfile", "readarray", "getopts"))
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_DECLARING = frozenset(("declare", "typeset", "local", "export", "readonly"))
#: Options with an argument that is no name of a variable.
_READ_ARGUMENT, _MAPFILE_ARGUMENT = re.compile(r"-[A-Za-z]*[pdtnNui]\Z"), re.compile(r"-[A-Za-z]*[dnOscCu]\Z")


def names_variable(text: str) -> bool:
    """Return whether an arithmetic expression has more than numbers."""
    return _NAME.search(_NUMBER.sub("0 ", text)) is not None


def is_evaluated(node: Node) -> bool:
    """Return whether a node evaluates the value of a variable as arithmetic."""
    match node.type:
        case "arithmetic_expansion":
            return names_variable(source(node).removeprefix("$"))
        case "compound_statement" if node.children and node.children[0].type == "((":
            return names_variable(source(node))
        case "c_style_for_statement":
            body = node.child_by_field_name("body")
            parts = [child for child in node.children[1:] if body is None or child.end_byte <= body.start_byte]
            return names_variable(" ".join(source(child) for child in parts if child.type != "do"))
        case "simple_expansion":
            return _has_zsh_subscript(node)
        case "command":
            return _counts(node)
        case "subscript":
            return _is_index(source(node).partition("[")[2].rpartition("]")[0])
        case "expansion":
            kinds = [child.type for child in node.children]
            begin = kinds.index(":") + 1 if ":" in kinds else len(kinds)
            is_offset = names_variable(" ".join(source(child) for child in node.children[begin:-1]))
            return is_offset or _EVALUATED_VALUE.search(source(node)) is not None or _has_expansion(source(node))
        case "array":
            return any((found := _ELEMENT.match(source(child))) and _is_index(found[1]) for child in node.named_children)
        case "binary_expression" | "unary_expression":
            return _is_test(node)
        case "heredoc_body":
            return _has_expansion(source(node))
    return False


def _has_expansion(text: str) -> bool:
    """Return whether a text, which the parser may not read so, has an arithmetic expansion of more than numbers."""
    return any(names_variable(found[1] or found[2] or "") for found in _EXPANSION.finditer(text))


def _has_zsh_subscript(node: Node) -> bool:
    """Return whether zsh reads text after a variable as a subscript with more than numbers: `$x[n]`."""
    follows = node.next_sibling
    if follows is None or follows.start_byte != node.end_byte or not (text := source(follows)).startswith("["):
        return False
    while "]" not in text and (follows := follows.next_sibling) is not None:
        text += source(follows)
    return _is_index(text[1:].partition("]")[0].replace(",", " "))


def _counts(node: Node) -> bool:
    """Return whether a builtin of zsh evaluates an argument that is no number."""
    name = node.child_by_field_name("name")
    if name is None or source(name) not in _COUNTED:
        return False
    arguments = [source(each) for each in node.children_by_field_name("argument")]
    return any(map(names_variable, arguments[:1] if source(name) == "repeat" else arguments))


def _is_test(node: Node) -> bool:
    """Return whether a condition compares numbers that are not known, or tests an unknown variable."""
    operator = node.child_by_field_name("operator")
    if operator is None or operator.type != "test_operator":
        return False
    kind, operands = source(operator), [source(child) for child in node.children if child.start_byte != operator.start_byte]
    if kind in _COMPARISONS or kind == "-t":
        return any(map(names_variable, operands))
    return kind == "-v" and any("$" in text or "`" in text or _has_index(text.strip("'\"")) for text in operands)


def _is_index(text: str) -> bool:
    return text not in ("@", "*") and names_variable(text)


def _has_index(word: str) -> bool:
    found = _SUBSCRIPT.match(word)
    return found is not None and _is_index(found[1])


def evaluates_arguments(words: tuple[Word, ...]) -> bool:
    """Return whether a builtin evaluates one of its arguments as arithmetic or as a subscript."""
    name = words[0]
    if name == "let":
        return any(word is None or isinstance(word, Expansion) or names_variable(word) for word in words[1:])
    if name in ("test", "["):
        numbers = [other for pair in pairwise(words[1:]) for other, each in (pair, pair[::-1]) if each in _COMPARISONS]
        numbers += [word for option, word in pairwise(words[1:]) if option == "-t" and word != "]"]
        tested = [word for option, word in pairwise(words[1:]) if option == "-v"]
        is_unknown = any(word is None or isinstance(word, Expansion) or names_variable(word) for word in numbers)
        return is_unknown or any(map(_is_unknown_name, tested))
    if name in ("integer", "float"):
        return True
    if name in ("printf", "print") and _prints_value(words):
        return True
    if _sets_integer(words):
        return True
    if name in _DECLARING and any(word is not None and re.match(r"-[A-Za-z]*[iEF]", word) for word in words[1:]):
        return True
    if name in _DECLARING - {"export"} and any(word is not None and re.match(r"-[A-Za-z]*n", word) for word in words[1:]):
        return True  # the name of another variable
    return any(map(_is_unknown_name, named_variables(words)))


def evaluates_value(name: str, value: str | None) -> bool:
    """Return whether an assignment to a variable evaluates its value; None is an unknown value."""
    return name in _INTEGERS and (value is None or names_variable(value))


def _sets_integer(words: tuple[Word, ...]) -> bool:
    """Return whether a builtin gives an integer variable a value that may be no number."""
    if words[0] in _DECLARING:
        values = [word.partition("=")[::2] for word in words[1:] if word is not None and "=" in word]
        return any(evaluates_value(name.removesuffix("+"), value) for name, value in values)
    return any(evaluates_value(name, None) for name in assigned_variables(words))


def _prints_value(words: tuple[Word, ...]) -> bool:
    """Return whether zsh evaluates an argument as a number, or expands it as a prompt (`print -P`)."""
    rest = list(words[1:])
    if words[0] == "print":
        options = [word for word in rest if word is not None and re.match(r"-\w", word)]
        if any("P" in option for option in options):
            return any(word is None or isinstance(word, Expansion) or "$" in word or "`" in word for word in rest)
        if not any("f" in option for option in options):
            return False
        rest = rest[next(place for place, word in enumerate(rest) if word in options and "f" in str(word)) + 1 :]
    elif rest[:1] == ["-v"]:
        del rest[:2]
    if rest[:1] == ["--"]:
        del rest[0]
    if not rest[1:]:
        return False
    form, *values = rest
    is_number = form is None or isinstance(form, Expansion) or _CONVERSION.search(form.replace("%%", "")) is not None
    return is_number and any(word is None or isinstance(word, Expansion) or names_variable(word) for word in values)


def named_variables(words: tuple[Word, ...]) -> list[Word]:
    """Return the arguments of a builtin that are names of variables, with subscripts and without values."""
    name = words[0]
    if name in ("printf", "print"):
        attached = [word[2:] for word in words[1:2] if word is not None and word.startswith("-v") and len(word) > 2]
        return [*attached, *(word for option, word in pairwise(words[1:3]) if option == "-v")]
    if name not in _NAMING:
        return []
    is_reader = name not in _DECLARING and name != "unset"
    argument = _READ_ARGUMENT if name == "read" else _MAPFILE_ARGUMENT
    named = [word for before, word in pairwise(words) if not (is_reader and before and argument.match(before))]
    arrays = [word.partition("a")[2] for word in named if is_reader and word and re.match(r"-[A-Za-z]*a\w", word)]
    return [*arrays, *(_without_value(word) for word in named if word is None or not word.startswith("-"))]


def assigned_variables(words: tuple[Word, ...]) -> list[str]:
    """Return the known names of variables that a command gives a value."""
    name = words[0]
    if name in _DECLARING or name in ("env", "sudo", "doas"):
        named: list[Word] = [word for word in words[1:] if word is not None and _ASSIGNMENT.match(word)]
    elif name == "set":
        named = [word for option, word in pairwise(words) if option in ("-A", "+A")]
    else:
        named = named_variables(words) if name != "unset" else []
    return [re.split(r"[\[=+]", word, maxsplit=1)[0] for word in named if word is not None]


def _without_value(word: Word) -> Word:
    """Return the name of an assignment in an argument; None if the name is not known."""
    if word is None:
        return None
    name = word.partition("=")[0]
    return None if isinstance(word, Expansion) and "*" in name else name


def _is_unknown_name(word: Word) -> bool:
    return word is None or isinstance(word, Expansion) or _has_index(word)
