# The marks of bash 5.1 and later; their format is in ptyctl/core/marks.py. A local shell sources this file. Into a remote shell it
# is typed without comments and indentation. The nonce is set before. Each of the two hooks installs the other one again if the user
# has removed it.
__ptyctl_hook= __ptyctl_empty= __ptyctl_keys= __ptyctl_count=0 __ptyctl_ran=0 __ptyctl_pwd= __ptyctl_cwd= __ptyctl_unheard=2\>/dev/null
[[ $- != *r* ]] || __ptyctl_unheard= # a restricted shell allows no redirection
# A function of the user's may have the name of a builtin: choose the words that print a mark, and that evaluate a command (in
# `__ptyctl`). declare sets no attribute here; it reports whether the function exists.
__ptyctl_choose() {
  __ptyctl_do=builtin __ptyctl=eval
  ! declare -f +i builtin || { __ptyctl_do=command; ! declare -f +i command || __ptyctl_do=; }
  ! declare -f +i eval || __ptyctl=$__ptyctl_do\ eval
}
# Runs before the user's prompt commands and keeps the status for them. What they print, and a trace of this function by `set -x`,
# is not output of the command.
__ptyctl_ended() {
  __ptyctl_choose
  ((__ptyctl_ran)) && $__ptyctl_do printf '\e]7717;%s;%s;E;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$1"
  __ptyctl_ran=0
  return "$1"
}
# Encodes the directory for a mark. Called only when it has changed.
__ptyctl_place() {
  __ptyctl_pwd=$PWD __ptyctl_cwd=${PWD//%/%25}
  while [[ $__ptyctl_cwd == *[[:cntrl:]]* ]]; do
    local rest=${__ptyctl_cwd#*[[:cntrl:]]}
    local head=${__ptyctl_cwd%"$rest"} code
    $__ptyctl_do printf -v code '%%%02X' "'${head: -1}"
    __ptyctl_cwd=${head%?}$code$rest
  done
}
# Finds the keys that submit another line than the one that is shown, in all keymaps: macros with Enter (from inputrc), and commands.
# `!` reports keys that are not known.
__ptyctl_find_keys() {
  local line kind map
  [[ -o emacs || -o vi ]] || return 0
  while IFS= read -r line; do
    if [[ $line == [sx] ]]; then kind=$line
    elif [[ $line == \"* && ( $kind == x || $line == *\\C-[jm]* || $line == *\\[rn]* ) ]]; then __ptyctl_add_key "$kind" "$line"
    fi
  done <<<"$(for map in emacs vi-insert vi-command; do $__ptyctl_do printf 's\n'; $__ptyctl_do bind -m $map -s; $__ptyctl_do printf 'x\n'; $__ptyctl_do bind -m $map -X; done)"
  [[ $kind ]] || __ptyctl_keys+=%0A!
}
__ptyctl_add_key() {
  local line=${2//%/%25}
  line=%0A$1${line//;/%3B}
  [[ $__ptyctl_keys != *"$line" ]] || return 0
  if ((${#__ptyctl_keys} + ${#line} < 4000)); then __ptyctl_keys+=$line
  elif [[ $__ptyctl_keys != *%0A! ]]; then __ptyctl_keys+=%0A!
  fi
}
# The last prompt command; bash restores $? for each of them. It returns 0: otherwise `set -e` would end the shell, except for a
# command before && or ||. Without user commands it also sends the end mark, in the same write. An assignment to PROMPT_COMMAND
# replaces the first command, so the first hook is installed again.
# HISTIGNORE keeps a command that is typed as a word after `__ptyctl` out of the history.
__ptyctl_prompt() {
  local status=$? now=${EPOCHREALTIME/[.,]/} end= keys=$__ptyctl_keys
  [[ $- != *[xeu]* ]] || { local - ; set +xeu; }
  __ptyctl_choose
  [[ $PWD == "$__ptyctl_pwd" ]] || __ptyctl_place
  [[ ! -o vi ]] || keys=vi$keys
  ((__ptyctl_ran)) && end=$'\e]7717;'"$__ptyctl_nonce;$((++__ptyctl_count));E;$status"$'\a' __ptyctl_ran=0
  $__ptyctl_do printf '%s\e]7717;%s;%s;P;%s;%s;%s\a' \
    "$end" "$__ptyctl_nonce" "$((++__ptyctl_count))" "$status" "${now%???}${keys:+,$keys}" "$__ptyctl_cwd"
  ((${#PROMPT_COMMAND[@]} < 2)) || [[ ${PROMPT_COMMAND[0]-} == '{ __ptyctl_ended'* ]] || __ptyctl_put_first "${PROMPT_COMMAND[0]-}"
  [[ ${PS0-} == *'${__ptyctl_nonce}'* ]] || __ptyctl_put_ps0
  [[ ${HISTIGNORE-} == *__ptyctl* ]] || HISTIGNORE=${HISTIGNORE:+$HISTIGNORE:}'*__ptyctl*'
  return 0
}
__ptyctl_put_first() { PROMPT_COMMAND[0]='{ __ptyctl_ended "$?" && ((1)); } '$__ptyctl_unheard${1:+$'\n'$1}; }
# PS0 is expanded after a command line was read and before it runs. The substring is empty; evaluating it records that a command
# ran. The expansion before the mark is empty too, and sets the prompt command if it was removed.
__ptyctl_put_ps0() {
  PS0=${PS0-}'${__ptyctl_empty#${PROMPT_COMMAND[9999]:=$__ptyctl_hook}}'
  PS0+='\e]7717;${__ptyctl_nonce};$((++__ptyctl_count));B\a${__ptyctl_ran:$((__ptyctl_ran=1,0)):0}'
}
__ptyctl_install() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || return 0
  __ptyctl_hook='{ __ptyctl_prompt; } '$__ptyctl_unheard
  PROMPT_COMMAND[9999]=$__ptyctl_hook
  __ptyctl_choose
  __ptyctl_find_keys
  [[ ${PS0-} == *'${__ptyctl_nonce}'* ]] || __ptyctl_put_ps0
}
