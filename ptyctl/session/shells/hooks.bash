# The marks of bash 5.1 and later (ptyctl/core/marks.py tells their form). A local shell reads this file, to a remote one it is
# typed: without these comments, and each line without its indentation. The nonce is set before.
__ptyctl_count=0 __ptyctl_ran=0 __ptyctl_unheard=2\>/dev/null
[[ $- != *r* ]] || __ptyctl_unheard= # a restricted shell redirects nothing
# In front of the user's own prompt commands, for which it leaves the status as it is: what they print is no command's output,
# nor is what `set -x` would say of it.
__ptyctl_ended() {
  ((__ptyctl_ran)) && builtin printf '\e]7717;%s;%s;E;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$1"
  __ptyctl_ran=0
  return "$1"
}
# The last of the prompt's commands: bash restores $? for each of them. It returns 0, or `set -e` would end the shell; what
# stands before && may fail. An assignment to PROMPT_COMMAND replaces the first of them, so that one is put there again.
__ptyctl_prompt() {
  local status=$? now=${EPOCHREALTIME/[.,]/} cwd=${PWD//%/%25}
  local - ; set +xeu
  while [[ $cwd == *[[:cntrl:]]* ]]; do
    local rest=${cwd#*[[:cntrl:]]}
    local head=${cwd%"$rest"} code
    builtin printf -v code '%%%02X' "'${head: -1}"
    cwd=${head%?}$code$rest
  done
  ((__ptyctl_ran)) && __ptyctl_ended "$status" && ((1))
  builtin printf '\e]7717;%s;%s;P;%s;%s;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$status" "${now%???}" "$cwd"
  [[ ${PROMPT_COMMAND[0]-} == '{ __ptyctl_ended'* ]] || __ptyctl_put_first "${PROMPT_COMMAND[0]-}"
  return 0
}
__ptyctl_put_first() { PROMPT_COMMAND[0]='{ __ptyctl_ended "$?" && ((1)); } '$__ptyctl_unheard${1:+$'\n'$1}; }
__ptyctl_install() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || return 0
  PROMPT_COMMAND[9999]=__ptyctl_prompt
  # Expanded when a command line has been read and before it runs. The substring is empty; taking it notes that something ran.
  PS0='\e]7717;${__ptyctl_nonce};$((++__ptyctl_count));B\a${__ptyctl_ran:$((__ptyctl_ran=1,0)):0}'${PS0-}
}
