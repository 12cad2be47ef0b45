# ptyctl's marks for zsh, around the user's own .zshrc.
# The functions come first: what the user's file makes an alias of would be expanded in them, and its options would parse them.
if [[ -n $PTYCTL_ZDOTDIR ]]; then ZDOTDIR=$PTYCTL_ZDOTDIR; else unset ZDOTDIR; fi
if [[ ${HISTFILE-} == $PTYCTL_HOOKS/* ]]; then HISTFILE=${ZDOTDIR:-$HOME}/${HISTFILE:t}; fi # a system's zshrc may have set it
typeset -g __ptyctl_nonce=$PTYCTL_NONCE
builtin source "$PTYCTL_HOOKS/hooks.zsh"
unset PTYCTL_NONCE PTYCTL_ZDOTDIR PTYCTL_HOOKS
[[ ! -r ${ZDOTDIR:-$HOME}/.zshrc ]] || builtin source "${ZDOTDIR:-$HOME}/.zshrc"
__ptyctl_install
unfunction __ptyctl_install
