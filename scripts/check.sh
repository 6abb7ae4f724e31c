#!/bin/sh
# `npm test` runs this under the pinned Node, quickest first: lint and format, types, then all tests or the named ones.
set -eu
biome ci .
tsc
tsc -p dashboard
exec vitest run "$@"
