# ptyctl's marks for zsh, installed around the user's .zshrc.
# The functions are defined first, so that aliases and options of the user's file do not apply to them.
if [[ -n $PTYCTL_ZDOTDIR ]]; then ZDOTDIR=$PTYCTL_ZDOTDIR; else unset ZDOTDIR; fi
if [[ ${HISTFILE-} == $PTYCTL_HOOKS/* ]]; then HISTFILE=${ZDOTDIR:-$HOME}/${HISTFILE:t}; fi # the system's zshrc may have set it
builtin source "$PTYCTL_HOOKS/hooks.zsh"
unset PTYCTL_ZDOTDIR PTYCTL_HOOKS
[[ ! -r ${ZDOTDIR:-$HOME}/.zshrc ]] || builtin source "${ZDOTDIR:-$HOME}/.zshrc"
__ptyctl_install
