# The marks of bash 5.1 and later (ptyctl/core/marks.py tells their form). A local shell reads this file, to a remote one it is
# typed: without these comments, and each line without its indentation. The nonce is set before.
__ptyctl_count=0 __ptyctl_ran=0 __ptyctl_pwd= __ptyctl_cwd= __ptyctl_unheard=2\>/dev/null
[[ $- != *r* ]] || __ptyctl_unheard= # a restricted shell redirects nothing
# In front of the user's own prompt commands, for which it leaves the status as it is: what they print is no command's output,
# nor is what `set -x` would say of it.
__ptyctl_ended() {
  ((__ptyctl_ran)) && builtin printf '\e]7717;%s;%s;E;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$1"
  __ptyctl_ran=0
  return "$1"
}
# The directory as a mark has it. It seldom changes: at most prompts there is nothing to be done.
__ptyctl_place() {
  __ptyctl_pwd=$PWD __ptyctl_cwd=${PWD//%/%25}
  while [[ $__ptyctl_cwd == *[[:cntrl:]]* ]]; do
    local rest=${__ptyctl_cwd#*[[:cntrl:]]}
    local head=${__ptyctl_cwd%"$rest"} code
    builtin printf -v code '%%%02X' "'${head: -1}"
    __ptyctl_cwd=${head%?}$code$rest
  done
}
# The last of the prompt's commands: bash restores $? for each of them. It returns 0, or `set -e` would end the shell; what
# stands before && or || may fail. Where the user has no commands it tells the end too, in the same write. An assignment to
# PROMPT_COMMAND replaces the first of them, so that one is put there again.
__ptyctl_prompt() {
  local status=$? now=${EPOCHREALTIME/[.,]/} end=
  [[ $- != *[xeu]* ]] || { local - ; set +xeu; }
  [[ $PWD == "$__ptyctl_pwd" ]] || __ptyctl_place
  ((__ptyctl_ran)) && end=$'\e]7717;'"$__ptyctl_nonce;$((++__ptyctl_count));E;$status"$'\a' __ptyctl_ran=0
  builtin printf '%s\e]7717;%s;%s;P;%s;%s;%s\a' \
    "$end" "$__ptyctl_nonce" "$((++__ptyctl_count))" "$status" "${now%???}" "$__ptyctl_cwd"
  ((${#PROMPT_COMMAND[@]} < 2)) || [[ ${PROMPT_COMMAND[0]-} == '{ __ptyctl_ended'* ]] || __ptyctl_put_first "${PROMPT_COMMAND[0]-}"
  return 0
}
__ptyctl_put_first() { PROMPT_COMMAND[0]='{ __ptyctl_ended "$?" && ((1)); } '$__ptyctl_unheard${1:+$'\n'$1}; }
__ptyctl_install() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || return 0
  PROMPT_COMMAND[9999]='{ __ptyctl_prompt; } '$__ptyctl_unheard
  # Expanded when a command line has been read and before it runs. The substring is empty; taking it notes that something ran.
  PS0='\e]7717;${__ptyctl_nonce};$((++__ptyctl_count));B\a${__ptyctl_ran:$((__ptyctl_ran=1,0)):0}'${PS0-}
}
