# ptyctl's start of zsh: the user's own files are read from where they are, and their place is given back to them.
if [[ -n ${PTYCTL_ZDOTDIR-} ]]; then ZDOTDIR=$PTYCTL_ZDOTDIR; else unset ZDOTDIR; fi
[[ ! -r ${ZDOTDIR:-$HOME}/.zshenv ]] || builtin source "${ZDOTDIR:-$HOME}/.zshenv"
PTYCTL_ZDOTDIR=${ZDOTDIR-}
ZDOTDIR=$PTYCTL_HOOKS
