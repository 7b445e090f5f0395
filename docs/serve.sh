#!/usr/bin/env bash
# Takes docs/serve.png, a picture of the page of hippo serve: bash docs/serve.sh [MODEL]
# MODEL is a model without a chat template. By default the script trains the preset tiny, which takes some minutes on
# two cores. It needs Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
server=
finish() {
	[[ -z $server ]] || kill "$server" 2>/dev/null || true
	rm -rf "$tmp"
}
trap finish EXIT

CGO_ENABLED=0 go build -o "$tmp/hippo" ./cmd/hippo
model=${1-$tmp/run}
[[ -n ${1-} ]] || "$tmp/hippo" train --out "$model"
"$tmp/hippo" serve "tiny=$model" --listen 127.0.0.1:0 2>"$tmp/log" &
server=$!
address=
until [[ -n $address ]]; do
	kill -0 "$server" || {
		cat "$tmp/log"
		exit 1
	}
	sleep 0.1
	address=$(sed -n 's/.*"address":"\(http[^"]*\)".*/\1/p' "$tmp/log" | head -n 1)
done
(cd internal/browser && go run ./picture "$address" "$OLDPWD/docs/serve.png")
