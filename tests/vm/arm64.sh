#!/bin/sh
# Prints the directory of a Debian 12 for ARM64 with the last commit of this checkout, and its
# environment, in /srv/ioh: tests/vm/boot.sh boots it.  Makes it if it is missing, which takes half
# an hour, since its programs run by qemu-user.  Needs root.
#
#   tests/vm/arm64.sh KERNEL_DIR
set -eu

kernel=$1
checkout=$(CDPATH='' cd -P "$(dirname "$0")/../.." && pwd)
made=${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/ioh/chroots/arm64
formats=/proc/sys/fs/binfmt_misc
if ! [ -e "$made/ready" ]; then
    [ -e $formats/register ] || mount -t binfmt_misc binfmt_misc $formats
    # Its flag F makes the chroot work without the emulator in it.
    [ -e $formats/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$formats/register
    rm -rf --one-file-system "$made"
    ARCHITECTURE=arm64 "$checkout/tests/chroot/make.sh" bookworm "$made" >&2
    "$checkout/tests/chroot/enter.sh" "$made" sh -c './ioh.sh --setup yes &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends busybox-static \
        kmod procps iproute2 nftables e2fsprogs xfsprogs btrfs-progs fio postgresql' >&2
    touch "$made/ready"
fi
git -C "$checkout" archive HEAD | tar -C "$made/srv/ioh" -xf -
mkdir -p "$made$kernel"
cp -R "$kernel/." "$made$kernel/"
echo "$made"
