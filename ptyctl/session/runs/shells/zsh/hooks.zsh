# The marks of zsh; their format is in ptyctl/core/marks.py. A local shell sources this file. Into a remote shell it is typed without
# comments and indentation. The nonce is set before. Each of the two hooks installs the other one again if the user has removed it.
typeset -gi __ptyctl_count=0 __ptyctl_ran=0 __ptyctl_eol_set=0
typeset -g __ptyctl_eol= __ptyctl_end=
typeset -ga __ptyctl_do __ptyctl
# A function of the user's may have the name of a builtin: choose the words that print a mark, and that evaluate a command (in
# `__ptyctl`).
__ptyctl_choose() {
  __ptyctl_do=(builtin printf) __ptyctl=(eval)
  (( ! $+functions[builtin] )) || __ptyctl_do=(command printf)
  (( ! $+functions[eval] )) || __ptyctl=(builtin eval)
}
# The first prompt function, so that output of the others does not count as the command's; $? is the command's status.
__ptyctl_precmd() {
  local -i st=$?
  emulate -L zsh
  setopt extendedglob
  __ptyctl_choose
  local cwd=${PWD//\%/%25} now=${EPOCHREALTIME/.} match mbegin mend
  while [[ $cwd == (#b)(*)([[:cntrl:]])(*) ]]; do
    cwd=$match[1]%${(l:2::0:)$(([##16]##$match[2]))}$match[3]
  done
  if (( __ptyctl_ran )); then
    if [[ ${PROMPT_EOL_MARK-} == "$__ptyctl_end"* ]]; then
      if (( __ptyctl_eol_set )); then PROMPT_EOL_MARK=$__ptyctl_eol; else unset PROMPT_EOL_MARK; fi
    fi
    $__ptyctl_do '\033]7717;%s;%d;E;%d\a' $__ptyctl_nonce $((++__ptyctl_count)) $st
  fi
  __ptyctl_ran=0
  (( $preexec_functions[(I)__ptyctl_preexec] )) || preexec_functions+=(__ptyctl_preexec)
  $__ptyctl_do '\033]7717;%s;%d;P;%d;%s;%s\a' $__ptyctl_nonce $((++__ptyctl_count)) $st ${now[1,13]} $cwd
}
# zsh terminates an incomplete last line before the prompt functions (PROMPT_SP), so the end mark is put into PROMPT_EOL_MARK. The
# begin mark is sent last, so that traces of these lines (`setopt xtrace`, traps) do not count as output.
__ptyctl_preexec() {
  emulate -L zsh
  __ptyctl_choose
  __ptyctl_ran=1
  local cmd=${${1:-$3}[1,4096]}
  cmd=${${${cmd//\%/%25}//$'\n'/%0A}//$'\t'/%09}
  local -i begun=$((++__ptyctl_count))
  (( $precmd_functions[(I)__ptyctl_precmd] )) || precmd_functions=(__ptyctl_precmd $precmd_functions)
  __ptyctl_eol_set=${+PROMPT_EOL_MARK}
  __ptyctl_eol=${PROMPT_EOL_MARK-%B%S%#%s%b}
  __ptyctl_end=$'%{\e'"]7717;$__ptyctl_nonce;$((++__ptyctl_count));E;%?"$'\a%}'
  typeset -g PROMPT_EOL_MARK=$__ptyctl_end$__ptyctl_eol
  $__ptyctl_do '\033]7717;%s;%d;B;%s\a' $__ptyctl_nonce $begun ${cmd//[[:cntrl:]]/}
}
# A command that is typed as a quoted word after `__ptyctl` is kept in the history as it was given; one in double quotes, with escaped
# control characters, is not kept.
__ptyctl_addhistory() {
  emulate -L zsh
  [[ $1 == ' ${__ptyctl:-eval} '* ]] || return 0
  [[ $1 == ' ${__ptyctl:-eval} "'* ]] || print -rs -- "${(Q)${(z)1}[2]}"
  return 1
}
__ptyctl_install() {
  emulate -L zsh
  zmodload zsh/datetime
  typeset -ga precmd_functions preexec_functions zshaddhistory_functions
  zshaddhistory_functions=(${zshaddhistory_functions:#__ptyctl_addhistory} __ptyctl_addhistory)
  precmd_functions=(__ptyctl_precmd ${precmd_functions:#__ptyctl_precmd})
  preexec_functions=(${preexec_functions:#__ptyctl_preexec} __ptyctl_preexec)
}
