"""Runners: commands that run the command in their arguments, such as sudo, xargs and bash -c, and programs that run commands of
their input: editors, pagers, debuggers and clients of databases.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from .shell_words import Expansion, Glob, Word, could_be


class Inner(NamedTuple):
    """What a command runs.

    Attributes:
        words: a command in words; empty if there is none.
        script: text that a shell parses; None if there is none.
        unknown: why what it runs cannot be known; "" if it is known.
        also: further commands.
        follows: whether the command runs in place of the outer one, with the same input.
    """

    words: tuple[Word, ...] = ()
    script: str | None = None
    unknown: str = ""
    follows: bool = True
    also: tuple[tuple[Word, ...], ...] = ()


NOTHING = Inner()
#: Why what a shell runs is not known.
UNKNOWN_TEXT = "the text that a shell is to run is not known"
SHELLS = frozenset(
    "sh bash dash ash zsh ksh ksh93 mksh lksh oksh loksh posh yash fish rbash rzsh rksh csh tcsh bsd-csh sash".split()  # noqa: SIM905
) | frozenset("zsh5 zsh-static bash-static ksh93u ksh2020 mksh-static static-sh".split())  # noqa: SIM905
#: Programs that run commands for a shell in their input.
PROGRAMS_WITH_ESCAPES = frozenset(
    "vim vi nvim view ex ed sqlite3 psql mysql mariadb gdb ftp lftp sftp tnftp telnet less more gnuplot".split()  # noqa: SIM905
)
#: Interpreters, with the options after which they take a program's text, or that make them run a command.
_PROGRAM_OPTIONS = {
    "python": "-c",
    "python2": "-c",
    "python3": "-c",
    "pypy3": "-c",
    "perl": "-e -E -M",
    "ruby": "-e",
    "node": "-e -p --eval --print",
    "nodejs": "-e -p",
    "php": "-r",
    "lua": "-e",
    "tclsh": "",
    "expect": "-c",
    "osascript": "-e",
    "gdb": "-ex -iex -ix -x --eval-command* --init-eval-command* --command*",
    "vim": "-c +* --cmd",
    "vi": "-c +*",
    "ex": "-c +*",
    "nvim": "-c +*",
    "emacs": "--eval -f",
    "tar": "--checkpoint-action* --to-command* -I --use-compress-program* -F",
    "rsync": "-e --rsh* --rsync-path*",
    "git": "-c --upload-pack* --exec* --config* --extcmd* --*-filter* --open-files-in-pager* ext::*",
    "man": "-P -H --pager* --html*",
    "scp": "-S -o",
    "sftp": "-S -o -b",
    "zip": "-TT --unzip-command*",
    "split": "--filter*",
    "sort": "--compress-program*",
    "tcpdump": "-z",
    "sqlite3": "-cmd .sh* .sy*",
    "mysql": "-e --execute*",
    "psql": "-c --command*",
    "crontab": "-",
    "bind": "-x",
    "complete": "-C -F",
    "compgen": "-C -F",
    "mapfile": "-C",
    "readarray": "-C",
    "enable": "-f",
    "hash": "-p *=*",
    "zstyle": "-e",
    "zmv": "-p -P",
    "emulate": "-c",
    "openssl": "-engine",
    "capsh": "--",
    "less": "+!* +|*",
    "more": "+!*",
    "pwsh": "-c* -e* -C* -E*",
    "tmux": "*",
    "screen": "-X",
    "xterm": "-e",
    "make": "SHELL=* --eval*",
}
#: Options, by runner, that take the next word as their argument, or the next two if they are named twice. Everything else that
#: starts with a dash takes none.
_OPTIONS_WITH_ARGUMENT = {
    "sudo": "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --close-from --role --type --command-timeout"
    " --other-user --chroot --chdir",
    "doas": "-u -C",
    "env": "-u -C -a --unset --chdir --argv0",
    "pkexec": "-u --user",
    "run0": "-p -u -g -D -M --property --user --group --nice --chdir --setenv --background --machine --unit --slice"
    " --description",
    "cgexec": "-g",
    "softlimit": "-a -c -d -f -l -m -o -p -r -s -t",
    "tini": "-p -e",
    "rlwrap": "-b -C -D -e -f -g -H -l -m -M -O -p -P -q -s -S -t -w -z -v",
    "dumb-init": "-r --rewrite",
    "entr": "",
    "su-exec": "",
    "gosu": "",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p -P -u --class --classdata",
    "prlimit": "-p -o --pid --output",
    "numactl": "-i -N -C -m -p -P -w --interleave --cpunodebind --physcpubind --membind --preferred --preferred-many"
    " --weighted-interleave",
    "dbus-run-session": "--config-file --dbus-daemon",
    "dbus-launch": "--config-file --autolaunch",
    "perf": "-e -o -p -t -a -c -F -C -D -G -I -r -x -m -j -u -s --event --output --filter --freq --count --cpu --delay --repeat"
    " --field-separator --cgroup --interval-print --interval-count --timeout --pre --post --call-graph --mmap-pages"
    " --metrics --duration --pid --tid --uid --clockid --log-fd",
    "xvfb-run": "-e -f -n -p -s -w --error-file --auth-file --server-num --xauth-protocol --server-args --wait",
    "chpst": "-u -U -b -e -/ -n -l -L -m -d -o -p -f -c -t",
    "bwrap": "--unsetenv --chdir --dir --tmpfs --proc --dev --mqueue --uid --gid --hostname --lock-file --sync-fd --seccomp"
    " --add-seccomp-fd --argv0 --remount-ro --perms --size --cap-add --cap-drop --exec-label --file-label --block-fd"
    " --userns-block-fd --info-fd --json-status-fd --userns --userns2 --pidns --overlay-src --tmp-overlay --ro-overlay"
    + 2
    * " --bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try --bind-fd --ro-bind-fd --symlink --setenv"
    " --file --bind-data --ro-bind-data --chmod" + 3 * " --overlay",
    "unshare": "-S -G -R -w --setuid --setgid --root --wd --propagation --setgroups --map-users --map-groups --map-user"
    " --map-group --monotonic --boottime",
    "systemd-inhibit": "--what --who --why --mode",
    "openvt": "-c --console",
    "machinectl": "-M -E -p --machine --setenv --uid --property --host -H",
    "screen": "-S -c -e -h -p -s -t -T -Logfile",
    "ld.so": "--library-path --inhibit-rpath --preload --audit --argv0 --glibc-hwcaps-prepend --glibc-hwcaps-mask",
    "timeout": "-k -s --kill-after --signal",
    "stdbuf": "-i -o -e",
    "xargs": "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --replace",
    "exec": "-a",
    "time": "-f -o",
    "watch": "-n --interval",
    "flock": "-w -E --timeout",
    "strace": "-e -o -p -s -u -E -a -P -b -I -O -S -X --trace --output --attach --string-limit --user --env --columns"
    " --trace-path --summary-sort-by --interruptible",
    "ltrace": "-e -o -p -s -u -a -A -D -F -l -n -w -x -X --output --library --indent",
    "taskset": "",
    "chrt": "-T -P -D --sched-runtime --sched-period --sched-deadline",
    "chroot": "",
    "nsenter": "-t -S -G -W --target --setuid --setgid --wdns",
    "systemd-run": "-p -u -M -H -E --unit --property --machine --host --slice --on-active --on-boot --on-startup"
    " --on-unit-active --on-unit-inactive --on-calendar --description --working-directory --uid --gid --nice --setenv"
    " --service-type --timer-property --path-property --socket-property",
    "runuser": "-u -g",
    "setpriv": "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps --bounding-set --securebits"
    " --pdeathsig --selinux-label --apparmor-profile",
    "faketime": "",
    "sshpass": "-p -f -d -P",
    "ssh": "-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w -B",
}
#: The number of words before the command, after the options.
_WORDS_BEFORE_COMMAND = dict.fromkeys(
    "timeout flock taskset chrt chroot repeat ssh faketime machinectl envdir setuidgid envuidgid setlock gosu su-exec".split(),  # noqa: SIM905
    1,
)
#: Subcommands that run a command; their options follow.
_RUNNING_SUBCOMMANDS = {"perf": ("record", "stat", "trace", "mem", "kvm", "sched", "lock", "c2c"), "machinectl": ("shell",)}
#: Runners whose words before the command may be left out.
_OPTIONAL_WORD = frozenset(("chrt", "setarch"))
#: The dynamic linker, in any directory.
_LINKER = re.compile(r"(?:.*/)?ld(?:-(?:linux|musl)[\w.-]*|-[\d.]+|64)?\.so(?:\.\d+)*\Z")
#: Settings of apt with a program that it runs, and those of git.
_APT_PROGRAM = re.compile(r"invoke|hook|pre-install-pkgs|bin::|detect", re.IGNORECASE)
_GIT_PROGRAM = re.compile(
    r"core\.(?:pager|editor|sshcommand|fsmonitor|hookspath|askpass|gitproxy)|pager\.|sequence\.editor|diff\.external"
    r"|credential\..*helper|.*\.(?:textconv|command|cmd|clean|smudge|process|driver|program|helper|path)\Z|include",
    re.IGNORECASE,
)
#: Words in front of a command that take no options; a keyword is one in a line that is no complete command.
_WITHOUT_OPTIONS = frozenset(
    "noglob nocorrect - and or not coproc builtin busybox toybox repeat { ! begin if elif then else while until do".split()  # noqa: SIM905
)
#: Runners none of whose options takes an argument.
_ORDINARY = frozenset(
    "nohup setsid command envdir setuidgid envuidgid setlock firejail valgrind proot fakeroot catchsegv".split()  # noqa: SIM905
) | frozenset("unbuffer chronic eatmydata setarch linux32 linux64 uname26".split())  # noqa: SIM905
#: Names of `setarch`, after which the options may follow.
_ARCHITECTURES = frozenset(
    "i386 i486 i586 i686 athlon x86_64 ppc ppc64 ppc64le s390 s390x aarch64 armv7l riscv64".split()  # noqa: SIM905
)
#: Runners whose options are not known well enough to find the command after them.
_OPAQUE = frozenset(
    "parallel docker podman kubectl nerdctl lxc virsh at batch sg ansible socat pdsh sched zargs zpty dtach abduco"  # noqa: SIM905
    " start-stop-daemon".split()
)
_OPAQUE_WITHOUT = {
    **dict.fromkeys(("docker", "podman", "kubectl", "nerdctl", "lxc"), "exec"),
    "virsh": "*exec*",
    "start-stop-daemon": "-*",
}
#: Runners that start a shell if their arguments name no command, and options that some of them need for that: letters, and
#: words.
_SHELL_STARTERS = frozenset(
    "sudo doas su runuser ssh chroot nsenter unshare newgrp script pkexec run0 fakeroot proot firejail systemd-run".split()  # noqa: SIM905
)
_SHELL_OPTIONS = {"sudo": ("si", "--shell", "--login"), "doas": ("s",), "systemd-run": ("S", "--shell")}
_WITHOUT_SHELL = frozenset("-N -O -Q -W -G -V -f".split())  # noqa: SIM905
#: The text of `-c` in the same word, after options of `su` or `script` without an argument.
_ATTACHED_COMMAND = re.compile(r"-[aefqrlmpP]*c(.+)", re.DOTALL)
#: The option of a completion with a list of words, and its attached text.
_WORD_LIST = re.compile(r"-[a-z]*W(.*)", re.DOTALL)
#: What a key runs or types in bash, after its name.
_KEY_TEXT = re.compile(r"""\s*"(?:\\.|[^"\\])*"\s*:?\s*["']?(.*?)["']?\s*\Z""", re.DOTALL)
_TYPED_ENTER = re.compile(r"\\C-[mj]|\\[rn]|\^[MJ]", re.IGNORECASE)
#: Maximum number of placeholders of `xargs -I` that are examined; only the last one is in effect.
_MAX_PLACES = 8
#: Most `!` in a line that are examined, and characters that vim reads after one as a movement: `!Gcmd`, `!ipcmd`.
_MAX_EXCLAMATIONS, _MAX_MOVEMENT = 4, 3
#: `shell` of gdb, `.shell` and `.system` of sqlite3, `system` of mysql, `:terminal` of vim, and their abbreviations.
_ESCAPE_WORD = re.compile(r"[:\s]*(?:\.?s(?:h|he|hel|hell)|\.?sy(?:stem|ste|st|s)?|te(?:r|rm|rmi|rmin|rmina|rminal)?)\s+(.*)")
#: A line of less that is sent to a command begins with `|` and a mark; gdb, sqlite3 (`.output`) and psql (`\o`) send output to
#: the command after the last `|`.
_ESCAPE_PIPE = re.compile(r"\s*(?:\||pipe\s|[.\\][a-z]+\s[^|]*\|)(.*)")


def inner_command(words: tuple[Word, ...]) -> Inner:
    """Return what a command runs; `words[0]` is its name without the directory."""
    name = words[0]
    if name is None:
        return NOTHING
    if name in SHELLS:
        return _of_shell(words)
    if name == "eval" or (name in ("source", ".") and len(words) == 1):  # fish: the words may be in parentheses, or the input
        return _script(words[1:] or (None,))
    if name in ("alias", "trap", "abbr"):
        return _of_definition(words)
    if name in ("bind", "bindkey"):
        return _of_key(words)
    if _LINKER.match(name):
        return _of_runner("ld.so", words)
    if name in ("complete", "compgen"):
        return _of_completion(words)
    if name in ("apt", "apt-get", "apt-cache", "aptitude"):
        return _of_apt(words)
    if name == "git" and (command := _after_git_runner(words)):
        return Inner(command, follows=False)
    if name == "ip" and (command := _after_ip_exec(words)):
        return Inner(command)
    if name == "git" and "config" in words:
        return _of_git_config(words)
    if name == "gdb" and "--args" in words:
        return _of_interpreter("gdb", words)._replace(words=words[words.index("--args") + 1 :])
    if name == "screen" and any(could_be(word, "-X") for word in words[1:]):
        return _of_interpreter("screen", words)
    if name == "screen" and _names_start_file(words):
        return Inner(unknown="a start-up file of screen may run a command")
    if name in ("source", ".") and any(word is None or isinstance(word, Glob) for word in words[1:2]):
        return Inner(unknown="the file that a shell reads is not known")
    if name in ("su", "runuser", "script"):
        return _of_script_option(str(name), words)
    if name == "find":
        return _of_find(words)
    if name in _OPAQUE:
        needed = _OPAQUE_WITHOUT.get(name, "*")
        runs = any(could_be(word, needed) for word in words[1:])
        return Inner(unknown=f"{name} runs another command") if runs else NOTHING
    if any(name in names for names in (_WITHOUT_OPTIONS, _ORDINARY, _ARCHITECTURES, _OPTIONS_WITH_ARGUMENT)):
        return _of_runner(str(name), words)
    return _of_interpreter(str(name), words)


def starts_shell(words: tuple[Word, ...]) -> bool:
    """Return whether a command runs a shell because its arguments name no command; the shell runs its input."""
    name = words[0] if words else None
    if name not in _SHELL_STARTERS:
        return False
    options = [word for word in words[1:] if word is not None and word.startswith("-")]
    if (required := _SHELL_OPTIONS.get(name)) is not None:
        letters = [option for option in options if option[:2] != "--"]
        if not (any(letter in option for option in letters for letter in required[0]) or set(required[1:]) & set(options)):
            return False
    if name == "ssh" and any(option in _WITHOUT_SHELL for option in options):
        return False
    if name == "script" and any(word is not None and not word.startswith("-") for word in words[2:]):
        return _of_script_option(name, words) == NOTHING
    return inner_command(words) == Inner()


def shell_escapes(text: str) -> Iterator[str]:
    """Yield the texts that a program may pass to a shell, from one or several lines of its input."""
    for line in text.split("\n"):
        begin = -1
        for _ in range(_MAX_EXCLAMATIONS):
            if (begin := line.find("!", begin + 1)) < 0:
                break
            command = line[begin:].lstrip("!")
            yield from (command[size:] for size in range(_MAX_MOVEMENT + 1) if size < len(command))
        if escape := _ESCAPE_WORD.match(line):
            yield escape[1]
        if pipe := _ESCAPE_PIPE.match(line):
            yield from (pipe[1][1:], pipe[1].rpartition("|")[2].strip("'\""))


def _of_runner(name: str, words: tuple[Word, ...]) -> Inner:
    """The command follows the options of the program, and words such as a host or a file."""
    rest = list(words[1:])
    if name == "env" and (split := _split_text(rest)):
        return _script(split)._replace(unknown="env -S splits text into a command")
    try:
        _skip_to_command(name, rest)
    except ValueError as error:
        is_program = words[-1] is None or isinstance(words[-1], Expansion)
        return Inner((None,) if is_program and not rest else (), unknown=str(error))
    if name in _OPTIONAL_WORD:
        return Inner(tuple(rest), also=(tuple(rest[1:]),))
    del rest[: _WORDS_BEFORE_COMMAND.get(name, 0)]
    if name in ("ssh", "watch") and rest:
        return _script(tuple(rest))._replace(follows=False)
    if name == "flock" and rest[:1] in (["-c"], ["--command"]):
        return _script(tuple(rest[1:2]))
    return _of_xargs(words, rest) if name == "xargs" and rest else Inner(tuple(rest))


def _skip_to_command(name: str, rest: list[Word]) -> None:
    """Remove subcommands, options and assignments from the front. Raises ValueError as `_skip_options`."""
    if (subcommands := _RUNNING_SUBCOMMANDS.get(name)) is not None:
        while rest and rest[0] not in subcommands:
            del rest[0]
        del rest[:1]
    if name not in _WITHOUT_OPTIONS:
        _skip_options(name, rest)
    if name == "ssh" and rest:  # options may follow the host
        after_host = rest[1:]
        _skip_options(name, after_host)
        rest[1:] = after_host
    while name in ("env", "sudo", "doas") and rest and rest[0] is not None and "=" in rest[0]:
        del rest[0]


def _of_xargs(words: tuple[Word, ...], command: list[Word]) -> Inner:
    """Return the command of xargs, whose input is unknown words: in place of a placeholder, and at the end."""
    attached = [word[2:] or "{}" for word in words if word is not None and word[:2] in ("-I", "-i")]
    places = dict.fromkeys((*attached, *(str(place) for option, place in pairwise(words) if option == "-I")))
    if len(places) > _MAX_PLACES:  # each word may have one
        return Inner((None,))
    known = (None if word is not None and any(place in word for place in places) else word for word in command)
    return Inner((*known, None))


def _split_text(rest: list[Word]) -> tuple[Word, ...]:
    """Return the text that `env -S` splits into a command, and the words after it."""
    for number, word in enumerate(rest):
        if word is None or not word.startswith("-"):
            break
        option, attached, text = word.partition("=" if word.startswith("--") else "S")
        if option == "--split-string" or (attached == "S" and "-" not in option[1:]):
            return (*((text,) if text else ()), *rest[number + 1 :])
    return ()


def _of_script_option(name: str, words: tuple[Word, ...]) -> Inner:
    """`su -c TEXT`, and others with that option, run the text in a shell."""
    for number, word in enumerate(words[1:], start=1):
        if word is None:
            return Inner(unknown=f"an option of {name} is not known")
        if word.startswith("--") and "=" in word and _is_command_option(word.partition("=")[0]):
            return _script((word.partition("=")[2],))
        if attached := _ATTACHED_COMMAND.match(word):
            return _script((attached[1],))
        if name == "script" and word == "--":
            return Inner(words[number + 1 :])
        is_option = _is_command_option(word) or (word[:1] == "-" and word[:2] != "--" and word.endswith("c"))
        if is_option and number + 1 < len(words):
            return _script(words[number + 1 : number + 2])
    if name == "runuser":
        return _of_runner(name, words)
    operands = [word for word in words[1:] if word is not None and not word.startswith("-")]
    return Inner(unknown="su runs a shell with arguments") if name == "su" and len(operands) > 1 else NOTHING


def _is_command_option(option: str) -> bool:
    """Return whether a long option, which may be abbreviated, is `--command` or `--session-command`."""
    return len(option) > 3 and any(each.startswith(option) for each in ("--command", "--session-command"))


def _of_completion(words: tuple[Word, ...]) -> Inner:
    """The words of a completion (`-W`) are expanded: substitutions in them run."""
    inner = _of_interpreter(str(words[0]), words)
    lists = [word for option, word in pairwise(words) if option is not None and _WORD_LIST.fullmatch(option)]
    attached = [found[1] for word in words[1:] if word is not None and (found := _WORD_LIST.match(word)) and found[1]]
    text = _script((*lists, *attached))
    has_substitution = any(part in (text.script or "") for part in ("$", "`", "<(", ">("))
    is_of_fish = any(word is not None and "(" in word for word in words[1:])
    unknown = inner.unknown or text.unknown or ("a completion of fish may run a command" if is_of_fish else "")
    return Inner(script=f": {text.script}" if has_substitution else None, unknown=unknown, follows=False)


def _of_apt(words: tuple[Word, ...]) -> Inner:
    """Settings of apt may have commands that it runs."""
    for before, word in pairwise(words):
        if word is None or word.startswith(("-c", "--conf")):  # options may be abbreviated
            return Inner(unknown="a configuration file of apt may run a command")
        is_setting = before in ("-o", "--option") or word.startswith(("-o", "--option"))
        if is_setting and (isinstance(word, Expansion) or _APT_PROGRAM.search(word)):
            return Inner(unknown="a setting of apt may run a command")
    return NOTHING


def _names_start_file(words: tuple[Word, ...]) -> bool:
    """Return whether options of screen, before a command, name a start-up file."""
    rest, takes = list(words[1:]), _OPTIONS_WITH_ARGUMENT["screen"].split()
    while rest and (rest[0] is None or rest[0].startswith("-")):
        option = rest.pop(0)
        if could_be(option, "-c*"):
            return True
        del rest[: option in takes]
    return False


def _after_git_runner(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command after `git bisect run` and `git submodule foreach`."""
    ends = [place for place, pair in enumerate(pairwise(words)) if pair in (("bisect", "run"), ("submodule", "foreach"))]
    rest = list(words[ends[0] + 2 :]) if ends else []
    while rest and rest[0] is not None and rest[0].startswith("-"):
        del rest[0]
    return ("eval", *rest) if rest else ()


