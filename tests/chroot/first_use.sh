#!/bin/sh
# Runs the launcher on a machine that has nothing: BPF must then feed all of this kernel's layers.
#
#   tests/chroot/first_use.sh SUITE DIR     makes DIR, and leaves it for more
set -eu

here=$(dirname "$0")
"$here/make.sh" "$1" "$2"
"$here/enter.sh" "$2" ./ioh.sh json -t 3 >"$2.json"
# From the first interval on: whoever asks for text or JSON waits for the probes.
for layer in syscall tcp block; do
    sources=$(grep -o "\"$layer\":{\"source\":\"[a-z]*\"" "$2.json" | cut -d'"' -f6 | sort -u)
    echo "$1: $layer is measured by ${sources:-nothing}"
    [ "$sources" = bpf ] || failed=yes
done
[ -z "${failed-}" ]
