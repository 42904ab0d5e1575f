# shellcheck shell=sh
# The distribution's packages: names, and how to install them.  ioh.sh sources this file if
# something is missing.

# shellcheck disable=SC2154  # uid, log come from ioh.sh
manager=
for name in apt-get dnf zypper; do
    [ -n "$manager" ] || ! command -v "$name" >/dev/null || manager=$name
done

package() { # the distribution's package for a program or module
    case $manager:$1 in
    apt-get:bcc) echo python3-bpfcc ;;
    *:bcc) echo python3-bcc ;;
    apt-get:venv) echo python3-venv ;;
    *:venv) echo python3-pip ;;
    *:nft) echo nftables ;;
    dnf:ip) echo iproute ;;
    dnf:tc) echo iproute-tc ;;
    *:ip | *:tc) echo iproute2 ;;
    *:mkfs.ext4) echo e2fsprogs ;;
    apt-get:mkfs.btrfs | dnf:mkfs.btrfs) echo btrfs-progs ;;
    *:mkfs.btrfs) echo btrfsprogs ;;
    *:mkfs.xfs) echo xfsprogs ;;
    dnf:dmsetup | zypper:dmsetup) echo device-mapper ;;
    *:losetup | *:unshare) echo util-linux ;;
    *:modprobe) echo kmod ;;
    *:xz) echo xz-utils ;;
    apt-get:qemu-system-x86_64) echo qemu-system-x86 ;;
    apt-get:qemu-system-aarch64) echo qemu-system-arm ;;
    apt-get:qemu-aarch64-static) echo qemu-user-static ;;
    apt-get:busybox) echo busybox-static ;;
    apt-get:rpc.nfsd) echo nfs-kernel-server ;;
    apt-get:mount.nfs) echo nfs-common ;;
    apt-get:initdb | apt-get:pgbench) echo postgresql ;;
    *:systemd-analyze) echo systemd ;;
    *:initdb) echo postgresql-server ;;
    *:pgbench) echo postgresql-contrib ;;
    dnf:psycopg) echo python3-psycopg3 ;;
    *:psycopg) echo python3-psycopg ;;
    zypper:mariadbd) echo mariadb ;;
    *:mariadbd) echo mariadb-server ;;
    *:sshd) echo openssh-server ;;
    apt-get:mdb_copy) echo lmdb-utils ;;
    *:mdb_copy) echo lmdb ;;
    *) echo "$1" ;;
    esac
}

as_root() {
    if [ "$uid" = 0 ]; then "$@"; else sudo -- "$@"; fi
}

logged() { "$@" </dev/null >>"$log" 2>&1 9<&-; }

apt_get() {
    logged as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 LC_ALL=C \
        apt-get -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
}

apt_lists_are_fresh() {
    set -- /var/lib/apt/lists/*_Packages*
    [ -e "$1" ] && [ -n "$(find /var/lib/apt/lists/partial -prune -mtime -1 2>/dev/null)" ]
}

apt_refresh() {
    say "fetching the lists of packages (apt-get update)"
    apt_get update || :
}

apt_install() {
    apt_lists_are_fresh || apt_refresh
    apt_get install --no-install-recommends "$@" && return
    # Fresh lists may still name versions that the mirror no longer has.
    apt_refresh
    apt_get install --no-install-recommends "$@"
}

# Returns 1 on failure, with the reason in $reason.
install_packages() {
    reason=
    if [ -z "$manager" ]; then
        reason="no apt-get, dnf or zypper here: install $* yourself"
    elif [ "$uid" != 0 ] && ! can_sudo; then
        reason="root is needed: $manager install $*"
    else
        say "installing with $manager: $*"
        case $manager in
        apt-get) apt_install "$@" ;;
        dnf) logged as_root dnf -y -q install "$@" ;;
        zypper) logged as_root zypper --non-interactive --quiet install --no-recommends "$@" ;;
        esac || reason="$manager install $* failed: $(cause)"
    fi
    [ -z "$reason" ]
}

# Why the last command failed, from its log, with the next step.
cause() {
    # If the log is itself on the full disk, it may be empty.
    if grep -qi 'no space left on device' "$log" || ! printf '%4096s\n' '' 2>/dev/null >>"$log"; then
        echo "the disk is full; free some space, then run this again"
    elif grep -qi 'certificate verify failed' "$log"; then
        echo "the server's TLS certificate is not trusted; add your proxy's authority" \
            "(update-ca-certificates, or PIP_CERT=file), then run this again"
    elif grep -Eqi 'could not (resolve|connect)|temporary failure|network is unreachable|no route to|connection (refused|timed out)|NewConnectionError|ConnectTimeout' "$log"; then
        echo "no network, or a proxy is needed (https_proxy); fix that, then run this again"
    else
        echo "$(grep -E '^(E:|ERROR|Error|[A-Za-z]*Error:)' "$log" | tail -n 1) (full log: $log)"
    fi
}
