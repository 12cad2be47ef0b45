# ptyctl's marks for bash 5.1 and later (ptyctl/core/marks.py tells their form). Read instead of ~/.bashrc, which it reads.
# The functions come first: what the user's file makes an alias of would be expanded in them.
__ptyctl_nonce=$PTYCTL_NONCE __ptyctl_count=0 __ptyctl_ran=0 __ptyctl_rc=${PTYCTL_NORC-~/.bashrc}
unset PTYCTL_NONCE PTYCTL_NORC

# The last of the prompt's commands: bash restores $? for each of them. It returns 0, or `set -e` would end the shell.
__ptyctl_prompt() {
  local status=$? now=${EPOCHREALTIME/[.,]/} cwd=${PWD//%/%25}
  local - ; set +xeu
  while [[ $cwd == *[[:cntrl:]]* ]]; do
    local rest=${cwd#*[[:cntrl:]]}
    local head=${cwd%"$rest"} code
    builtin printf -v code '%%%02X' "'${head: -1}"
    cwd=${head%?}$code$rest
  done
  ((__ptyctl_ran)) && builtin printf '\e]7717;%s;%s;E;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$status"
  __ptyctl_ran=0
  builtin printf '\e]7717;%s;%s;P;%s;%s;%s\a' "$__ptyctl_nonce" "$((++__ptyctl_count))" "$status" "${now%???}" "$cwd"
  return 0
}
__ptyctl_install() {
  ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || return 0
  PROMPT_COMMAND[9999]=__ptyctl_prompt
  # Expanded when a command line has been read and before it runs. The substring is empty; taking it notes that something ran.
  PS0='\e]7717;${__ptyctl_nonce};$((++__ptyctl_count));B\a${__ptyctl_ran:$((__ptyctl_ran=1,0)):0}'${PS0-}
}
[ ! -r "$__ptyctl_rc" ] || . "$__ptyctl_rc"
unset __ptyctl_rc
__ptyctl_install
unset -f __ptyctl_install
