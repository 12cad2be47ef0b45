# Start-up file for zsh with ptyctl's marks: sources the user's files from their own directory, with ZDOTDIR restored.
if [[ -n ${PTYCTL_ZDOTDIR-} ]]; then ZDOTDIR=$PTYCTL_ZDOTDIR; else unset ZDOTDIR; fi
[[ ! -r ${ZDOTDIR:-$HOME}/.zshenv ]] || builtin source "${ZDOTDIR:-$HOME}/.zshenv"
PTYCTL_ZDOTDIR=${ZDOTDIR-}
ZDOTDIR=$PTYCTL_HOOKS
