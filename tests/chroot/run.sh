#!/bin/sh
# Proves the README's commands on a machine that has nothing: a minimal Debian in a chroot.
#
#   tests/chroot/run.sh SUITE [command ...]     SUITE: bookworm, trixie, bullseye ...
#
# Copies the last commit in and runs there, as root, what is given, else ./ioh.sh for three
# ticks and ./ioh.sh --test.  Needs root, debootstrap and a network.  It shares this machine's
# kernel, so the kernel tests run for real.
#
# CHROOT_BASE    a directory to keep minimal systems in, so that the next run starts sooner
# DEBIAN_MIRROR  where Debian comes from; debootstrap's own choice otherwise
set -eu

suite=${1:?"usage: $0 SUITE [command ...]"}
shift
[ $# -gt 0 ] || set -- sh -c './ioh.sh text -c 1 -t 3 && ./ioh.sh --test'
checkout=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/var/tmp}/ioh-chroot.XXXXXX")
chroot=$work/$suite
mounted='' # innermost first

leave() {
    for target in $mounted; do umount -R "$target"; done
    # What ran inside may have left mounts of its own, such as network namespaces.
    cut -d' ' -f5 /proc/self/mountinfo | grep -F "$work/" | sort -r |
        while IFS= read -r target; do umount "$target"; done
    # Only a tree with nothing mounted in it may be removed: /dev below is this machine's.
    if grep -qF " $work" /proc/self/mountinfo; then
        echo "$0: still mounted below $work, left as it is" >&2
    else
        rm -rf --one-file-system "$work"
    fi
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

base=${CHROOT_BASE:-$work/base}/$suite.tar
if [ ! -e "$base" ]; then
    mkdir -p "${base%/*}"
    # shellcheck disable=SC2086
    debootstrap --variant=minbase "$suite" "$chroot" ${DEBIAN_MIRROR-} >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log" >&2 && exit 1; }
    tar -C "$chroot" -cf "$base.$$" . && mv "$base.$$" "$base"
else
    mkdir "$chroot"
    tar -C "$chroot" -xf "$base"
fi
cp /etc/resolv.conf "$chroot/etc/resolv.conf"
# The network's own certificate authorities, where a proxy looks into TLS.
mkdir -p "$chroot/usr/local/share/ca-certificates"
cp -R /usr/local/share/ca-certificates/. "$chroot/usr/local/share/ca-certificates/"

mkdir "$chroot/root/ioh"
git -C "$checkout" archive HEAD | tar -C "$chroot/root/ioh" -xf -

# A root that is a mount point, as on any machine: `unshare --mount` changes its propagation.
mount --bind "$chroot" "$chroot"
mounted=$chroot
mount --make-private "$chroot"
for source in proc sys dev; do
    mount --rbind "/$source" "$chroot/$source"
    mounted="$chroot/$source $mounted"
    mount --make-rslave "$chroot/$source"
done

# A clean environment: what works here must not lean on this machine's settings.
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    chroot "$chroot" sh -c 'cd /root/ioh && exec "$@"' sh "$@" </dev/null
