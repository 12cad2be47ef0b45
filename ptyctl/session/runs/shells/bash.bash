# ptyctl's marks for bash 5.1 and later. Read instead of ~/.bashrc, which it reads.
# The functions come first: what the user's file makes an alias of would be expanded in them.
__ptyctl_nonce=$PTYCTL_NONCE __ptyctl_rc=${PTYCTL_NORC-~/.bashrc}
unset PTYCTL_NONCE PTYCTL_NORC
. "${BASH_SOURCE[0]%/*}/hooks.bash"
[ ! -r "$__ptyctl_rc" ] || . "$__ptyctl_rc"
unset __ptyctl_rc
__ptyctl_install
unset -f __ptyctl_install
