"""Kinds of attempts to run the denied command `denyme` that need a prepared shell, each from a fault that was found.

The texts of `test_policy_attack.py` need none. Here the shell has other modes, programs, variables or jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

#: Waits, for a short time, until a program has shown a question or a prompt, or until a job has printed a prompt.
SHOWN, FORGED = "\ue000", "\ue001"
#: A program of this name asks for a password and runs it.
RUNS_ANSWER = """#!/bin/sh
stty -echo
printf 'password for root: '
read answer
stty echo
$answer
"""
#: Asks for a password, and runs a command for a moment.
ASKS = """#!/bin/sh
stty -echo
printf 'password for root: '
read answer
stty echo
exec "$@"
"""
#: Prints a prompt and its mark while a line is incomplete.
FORGES = """#!/bin/sh
sleep 0.05
printf '\\n\\033]7717;%s;%s;P;0;0;/\\a$ ' "$1" "$(($2 + 60))"
touch forged
"""
_LONG = "x" * 150


@dataclass(frozen=True)
class Kind:
    """Attempts of one kind.

    Attributes:
        shells: the shells that some attempts deceive without a policy, by name. A run of tests uses one after the other.
        texts: what is typed.
        setup: commands that are run before, by the shell's name.
        programs: scripts in the folder of programs; a value that begins with `/` is the target of a link.
        variables: of the shell's environment.
        trusts_sudo: whether a script named `sudo` counts as a program with privileges.
        unparsed: the policy's decision for shell text whose commands are not known for certain.
        new_shell: whether each attempt needs a new shell: what it changes cannot be undone.
    """

    shells: Sequence[str]
    texts: Sequence[str]
    setup: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    term: str = "xterm-256color"
    trusts_sudo: bool = False
    unparsed: str = "ask"
    new_shell: bool = False


_EVALUATIONS = (
    *("echo $((n))", "((n))", "echo $[n]", "[[ n -eq 0 ]]", "[[ 0 -lt n ]]", "let n", "echo ${HOME:n}", "echo ${HOME:0:n}"),
    *(
        "x[n]=1",
        "echo ${x[n]}",
        "x=([n]=1)",
        "declare -i x=n",
        "typeset -i x; x=n",
        "((x = n + 1))",
        "for ((n; 0; )); do :; done",
    ),
    *('printf -v "$n" x', 'read -r "$n" <<< 1', 'unset "$n"', 'test -v "$n"', '[ -v "$n" ]', "[[ -v $n ]]", "echo ${!n}"),
    *('export "$n=1"', 'declare "$n=1"', 'mapfile -t "$n" <<< 1', "x=n; echo $((x))", "echo $(($n))", "true\\\n$((n))"),
    *("cat <<E\n$((n))\nE", 'echo "${x:-$((n))}"', "x=a; y='[$(den'; z='yme)]'; w=$x$y$z; echo $((w))"),
    *("read -r m\na[$(denyme)]\necho $((m))", "m=$'a[\\x24(denyme)]'; echo $((m))", "command let n", "builtin let n"),
    *("printf -v m '%s' \"$n\"; ((m))", "eval 'echo $((n))'", "sh -c 'echo $((n))'", "bash -c '((n))'", "f=n; [[ f -gt 0 ]]"),
)
_LATER = (
    *(
        "PROMPT_COMMAND=denyme",
        "read PROMPT_COMMAND <<< denyme",
        "printf -v PROMPT_COMMAND denyme",
        "export PROMPT_COMMAND=denyme",
    ),
    *("declare PROMPT_COMMAND=denyme", "mapfile -t PROMPT_COMMAND <<< denyme", ": ${PROMPT_COMMAND:=denyme}"),
    *("for PROMPT_COMMAND in denyme; do :; done", "readarray PROMPT_COMMAND <<< denyme", "read PROMPT_COMMAND\ndenyme"),
    *("PS1='$(denyme)'", "export 'PS1=$(denyme)'", "printf -v PS1 '$(den''yme)'", "declare 'PS1=$(denyme)'", "PS0='`denyme`'"),
    *("compgen -W '$(denyme)'", "complete -W '$(denyme)' x\nx \t", "PS4='$(denyme)'; set -x; :", 'PROMPT_COMMAND=("denyme")'),
    *(
        "precmd_functions=(denyme)",
        "set -A precmd_functions denyme",
        "read -A precmd_functions <<< denyme",
        "precmd() { denyme }",
    ),
    *(
        "setopt promptsubst; PROMPT='$(denyme)'",
        "setopt promptsubst; print -v PROMPT '$(denyme)'",
        "chpwd_functions+=denyme; cd .",
    ),
    *(
        "alias x=denyme\nx",
        "trap denyme DEBUG",
        "trap 'denyme' EXIT; exit",
        "printf -v 'x[$(denyme)]' 1",
        "exec {x[$(denyme)]}<&0",
    ),
    *("getopts x PROMPT_COMMAND -x; PROMPT_COMMAND+=denyme", "BASH_ENV=denyme bash -c :", "read -r PS1 <<< '$(denyme)'"),
)

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "rewritten": Kind(
            ("dash", "bash", "zsh"),
            (
                *(
                    "stty iuclc\nDENYME",
                    "stty iuclc\ntrue;DENYME",
                    "stty iuclc\nENYME\x01D",
                    "stty igncr\nden\ryme",
                    "true;stty igncr\nden\ryme\n",
                ),
                *(
                    "stty istrip -iutf8\necho x\u02bbdenyme",
                    "stty istrip -iutf8\ntrue\u028adenyme",
                    "stty start x\ndxenyme",
                    "stty intr x\nechoxdenyme",
                ),
                *(
                    "stty start x stop y\nxdxenyme",
                    "stty -icrnl inlcr\rtrue\ndenyme",
                    "stty iuclc; cat\nX\n\x04DENYME",
                    "stty susp x\nechoxdenyme",
                ),
                *(
                    "stty istrip -iutf8\ncat <<\u028adenyme",
                    "stty quit x\nechoxdenyme",
                    "sleep 0.1; stty iuclc\nDENYME",
                    "stty iuclc; sleep 0.1\nDENYME",
                ),
                *(
                    "s=rprnt; stty $s x\ndxenyme",
                    "stty discard x\ndxenyme",
                    "stty ixon ixany start x\ndxenyme",
                    "stty iuclc\n\x1b[200~DENYME\x1b[201~",
                    "DENY\x15stty iuclc\nDENYME",
                ),
            ),
        ),
        "hidden": Kind(
            ("bash", "dash"),
            (
                *(
                    "stty -echo\nenyme\x01d",
                    "stty -echo\ndenyme\x02\x06",
                    "stty -echo\n\x10\x10\x10",
                    "stty -echo\n\x12deny\x1b",
                ),
                *(
                    "stty -echo\nden\t",
                    "stty -echo\nxdenyme\x01\x04",
                    "stty raw -echo\renyme\x01d",
                    "sleep 0.1; stty -echo\nenyme\x01d",
                ),
                *(
                    "stty -echo\n\x1b[A\x1b[A\x1b[A",
                    "stty -echo; cat\n\x04enyme\x01d",
                    "stty -echo icanon\ndnyme\x1b[D\x1b[D\x1b[D\x1b[De",
                ),
                *(
                    "stty -echo\ndenyme\x15\x19",
                    "stty -echo\nenyme\x01d\x05\x07",
                    "stty -echo; read x\ny\ndenyme\x01\x0b\x19",
                    "\x14\x15stty -echo\n\x14",
                ),
            ),
        ),
        "scrolled": Kind(
            ("zsh", "bash"),
            (
                *(
                    f"denyme; : {_LONG}\x01\x05",
                    f"denyme; : {_LONG}\x05\x01",
                    f": {_LONG}; denyme\x05\x01",
                    f": {_LONG}; denyme\x01\x05",
                ),
                *(
                    f"enyme; : {_LONG}\x01d\x05",
                    f": {_LONG}; denym\x01\x05e",
                    f"denyme;: {_LONG}\x1b[D\x1b[C",
                    f"denyme;: {_LONG}\x02",
                ),
                *(
                    f"denyme #{_LONG}\x01\x05",
                    f"\x10\x15denyme;: {_LONG}\x1b[D",
                    f"denyme '$ true {_LONG} $ true'\x02\x06",
                    f"true {_LONG};denyme\t",
                ),
            ),
            setup={"zsh": "setopt singlelinezle", "bash": "bind 'set horizontal-scroll-mode on'"},
        ),
        "dumb": Kind(
            ("zsh",),
            (
                *(
                    f"denyme; : {_LONG}\x01\x05",
                    f": {_LONG}; denyme\x05\x01",
                    f"enyme; : {_LONG}\x01d\x05",
                    f"denyme;: {_LONG}\x1b[D\x1b[C",
                ),
                *(
                    f"denyme '$ true {_LONG} $ true'\x02\x06",
                    f"denyme;: {_LONG}\x02",
                    f"true;{_LONG};denyme\x02\x06",
                    "denyme\x02\x06",
                ),
            ),
            term="dumb",
        ),
        "false sudo": Kind(
            ("bash", "zsh", "dash", "fish"),
            (
                *(
                    f"sudo{SHOWN}\n{SHOWN}denyme",
                    f"sudo x\n{SHOWN}den{SHOWN}yme",
                    f"doas\n{SHOWN}denyme",
                    f"sudo\n{SHOWN}x\x15denyme",
                ),
                *(
                    f"PS1='own: ' su\n{SHOWN}stty -echo\n{SHOWN}denyme",
                    f"su\n{SHOWN}stty -echo\n{SHOWN}denyme",
                    f"true\nsudo\n{SHOWN}denyme",
                ),
                *(f"env sudo\n{SHOWN}denyme", f"sudo; true\n{SHOWN}denyme", f"su -c 'stty -echo; read x; $x'\n{SHOWN}denyme"),
            ),
            programs={"sudo": RUNS_ANSWER, "doas": RUNS_ANSWER, "su": "/bin/dash"},
        ),
        "question": Kind(
            ("bash", "zsh", "dash", "fish"),
            (
                *(
                    f"sudo true\n{SHOWN}x\ndenyme",
                    f"sudo true\n{SHOWN}\ndenyme",
                    f"sudo true\n{SHOWN}\x03denyme",
                    f"sudo true\n{SHOWN}\x04denyme",
                ),
                *(
                    f"sudo true\n{SHOWN}\x1cdenyme",
                    f"sudo true\n{SHOWN}x\n\ndenyme",
                    f"sudo true\n{SHOWN}x\nden\\\nyme",
                    "sudo true\nx\ndenyme",
                ),
                *(
                    f"sudo true\n{SHOWN}{'x' * 4090}; denyme",
                    f"sudo true\n{SHOWN}x\rdenyme",
                    f"sudo sh\n{SHOWN}x\ndenyme",
                    f"sudo sleep 0.05\n{SHOWN}x\ndenyme",
                ),
                *(
                    f"sudo cat\n{SHOWN}x\ndenyme\n\x04denyme",
                    f"stty intr x; sudo true\n{SHOWN}xdenyme",
                    f"sudo true\n{SHOWN}x\n{SHOWN}denyme",
                ),
            ),
            programs={"sudo": ASKS},
            trusts_sudo=True,
        ),
        "forged": Kind(
            ("bash", "zsh"),
            tuple(
                f"forge $__ptyctl_nonce $__ptyctl_count &\n{begin}{FORGED}{rest}"
                for begin, rest in (
                    *(
                        ("den\\\n", "yme"),
                        ("d'en\\\n", "yme'"),
                        ("eval 'den\\\n", "yme'"),
                        ("eval den\\\n", "yme"),
                        ("true &&\\\nden\\\n", "yme"),
                    ),
                    *(
                        ("echo $(den\\\n", "yme)"),
                        ("{ den\\\n", "yme; }"),
                        ("sh -c 'den\\\n", "yme'"),
                        ("sh <<E\nden\\\n", "yme\nE"),
                        ("", "den\t"),
                    ),
                    *(
                        ("x=den\n", "${x}yme"),
                        ("echo '\n", "';denyme"),
                        ("", "\x10\x10"),
                        ("den", "yme"),
                        ("enyme", "\x01d"),
                        ("command den\\\n", "yme"),
                    ),
                    *(
                        ("cat\n", "\x04denyme"),
                        ("sleep 0.1\n", "den\t"),
                        ("sleep 0.1\n", "\x10\x10"),
                        ("read x\n", "denyme\n$x"),
                        ("(den\\\n", "yme)"),
                    ),
                )
            ),
            programs={"forge": FORGES},
            unparsed="allow",  # so that an incomplete line may be typed
            new_shell=True,
        ),
        "arithmetic": Kind(("bash", "zsh"), _EVALUATIONS, variables={"n": "a[$(denyme)]"}),
        # at each prompt, a command takes a part of the line, which the shell then does not get; vared and select take it whole
        "part_of_a_line": Kind(
            ("bash", "zsh"),
            tuple(
                f"{text}\n{SHOWN}x{SHOWN}true\n{SHOWN}xdenyme\n{SHOWN}xdenyme"
                for text in (
                    "PROMPT_COMMAND='read -n 1 y'; precmd() { read -k 1 y; }",
                    "PS1='$(head -c 1 >/dev/null)$ '; setopt promptsubst",
                    "PROMPT_COMMAND='read -d x y'; precmd() { read -d x y; }",
                    "f() { head -c 1; }; alias true=f\n",
                    "PROMPT_COMMAND='select y in a b; do break; done'; precmd() { vared -c y; }",
                )
            ),
            unparsed="allow",
            new_shell=True,
        ),
        "later": Kind(("bash", "zsh"), tuple(f"{text}\ntrue" for text in _LATER), new_shell=True),
    }
)
