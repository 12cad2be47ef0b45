# The marks of zsh; their format is in ptyctl/core/marks.py. A local shell sources this file. Into a remote shell it is typed without
# comments and indentation. The nonce is set before. Each of the two hooks installs the other one again if the user has removed it.
typeset -gi __ptyctl_count=0 __ptyctl_ran=0 __ptyctl_eol_set=0 __ptyctl_has_files=0 __ptyctl_may_bind=1
typeset -g __ptyctl_eol= __ptyctl_end= __ptyctl_keys= __ptyctl_bound=- __ptyctl_fd= __ptyctl_by=
typeset -ga __ptyctl_do __ptyctl_in __ptyctl_maps
# A function of the user's may have the name of a builtin: choose the words that print a mark, that precede another builtin if
# `posixbuiltins` is set, and the word before `eval` in a typed command (`__ptyctl_by`).
__ptyctl_choose() {
  __ptyctl_do=(builtin printf) __ptyctl_in=(builtin) __ptyctl_by=
  (( ! $+functions[builtin] )) || __ptyctl_do=(command printf) __ptyctl_in=(command)
  (( ! $+functions[eval] )) || __ptyctl_by=builtin
}
# The first prompt function, so that output of the others does not count as the command's; $? is the command's status. It takes
# the text that the next line begins with (`print -z`, a line that was put aside) from the editor's stack, and puts it back,
# also if it is empty: other text may be below it. With a readonly IFS, the blanks around the text are lost.
__ptyctl_precmd() {
  local -i st=$?
  emulate -L zsh
  setopt extendedglob nomultibyte
  __ptyctl_choose
  [[ $__ptyctl_in == builtin ]] || setopt posixbuiltins
  local cwd=${PWD//\%/%25} now=${EPOCHREALTIME/.} text= line= match mbegin mend MATCH MBEGIN MEND
  while [[ $cwd == (#b)(*)([[:cntrl:]])(*) ]]; do
    cwd=$match[1]%${(l:2::0:)$(([##16]##$match[2]))}$match[3]
  done
  local -a off=()
  (( $+builtins[read] )) || off=(read)
  (( $+builtins[print] )) || off+=(print)
  (( ! $#off )) || $__ptyctl_in enable $off
  if (( $+builtins[read] && $+builtins[print] )); then
    if [[ ${(t)IFS} == *readonly* ]]; then
      $__ptyctl_in read -rz -d '' text || :
    else
      IFS= $__ptyctl_in read -rz -d '' text || :
    fi
    $__ptyctl_in print -rz -- "$text"
    if (( $#text )); then
      line=,
      (( $#text > 4096 )) || line+=${text//(#m)[[:cntrl:]%;]/%${(l:2::0:)$(([##16]##$MATCH))}}
    fi
  else
    line=,
  fi
  (( ! $#off )) || $__ptyctl_in disable $off
  local end= follows=
  ! __ptyctl_await_line || follows=+
  if (( __ptyctl_ran )); then
    if [[ ${PROMPT_EOL_MARK-} == "$__ptyctl_end"* ]]; then
      if (( __ptyctl_eol_set )); then PROMPT_EOL_MARK=$__ptyctl_eol; else unset PROMPT_EOL_MARK; fi
    fi
    (( ! __ptyctl_may_bind )) || __ptyctl_find_keys
    end=$'\e]7717;'"$__ptyctl_nonce;$((++__ptyctl_count));E;$st"$'\a'
  fi
  __ptyctl_ran=0
  (( $preexec_functions[(I)__ptyctl_preexec] )) || preexec_functions+=(__ptyctl_preexec)
  (( $zshaddhistory_functions[(I)__ptyctl_addhistory] )) || zshaddhistory_functions+=(__ptyctl_addhistory)
  $__ptyctl_do '%s\033]7717;%s;%d;P;%s;%s;%s\a' "$end" $__ptyctl_nonce $((++__ptyctl_count)) $st$follows$line ${now[1,13]}${__ptyctl_keys:+,$__ptyctl_keys} $cwd
}
# Later functions of the prompt and hooks of the line editor may put more text into the line, and the last of them cannot be known.
# If there may be any, the editor calls `__ptyctl_line` when it waits for a key. It reads keys that were typed ahead before that, so
# that the widget which is called before the first of them reports the text if no hook of the user's can follow it.
__ptyctl_await_line() {
  [[ -o zle && $+builtins[zle] == 1 ]] || return 1
  (( $precmd_functions[(I)__ptyctl_precmd] < $#precmd_functions || $+functions[periodic] || $#periodic_functions
    || $+widgets[zle-line-init] || $+widgets[zle-line-pre-redraw] )) || return 1
  [[ -n $__ptyctl_fd ]] || exec {__ptyctl_fd}</dev/null || return 1
  $__ptyctl_in zle -N __ptyctl_line && $__ptyctl_in zle -Fw $__ptyctl_fd __ptyctl_line || return 1
  (( $+widgets[zle-line-pre-redraw] )) || $__ptyctl_in zle -N zle-line-pre-redraw __ptyctl_redraw
}
__ptyctl_redraw() {
  [[ $widgets[zle-line-pre-redraw] != user:__ptyctl_redraw ]] || (( KEYS_QUEUED_COUNT )) || __ptyctl_line
}
# Reports the whole text of the line, once. At a continuation prompt the line that the hooks may have filled has been entered.
__ptyctl_line() {
  emulate -L zsh
  setopt extendedglob nomultibyte
  __ptyctl_choose
  [[ $__ptyctl_in == builtin ]] || setopt posixbuiltins
  [[ $widgets[zle-line-pre-redraw] != user:__ptyctl_redraw ]] || $__ptyctl_in zle -D zle-line-pre-redraw
  [[ -n $__ptyctl_fd ]] || return 0
  $__ptyctl_in zle -F $__ptyctl_fd
  exec {__ptyctl_fd}<&-
  __ptyctl_fd=
  [[ $CONTEXT == (start|cont) ]] || return 0
  local line= text= match mbegin mend MATCH MBEGIN MEND
  [[ $CONTEXT == cont ]] || text=$BUFFER
  if (( $#text )); then
    line=';'
    (( $#text > 4096 )) || line+=${text//(#m)[[:cntrl:]%;]/%${(l:2::0:)$(([##16]##$MATCH))}}
  fi
  $__ptyctl_do '\033]7717;%s;%d;L%s\a' $__ptyctl_nonce $((++__ptyctl_count)) $line
}
# zsh terminates an incomplete last line before the prompt functions (PROMPT_SP), so the end mark is put into PROMPT_EOL_MARK. The
# begin mark is sent last, so that traces of these lines (`setopt xtrace`, traps) do not count as output.
__ptyctl_preexec() {
  emulate -L zsh
  __ptyctl_choose
  __ptyctl_ran=1 __ptyctl_may_bind=1
  ! __ptyctl_is_program "$1" || __ptyctl_may_bind=0
  local cmd=${${1:-$3}[1,4096]}
  cmd=${${${cmd//\%/%25}//$'\n'/%0A}//$'\t'/%09}
  local -i begun=$((++__ptyctl_count))
  (( $precmd_functions[(I)__ptyctl_precmd] )) || precmd_functions=(__ptyctl_precmd $precmd_functions)
  __ptyctl_eol_set=${+PROMPT_EOL_MARK}
  __ptyctl_eol=${PROMPT_EOL_MARK-%B%S%#%s%b}
  __ptyctl_end=$'%{\e'"]7717;$__ptyctl_nonce;$((++__ptyctl_count));E;%?"$'\a%}'
  typeset -g PROMPT_EOL_MARK=$__ptyctl_end$__ptyctl_eol
  $__ptyctl_do '\033]7717;%s;%d;B;%s\a' $__ptyctl_nonce $begun ${cmd//[[:cntrl:]]/}
}
# Whether a command changes no key bindings: it is a program or a harmless builtin, nothing in it is expanded, and no hooks of the
# user's run. A reserved word (`time`) or a builtin may have the name of a program.
__ptyctl_is_program() {
  setopt extendedglob
  local cmd=${${1# \$\{__ptyctl_by:+\"\$__ptyctl_by\"\} eval \'}%\'}
  local word=${${cmd## #}%% *}
  [[ $cmd == [[:alnum:]_./:@%+,=\ -]## ]] || return 1
  if [[ $word != (echo|printf|pwd|true|false|test) ]]; then
    (( $+commands[$word] && ! $reswords[(Ie)$word] && ! $+builtins[$word] )) || return 1
  fi
  (( ! ($+functions[$word] || $+aliases[$word] || $#galiases || $+functions[precmd] || $+functions[preexec]) )) || return 1
  (( $#precmd_functions < 2 && $#preexec_functions < 2 ))
}
# A command that is typed as a quoted word after `__ptyctl_by` is kept in the history as it was given; one in double quotes, with escaped
# control characters, is not kept, nor are calls of these functions and of the marker's.
__ptyctl_addhistory() {
  emulate -L zsh
  [[ $1 != ' __ptyctl'* ]] || return 1
  [[ $1 == ' ${__ptyctl_by:+"$__ptyctl_by"} eval '* ]] || return 0
  [[ $1 == ' ${__ptyctl_by:+"$__ptyctl_by"} eval "'* ]] || print -rs -- "${(Q)${(z)1}[3]}"
  return 1
}
# Prints the name and the bindings of the keymap in use, and the bindings of the keymaps in `__ptyctl_maps`.
__ptyctl_list_keys() {
  local map
  local -a bindkey=(builtin bindkey)
  (( ! $+functions[builtin] )) || bindkey=(bindkey)
  $bindkey -lL main
  $bindkey -L
  for map in $__ptyctl_maps; do
    $bindkey -M $map -L
  done
}
# Finds the keys that submit another line than the one that is shown: macros with Enter, and the command mode of vi. They may have
# changed since the last call. A file is read in a tenth of the time of a substitution, which forks. `!` reports keys that are not
# known.
__ptyctl_find_keys() {
  emulate -L zsh
  setopt extendedglob
  local bound= line missing= file=${TMPPREFIX:-/tmp/zsh}ptyctl$$.$RANDOM$RANDOM
  local -a maps=($__ptyctl_maps)
  local -i fd
  if (( __ptyctl_has_files && ! $+functions[builtin] )) && builtin sysopen -w -m 600 -o creat,excl,cloexec -u fd $file 2>/dev/null; then
    __ptyctl_list_keys >&$fd
    exec {fd}>&-
    builtin sysopen -r -o cloexec -u fd $file && while builtin sysread -i $fd -s 65536 line; do bound+=$line; done
    exec {fd}<&-
    builtin zf_rm -f $file
  fi
  [[ -n $bound ]] || bound="$(__ptyctl_list_keys)"
  [[ $bound != "$__ptyctl_bound" ]] || return 0
  __ptyctl_bound=$bound __ptyctl_keys= __ptyctl_maps=()
  [[ $bound == 'bindkey -A emacs main'* ]] || __ptyctl_keys=vi __ptyctl_maps=(vicmd)
  for line in ${(M)${(f)bound}:#bindkey -s *\^[JM]*}; do
    line=%0As${${line//\%/%25}//;/%3B}
    if (( $#__ptyctl_keys + $#line < 4000 )); then __ptyctl_keys+=$line; else missing=1; fi
  done
  [[ -n $bound && -z $missing ]] || __ptyctl_keys+=%0A!
  (( $#maps || ! $#__ptyctl_maps )) || __ptyctl_find_keys
}
__ptyctl_install() {
  emulate -L zsh
  zmodload zsh/datetime
  ! zmodload zsh/system || ! zmodload -F zsh/files b:zf_rm || __ptyctl_has_files=1
  __ptyctl_maps=(${(f)"$(bindkey -l)"})
  __ptyctl_find_keys
  typeset -ga precmd_functions preexec_functions zshaddhistory_functions
  zshaddhistory_functions=(${zshaddhistory_functions:#__ptyctl_addhistory} __ptyctl_addhistory)
  precmd_functions=(__ptyctl_precmd ${precmd_functions:#__ptyctl_precmd})
  preexec_functions=(${preexec_functions:#__ptyctl_preexec} __ptyctl_preexec)
}
