# The marks of bash 5.1 and later; their format is in ptyctl/core/marks.py. A local shell sources this file. Into a remote shell it
# is typed without comments and indentation, as one line, which a terminal without a line editor truncates at 4095 bytes. The nonce is
# set before. Each of the two hooks installs the other one again if the user has removed it.
__ptyctl_hook= __ptyctl_empty= __ptyctl_keys= __ptyctl_count=0 __ptyctl_ran=0 __ptyctl_pwd= __ptyctl_unheard=2\>/dev/null
[[ $- != *r* ]] || __ptyctl_unheard= # a restricted shell allows no redirection
# A function of the user's may have the name of a builtin: choose the words that print a mark, and the word before `eval` in a
# typed command (`__ptyctl_by`). declare sets no attribute here; it reports whether the function exists.
__ptyctl_choose() {
  __ptyctl_do=(builtin) __ptyctl_by=
  ! declare -f +i builtin || { __ptyctl_do=(command); ! declare -f +i command || __ptyctl_do=(); }
  ! declare -f +i eval || __ptyctl_by=${__ptyctl_do[0]-}
}
# Runs before the user's prompt commands and keeps the status for them. What they print, and a trace of this function by `set -x`,
# is not output of the command.
__ptyctl_ended() {
  __ptyctl_choose
  ((__ptyctl_ran)) && "${__ptyctl_do[@]}" printf '\e]7717;%s;%s;E;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$1"
  __ptyctl_ran=0
  return "$1"
}
# Follows options, functions and the directory, which it encodes for the mark. In vi mode it is called at each prompt.
__ptyctl_update() {
  local keys=$__ptyctl_keys cwd=${PWD//%/%25} rest head code
  __ptyctl_choose
  __ptyctl_pwd=$PWD
  [[ ! -o vi ]] || keys=vi$keys __ptyctl_pwd=
  while [[ $cwd == *[[:cntrl:]]* ]]; do
    rest=${cwd#*[[:cntrl:]]}
    head=${cwd%"$rest"}
    "${__ptyctl_do[@]}" printf -v code '%%%02X' "'${head: -1}"
    cwd=${head%?}$code$rest
  done
  __ptyctl_place="${keys:+,$keys};$cwd"
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
  done <<<"$(for map in emacs vi-insert vi-command; do "${__ptyctl_do[@]}" echo s; "${__ptyctl_do[@]}" bind -m $map -s; "${__ptyctl_do[@]}" echo x; "${__ptyctl_do[@]}" bind -m $map -X; done)"
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
# command before && or ||. Without user commands it also sends the end mark, in the same write. bash copies a function each time
# that it calls it, so what is rarely needed is in `__ptyctl_update`. `nocasematch` does not apply where a prefix is removed.
# HISTIGNORE keeps a command that is typed as a word after `__ptyctl_by` out of the history. An assignment to PROMPT_COMMAND replaces
# the first command, so the first hook is installed again.
__ptyctl_prompt() {
  __ptyctl_status=$? __ptyctl_now=${EPOCHREALTIME-} __ptyctl_end=
  [[ $- != *[xeu]* && ! -o vi && $__ptyctl_do$__ptyctl_by == builtin && ! ${PWD#"$__ptyctl_pwd"} ]] ||
    { local - ; set +xeu; __ptyctl_update; }
  if declare -f +i builtin || declare -f +i eval; then __ptyctl_choose; fi
  ((__ptyctl_ran)) && __ptyctl_end=$'\e]7717;'"$__ptyctl_nonce;$((++__ptyctl_count));E;$__ptyctl_status"$'\a' __ptyctl_ran=0
  "${__ptyctl_do[@]}" printf '%s\e]7717;%s;%s;P;%s;%.10s%.3s%s\a' "$__ptyctl_end" "$__ptyctl_nonce" "$((++__ptyctl_count))" \
    "$__ptyctl_status" "$__ptyctl_now" "${__ptyctl_now:11}" "$__ptyctl_place"
  [[ ${HISTIGNORE-} == *__ptyctl* ]] || HISTIGNORE=${HISTIGNORE:+$HISTIGNORE:}*__ptyctl*
  [[ ${PS0-} == *__ptyctl_nonce* ]] || __ptyctl_put_ps0
  ((${#PROMPT_COMMAND[@]} < 2)) || [[ ${PROMPT_COMMAND[0]-} == "{ __ptyctl_ended"* ]] || __ptyctl_put_first "${PROMPT_COMMAND[0]-}"
  ((1))
}
__ptyctl_put_first() { PROMPT_COMMAND[0]='{ __ptyctl_ended "$?" && ((1)); } '$__ptyctl_unheard${1:+$'\n'$1}; }
# PS0 is expanded after a command line was read and before it runs. The first expansion is empty, and sets the prompt command if it
# was removed. The last one also records that a command ran.
__ptyctl_put_ps0() {
  PS0=${PS0-}'${__ptyctl_empty#${PROMPT_COMMAND[9999]:=$__ptyctl_hook}}'
  PS0+='\e]7717;${__ptyctl_nonce};$((__ptyctl_ran=1,++__ptyctl_count));B\a'
}
__ptyctl_install() {
  __ptyctl_hook="{ __ptyctl_prompt; } "$__ptyctl_unheard
  PROMPT_COMMAND[9999]=$__ptyctl_hook
  __ptyctl_choose
  __ptyctl_find_keys
}
