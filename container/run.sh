#!/usr/bin/env bash
# Starts the container with a route to the host's bridge. Arguments are the command; without any, an MCP server on stdin and stdout.
#
#   PM_INTERACTIVE_TERMINAL_TOKEN_FILE   file with the bridge's token (required)
#   PM_INTERACTIVE_TERMINAL_HOST_PORT    port of the bridge (45459)
#   PTYCTL_BRIDGE_ADDRESS                address of the bridge on this machine, for the warning (127.0.0.1)
#   PTYCTL_IMAGE                         image (ptyctl)
#   CONTAINER_ENGINE                     podman or docker
set -euo pipefail

port=${PM_INTERACTIVE_TERMINAL_HOST_PORT:-45459}
address=${PTYCTL_BRIDGE_ADDRESS:-127.0.0.1}
token_file=${PM_INTERACTIVE_TERMINAL_TOKEN_FILE:-}
secret=/run/secrets/ptyctl-bridge-token

fail() {
  echo "run.sh: $1" >&2
  exit 78
}

[[ -n $token_file ]] || fail "PM_INTERACTIVE_TERMINAL_TOKEN_FILE is missing; name the file with the bridge's token"
[[ -r $token_file ]] || fail "$token_file cannot be read"
[[ $port =~ ^[0-9]{1,5}$ ]] || fail "PM_INTERACTIVE_TERMINAL_HOST_PORT must be a port"
engine=${CONTAINER_ENGINE:-$(command -v podman || command -v docker || true)}
[[ -n $engine ]] || fail "neither podman nor docker is installed"

# Preflight: a warning only, as the bridge may be started later.
if ! (exec 3<>"/dev/tcp/$address/$port") 2>/dev/null; then
  echo "run.sh: warning: nothing listens at $address:$port; start the bridge: ptyctl bridge --listen $address:$port" >&2
fi
if [[ $(basename "$engine") == docker && ($address == 127.* || $address == localhost || $address == ::1) ]]; then
  echo "run.sh: warning: containers of docker do not reach $address; let the bridge listen at docker's address, such as 172.17.0.1" >&2
fi

options=(
  run --rm --interactive --init
  --add-host host.containers.internal:host-gateway
  --add-host host.docker.internal:host-gateway
  --user "$(id -u):$(id -g)" --env HOME=/tmp
  --volume "$(realpath "$token_file"):$secret:ro"
  --env "PM_INTERACTIVE_TERMINAL_TOKEN_FILE=$secret"
  --env "PM_INTERACTIVE_TERMINAL_HOST_PORT=$port"
)
# With a user namespace, the user of the container must be the one who can read the token.
[[ $(basename "$engine") != podman ]] || options+=(--userns keep-id)
for name in PM_TERM_ADAPTER_MODE PM_TERM_ALIAS_PHASE PM_INTERACTIVE_TERMINAL_HOST_ALIAS PM_INTERACTIVE_TERMINAL_HOST_FALLBACK_ALIAS \
  PM_INTERACTIVE_TERMINAL_CONNECT_TIMEOUT_MS PM_INTERACTIVE_TERMINAL_REQUEST_TIMEOUT_MS PM_INTERACTIVE_TERMINAL_TRACE_BRIDGE; do
  [[ -z ${!name:-} ]] || options+=(--env "$name=${!name}")
done
exec "$engine" "${options[@]}" "${PTYCTL_IMAGE:-ptyctl}" "$@"
