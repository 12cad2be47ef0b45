# Start-up file for bash 5.1 and later with ptyctl's marks; it sources ~/.bashrc.
# The functions are defined first, so that aliases of the user's file are not expanded in them.
__ptyctl_nonce=$PTYCTL_NONCE __ptyctl_rc=${PTYCTL_NORC-~/.bashrc}
unset PTYCTL_NONCE PTYCTL_NORC
. "${BASH_SOURCE[0]%/*}/hooks.bash"
[ ! -r "$__ptyctl_rc" ] || . "$__ptyctl_rc"
unset __ptyctl_rc
__ptyctl_install
