#!/bin/sh
# What `npm test` runs under the pinned Node, quickest first: lint and form, types, then every test, or those that are named.
set -eu
biome ci .
tsc
tsc -p dashboard
exec vitest run "$@"
