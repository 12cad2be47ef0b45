# Start-up file for zsh with ptyctl's marks: sources the user's files from their own directory, with ZDOTDIR restored.
{ IFS= read -r __ptyctl_nonce <"$PTYCTL_NONCE_FILE" && command rm -f -- "$PTYCTL_NONCE_FILE"; } 2>/dev/null
unset PTYCTL_NONCE_FILE
if [[ -n ${PTYCTL_ZDOTDIR-} ]]; then ZDOTDIR=$PTYCTL_ZDOTDIR; else unset ZDOTDIR; fi
[[ ! -r ${ZDOTDIR:-$HOME}/.zshenv ]] || builtin source "${ZDOTDIR:-$HOME}/.zshenv"
PTYCTL_ZDOTDIR=${ZDOTDIR-}
ZDOTDIR=$PTYCTL_HOOKS
