#!/usr/bin/env bash
# The demonstration of `make run`: serves the bundled model, asks it one question over HTTP, and
# serves until Ctrl-C. Needs only the shell.
#
#   tools/run_demo.sh PROGRAM
set -euo pipefail
program=$1
question='What is the capital of France?'

port_is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

port=8000
if ! port_is_free "$port"; then
    echo "port $port is in use; taking a free port"
    port=0
fi

lines=$(mktemp -u)
mkfifo "$lines"
"$program" serve --port "$port" >"$lines" &
server=$!
exec 3<"$lines"
rm -f "$lines"
# Ctrl-C also reaches the server, which is in the same process group, so this script only waits for
# its exit. A second signal would cut off running answers.
trap 'kill -TERM "$server" 2>/dev/null || true' EXIT
trap 'trap - EXIT; wait "$server" || true; exit 0' INT
trap 'exit 0' TERM

read -r url <&3 || { echo "the server did not start" >&2; exit 1; }
address=${url#http://}
host=${address%:*}
port=${address##*:}
port=${port%%/*}

ask() { # prints the content of the answer
    local messages="[{\"role\":\"user\",\"content\":\"$question\"}]"
    local body="{\"model\":\"osprey-nano\",\"messages\":$messages,\"temperature\":0}"
    exec 4<>"/dev/tcp/$host/$port"
    {
        printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\n' "$address"
        printf 'Content-Type: application/json\r\nContent-Length: %d\r\n' "${#body}"
        printf 'Connection: close\r\n\r\n%s' "$body"
    } >&4
    sed -n 's/.*"content": *"\(\([^"\\]\|\\.\)*\)".*/\1/p' <&4
    exec 4>&-
}

answer=$(ask)
echo
echo "osprey serves the OpenAI API at $url/v1"
echo
echo "  question  $question"
echo "  answer    $answer"
echo
echo "Use any OpenAI client, or chat in the terminal: $program chat"
echo "Ctrl-C stops the server."
wait "$server"
