#!/bin/sh
# Prints the directory of a stock Debian kernel for tests/vm/boot.sh; fetches it if it is missing.
#
#   tests/vm/kernel.sh 5.10|6.1|6.12|newest     with -arm64 appended: for ARM64
#
# The package is unpacked, not installed: this machine's own packages, kernels and apt sources
# stay as they are.  In the directory: vmlinuz, lib/modules and version.
set -eu

name=${1-}
architecture=amd64
[ "${name%-arm64}" = "$name" ] || architecture=arm64
case ${name%-arm64} in
5.10) suite=bullseye ;;
6.1) suite=bookworm ;;
6.12) suite=trixie ;;
newest) suite=sid ;;
*)
    echo "kernel.sh: which kernel? 5.10, 6.1, 6.12 or newest" >&2
    exit 2
    ;;
esac
cache=${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/ioh/kernels
dir=$cache/$name
if [ -s "$dir/version" ]; then
    echo "$dir"
    exit
fi

new=$dir.new.$$
trap 'rm -rf "$new"' EXIT
mkdir -p "$new/apt/lists/partial" "$new/apt/archives/partial" "$new/root"

apt() { # a command of apt-get or apt-cache that knows nothing but this one suite
    program=$1
    shift
    "$program" -qq -o "Dir::Etc::sourcelist=$new/apt/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o "Dir::State=$new/apt" -o "Dir::State::lists=$new/apt/lists" \
        -o Dir::State::status=/dev/null -o "Dir::Cache=$new/apt" \
        -o APT::Sandbox::User=root -o Acquire::Check-Valid-Until=false \
        -o Acquire::Languages=none -o APT::Architecture=$architecture \
        -o APT::Architectures=$architecture "$@"
}

# A suite that has reached its end moves from the first place to the second.
for mirror in http://deb.debian.org/debian http://archive.debian.org/debian; do
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
        >"$new/apt/sources.list"
    echo "kernel.sh: asking $mirror for the kernel of $suite" >&2
    if apt apt-get update >&2 && apt apt-cache show linux-image-$architecture >/dev/null; then
        break
    fi
done
package=$(apt apt-cache depends linux-image-$architecture |
    sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
if [ -z "$package" ]; then
    echo "kernel.sh: no kernel package of Debian $suite to be had" >&2
    exit 1
fi
# Since 7.2 the package is empty and needs two more, with the kernel and its modules.
packages=$package\ $(apt apt-cache depends "$package" |
    sed -nE 's/.*Depends: (linux-(binary|modules)-[0-9].*)/\1/p' | tr '\n' ' ')
echo "kernel.sh: fetching $packages" >&2
# shellcheck disable=SC2086
(cd "$new/apt/archives" && apt apt-get download $packages >&2)
for file in "$new"/apt/archives/*.deb; do
    dpkg-deb -x "$file" "$new/root"
done
mv "$(find "$new/root" -type f -name 'vmlinuz*' | head -n 1)" "$new/vmlinuz"
if [ -d "$new/root/usr/lib/modules" ]; then # since Debian 13
    mv "$new/root/usr/lib" "$new/lib"
else
    mv "$new/root/lib" "$new/lib"
fi
set -- "$new"/lib/modules/*
version=${1##*/}
/sbin/depmod -b "$new" "$version"
rm -rf "$new/root" "$new/apt"
echo "$version" >"$new/version"
# A directory that another run has made meanwhile may be in use: it stays.
[ -s "$dir/version" ] || { rm -rf "$dir" && mv "$new" "$dir"; }
echo "$dir"
