# ptyctl's marks for fish, sourced after the user's configuration; their format is in ptyctl/core/marks.py.
read -g __ptyctl_nonce <$PTYCTL_NONCE_FILE
command rm -f -- $PTYCTL_NONCE_FILE
set -e PTYCTL_NONCE_FILE
set -g __ptyctl_count 0

function __ptyctl_send
    set -g __ptyctl_count (builtin math $__ptyctl_count + 1)
    builtin printf '\e]7717;%s;%s;%s\a' $__ptyctl_nonce $__ptyctl_count (string join ';' $argv)
end
# Follows a command that ptyctl has pasted, before Enter. fish sends no mark for a command that it refuses or finds incomplete, so that
# eval reports its error. The blank keeps fish from expanding an abbreviation at the end.
function __ptyctl_check
    if commandline --is-valid
        commandline --append ' '
        commandline --cursor (string length -- (commandline | string collect))
    else
        commandline --replace -- ' eval '(commandline | string collect | string escape)
    end
end
# Follows Ctrl-C at the prompt, where ptyctl must know that the line is empty: fish sends no mark then, and does not notice the signal
# while it draws.
function __ptyctl_clear
    commandline --replace ''
    __ptyctl_prompt
    commandline --function repaint
end
for __ptyctl_mode in default insert
    bind --mode $__ptyctl_mode \e\[7717~ __ptyctl_check
    bind --mode $__ptyctl_mode \e\[7718~ __ptyctl_clear
end
set -e __ptyctl_mode
function __ptyctl_preexec --on-event fish_preexec
    __ptyctl_send B (string sub --length 4096 -- "$argv[1]" | string collect | string escape --style=url)
end
function __ptyctl_postexec --on-event fish_postexec
    set -g __ptyctl_status $status
    __ptyctl_send E $__ptyctl_status
end
set -g __ptyctl_status 0
function __ptyctl_prompt --on-event fish_prompt
    set -l keys ''
    contains -- "$fish_key_bindings" '' fish_default_key_bindings; or set keys ',vi'
    __ptyctl_send P $__ptyctl_status $keys (string escape --style=url -- $PWD)
end