def _after_ip_exec(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the command after `ip netns exec NAME` and `ip vrf exec NAME`."""
    ends = [place for place, word in enumerate(words) if word == "exec" and words[place - 1] in ("netns", "net", "vrf")]
    return words[ends[0] + 2 :] if ends else ()


def _of_git_config(words: tuple[Word, ...]) -> Inner:
    """An alias of git that begins with `!` is a command; other settings name programs."""
    texts = [word[1:] for word in words if word is not None and not isinstance(word, Expansion) and word.startswith("!")]
    is_program = any(word is not None and _GIT_PROGRAM.match(word) for word in words[1:])
    inner = _of_interpreter("git", words)
    unknown = inner.unknown or ("a setting of git may run a command" if is_program else "")
    return Inner(script="\n".join(texts) or None, unknown=unknown, follows=False)


def _skip_options(name: str, rest: list[Word]) -> None:
    """Remove the options from the front. Raises ValueError if one may run a command itself, or is not known."""
    takes = _OPTIONS_WITH_ARGUMENT.get(name, "").split()
    while rest and (rest[0] is None or rest[0].startswith("-")) and rest[0] != "-":
        option = rest.pop(0)
        if option is None or isinstance(option, Glob):
            raise ValueError(f"an option of {name} is not known")
        if option == "--":
            return
        if name == "ssh" and (option.startswith(("-o", "-F"))):
            raise ValueError("an ssh option may run a command")
        if name == "command" and option in ("-v", "-V"):
            rest.clear()
            return
        takes_next = option in takes or (option[1:].isalpha() and _last_takes(option, takes))
        if takes_next and rest:
            del rest[: max(1, takes.count(option))]


def _last_takes(option: str, takes: list[str]) -> bool:
    """Return whether the last of grouped options (`-nu`) takes the next word as its argument."""
    return f"-{option[-1]}" in takes and not any(f"-{letter}" in takes for letter in option[1:-1])


def _of_shell(words: tuple[Word, ...]) -> Inner:
    """A shell runs the text after -c, or a script; without either, its input."""
    rest = list(words[1:])
    has_script_option = False
    while rest and (rest[0] is None or rest[0][:1] in ("-", "+")):
        option = rest.pop(0)
        if option is None or isinstance(option, Glob):
            return Inner(unknown=UNKNOWN_TEXT)
        if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file", "--init-command", "-C") and rest:
            if option in ("--rcfile", "--init-file", "--init-command", "-C"):
                return Inner(unknown=f"{option} makes a shell run text")
            del rest[0]
        elif option == "--command" or option.startswith(("--command=", "--init-command")):
            return Inner(unknown=f"{option} makes a shell run text")
        elif not option.startswith("--") and "c" in option[1:]:
            has_script_option = True
    if has_script_option:
        return _script(tuple(rest[:1])) if rest else NOTHING
    if any(word is None or isinstance(word, Expansion) for word in rest[:1]):
        return Inner(unknown="the script of a shell is not known")
    return NOTHING


def _script(words: tuple[Word, ...]) -> Inner:
    if any(word is None or isinstance(word, Glob) for word in words):
        return Inner(unknown=UNKNOWN_TEXT)
    return Inner(script=" ".join(word for word in words if word is not None))


def _of_definition(words: tuple[Word, ...]) -> Inner:
    """The text of aliases and traps runs later."""
    if words[0] == "trap":
        rest = [word for word in words[1:] if word != "--"]
        return _script(tuple(rest[:1])) if len(rest) > 1 and rest[0] not in ("-l", "-p", "-") else NOTHING
    operands = [word for word in words[1:] if word is None or not word.startswith("-")]
    if len(operands) > 1 and operands[0] is not None and "=" not in operands[0]:  # fish
        return _script(tuple(operands[1:]))._replace(follows=False)
    texts = [word if word is None or isinstance(word, Glob) else word.partition("=")[2] for word in words[1:]]
    if any(text is None or isinstance(text, Glob) for text in texts):
        return Inner(unknown="the text of an alias is not known")
    return Inner(script="\n".join(text for text in texts if text), follows=False)


def _of_key(words: tuple[Word, ...]) -> Inner:
    """The text of a key may be a command, or be typed: `bind -x '"\\C-t": TEXT'`, `bindkey -s '^T' TEXT`, `bind \\ct TEXT`."""
    inner = _of_interpreter(str(words[0]), words)
    known = [word for word in words[1:] if word is not None and not isinstance(word, Glob)]
    texts = [match[1] for word in known if (match := _KEY_TEXT.match(word))]
    if not texts and len(words) > 2:
        texts = [word for word in known if not word.startswith("-")][1:]
    script = _TYPED_ENTER.sub("\n", "\n".join(texts))
    return Inner(script=script or None, unknown=inner.unknown, follows=False)


def _of_find(words: tuple[Word, ...]) -> Inner:
    """Return the commands after each -exec."""
    starts = [place for place, word in enumerate(words) if word in ("-exec", "-execdir", "-ok", "-okdir")]
    if any(word is None for word in words):
        return Inner(unknown="an argument of find is not known")
    if not starts:
        return NOTHING
    commands = []
    for start, next_start in pairwise((*starts, len(words))):
        command = words[start + 1 : next_start]
        end = next((place for place, word in enumerate(command) if word in (";", "+")), len(command))
        commands.append(tuple(None if word is not None and "{}" in word else word for word in command[:end]))
    return Inner(commands[0], follows=False, also=tuple(commands[1:]))


def _of_interpreter(name: str, words: tuple[Word, ...]) -> Inner:
    """Return the program in the arguments of an interpreter: its language is not parsed."""
    if name.startswith("python3."):
        name = "python3"
    if name in ("awk", "gawk", "mawk", "nawk"):
        program = any(word is None or any(part in word for part in ("system", "|", ">", "getline", "@")) for word in words[1:])
        return Inner(unknown=f"{name} may run commands") if program else NOTHING
    if name in ("sed", "gsed"):
        scripts = any(word is None or _sed_may_run(word) for word in words[1:])
        return Inner(unknown="sed may run commands or write files") if scripts else NOTHING
    options = _PROGRAM_OPTIONS.get(name, "").split()
    short = "".join(option[1] for option in options if len(option) == 2 and option[0] == "-")
    for word in words[1:]:
        is_group = word is not None and word[:1] == "-" and word[:2] != "--" and any(letter in word[1:] for letter in short)
        if is_group or any(could_be(word, option) for option in options):
            return Inner(unknown=f"{name} runs a program in its arguments")
    return NOTHING


def _sed_may_run(script: str) -> bool:
    """GNU sed runs commands with the command and the flag `e`, and writes files with `w` and `W`."""
    flags = script.rpartition(script[1])[2] if script[:1] == "s" and len(script) > 3 else ""
    return any(letter in flags for letter in "ewW") or any(
        part.strip().lstrip("0123456789,$!~+ ")[:1] in ("e", "w", "W", "r", "R")
        for part in script.replace("\n", ";").split(";")
    )
