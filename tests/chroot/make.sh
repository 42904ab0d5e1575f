#!/bin/sh
# Makes a minimal Debian in a directory, with the last commit of this checkout in /srv/ioh, where
# users other than root can read it, as ioh's service user must.
#
#   tests/chroot/make.sh SUITE DIR      SUITE: bookworm, trixie, sid, bullseye ...
#
# What debootstrap makes is kept in ~/.cache/ioh/chroots, so that the next one takes seconds;
# sid moves on, and is made again after a week.  Needs root and, the first time, a network.
#
# DEBIAN_MIRROR  where Debian comes from; debootstrap's own choice otherwise
# ARCHITECTURE   another than this machine's; this machine must be able to run its programs
set -eu

suite=$1
chroot=$2
checkout=$(cd "$(dirname "$0")/../.." && pwd)
kept=${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/ioh/chroots
archive=$kept/$suite${ARCHITECTURE:+-$ARCHITECTURE}.tar

case $suite in
sid | unstable | testing) [ -z "$(find "$archive" -mtime +6 2>/dev/null)" ] || rm -f "$archive" ;;
esac
mkdir -p "$kept" "$chroot"
if [ -e "$archive" ]; then
    tar -C "$chroot" -xf "$archive"
else
    # In a mount namespace of its own: an interrupted debootstrap leaves its mounts.
    # shellcheck disable=SC2086
    unshare --mount debootstrap ${ARCHITECTURE:+--arch="$ARCHITECTURE"} --variant=minbase \
        "$suite" "$chroot" ${DEBIAN_MIRROR-} >"$chroot.log" 2>&1 || { tail -n 5 "$chroot.log" >&2 && exit 1; }
    rm -f "$chroot"/var/cache/apt/archives/*.deb
    tar -C "$chroot" -cf "$archive.$$" . && mv "$archive.$$" "$archive"
fi
cp /etc/resolv.conf "$chroot/etc/resolv.conf"
# The network's own certificate authorities, where a proxy looks into TLS.
if [ -d /usr/local/share/ca-certificates ]; then
    mkdir -p "$chroot/usr/local/share/ca-certificates"
    cp -R /usr/local/share/ca-certificates/. "$chroot/usr/local/share/ca-certificates/"
fi

mkdir -p "$chroot/srv/ioh"
git -C "$checkout" archive HEAD | tar -C "$chroot/srv/ioh" -xf -
