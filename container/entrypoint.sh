#!/bin/sh
# Checks the variables of the bridge to the host's terminals, prints all that is wrong, and starts the command.
# Standard output belongs to the command: messages go to standard error. Exit status 78 (sysexits.h, EX_CONFIG).
set -eu

: "${PM_RUNNING_IN_CONTAINER:=true}"
: "${PM_TERM_ADAPTER_MODE:=auto}"
: "${PM_INTERACTIVE_TERMINAL_HOST_ALIAS:=host.containers.internal}"
: "${PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS:=host.docker.internal}"
: "${PM_INTERACTIVE_TERMINAL_HOST_PORT:=45459}"
: "${PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS:=3000}"
: "${PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS:=30000}"
: "${PM_INTERACTIVE_TERMINAL_TOKEN_FILE:=}"
: "${PM_INTERACTIVE_TERMINAL_TOKEN:=}"
export PM_RUNNING_IN_CONTAINER PM_TERM_ADAPTER_MODE
export PM_INTERACTIVE_TERMINAL_HOST_ALIAS PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS PM_INTERACTIVE_TERMINAL_HOST_PORT
export PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS

MIN_TOKEN=32
faults=0

report() {
  echo "entrypoint: $1" >&2
  faults=$((faults + 1))
}

# check_number NAME VALUE MAXIMUM
check_number() {
  case $2 in
    '' | *[!0-9]* | ??????????*) report "$1 must be a number from 1 to $3" ;;
    *) [ "$2" -ge 1 ] && [ "$2" -le "$3" ] || report "$1 must be a number from 1 to $3" ;;
  esac
}

check_token() {
  token=$PM_INTERACTIVE_TERMINAL_TOKEN
  name=PM_INTERACTIVE_TERMINAL_TOKEN
  if [ -n "$PM_INTERACTIVE_TERMINAL_TOKEN_FILE" ]; then
    name=PM_INTERACTIVE_TERMINAL_TOKEN_FILE
    if [ ! -r "$PM_INTERACTIVE_TERMINAL_TOKEN_FILE" ]; then
      report "$name: the file cannot be read; mount the token of the host's bridge, readable by user $(id -u)"
      return
    fi
    token=$(cat "$PM_INTERACTIVE_TERMINAL_TOKEN_FILE")
  elif [ -z "$token" ]; then
    report "PM_INTERACTIVE_TERMINAL_TOKEN_FILE is missing; mount the token of the host's bridge, and name its file"
    return
  fi
  [ "${#token}" -ge "$MIN_TOKEN" ] || report "$name: the token has fewer than $MIN_TOKEN characters"
}

check_bridge() {
  check_number PM_INTERACTIVE_TERMINAL_HOST_PORT "$PM_INTERACTIVE_TERMINAL_HOST_PORT" 65535
  check_number PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS "$PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS" 600000
  check_number PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS "$PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS" 600000
  check_token
}

case $PM_TERM_ADAPTER_MODE in
  auto) [ "$PM_RUNNING_IN_CONTAINER" != true ] || check_bridge ;;
  container_bridge) check_bridge ;;
  local | bundled) ;;
  *) report "PM_TERM_ADAPTER_MODE must be auto, local, bundled or container_bridge" ;;
esac
[ "$#" -gt 0 ] || report "there is no command to start"

if [ "$faults" -gt 0 ]; then
  echo "entrypoint: not started; see docs/containers.md, Checklist" >&2
  exit 78
fi
exec "$@"
