#!/usr/bin/env bash
# What `make run` shows: serves the bundled model, asks it one question over HTTP, and goes on serving
# until Ctrl-C. Uses nothing but the shell.
#
#   tools/run_demo.sh PROGRAM
set -euo pipefail
program=$1
question='What is the capital of France?'

port_is_free() { ! (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

port=8000
if ! port_is_free "$port"; then
    echo "port $port is taken; any free one will do"
    port=0
fi

lines=$(mktemp -u)
mkfifo "$lines"
"$program" serve --port "$port" >"$lines" &
server=$!
exec 3<"$lines"
rm -f "$lines"
# Ctrl-C reaches the server too (one process group), so then there is only its end to wait for: a
# second signal would cut off clients in the middle of their answers.
trap 'kill -TERM "$server" 2>/dev/null || true' EXIT
trap 'trap - EXIT; wait "$server" || true; exit 0' INT
trap 'exit 0' TERM

read -r url <&3 || { echo "the server did not start" >&2; exit 1; }
address=${url#http://}
host=${address%:*}
port=${address##*:}
port=${port%%/*}

ask() { # prints the answer's content
    local body="{\"model\":\"osprey-nano\",\"messages\":[{\"role\":\"user\",\"content\":\"$question\"}],\"temperature\":0}"
    exec 4<>"/dev/tcp/$host/$port"
    printf 'POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
        "$address" "${#body}" "$body" >&4
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
echo "Ask it with any OpenAI client, or in the terminal: $program chat"
echo "Ctrl-C ends it."
wait "$server"
