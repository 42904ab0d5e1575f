#!/bin/sh
# Runs a command as root in a system that tests/chroot/make.sh made, in its checkout.
#
#   tests/chroot/enter.sh DIR COMMAND...
#
# The system shares this machine's kernel, so that kernel tests run for real, and the kernels kept
# for virtual machines.  All mounts are in a namespace of the command's own and vanish with it:
# outside, DIR is a plain tree, and removing it cannot reach this machine's /dev.
set -eu

if [ "${1-}" != --mounted ]; then
    exec unshare --mount --propagation slave "$0" --mounted "$@"
fi
chroot=$(cd "$2" && pwd)
shift 2

# A root that is a mount point, as on any machine: `unshare --mount` changes its propagation.
mount --rbind "$chroot" "$chroot"
for source in proc sys dev; do
    mount --rbind "/$source" "$chroot/$source"
    mount --make-rslave "$chroot/$source"
done
kernels=${XDG_CACHE_HOME:-${HOME:-/var/cache}/.cache}/ioh/kernels
mkdir -p "$kernels" "$chroot/srv/cache/ioh/kernels"
mount --bind "$kernels" "$chroot/srv/cache/ioh/kernels"

# A clean environment: what works here must not depend on this machine's settings.
# shellcheck disable=SC2016
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb XDG_CACHE_HOME=/srv/cache \
    chroot "$chroot" sh -c 'cd /srv/ioh && exec "$@"' sh "$@" </dev/null
