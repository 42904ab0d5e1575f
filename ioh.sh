#!/bin/sh
# Runs ioh from this checkout; on first use it installs what is missing, and says so before.
#
#   ./ioh.sh [ioh's arguments]           ioh itself; through sudo where it needs root
#   ./ioh.sh --test [pytest's arguments] linters, unit tests and, as root, kernel tests;
#                                        with a test file among the arguments, only that one
#   ./ioh.sh --test-vm [arguments]       kernel and NFS tests in a virtual machine
#   ./ioh.sh --lint                      linters only
#   ./ioh.sh --bench [arguments]         what ioh costs, compared with bpftrace
#   ./ioh.sh --setup                     install what is missing, then stop
#
# IOH_PYTHON        a Python 3.10 or newer, where /usr/bin/python3 is older
# IOH_KERNEL_TESTS  --test: 1 = the kernel tests must run, 0 = leave them out
# KERNEL            --test-vm: 5.10, 6.1 (default), 6.12, newest, or several, beside each other
# VM_TESTS          --test-vm: all (default); short = one transfer size only; kernel = calls, TCP,
#                   requests; for one of several kernels: KERNEL="6.1 newest:short"
#
# POSIX sh: it must start on a machine that has nothing but this checkout.
set -eu

said=
say() {
    said=$*
    printf 'ioh.sh: %s\n' "$said" >&2
}
die() {
    say "$*"
    exit 1
}

# --- Where things are, and whether they are ready: builtins, one id and one cksum ----------

case $0 in */*) root=${0%/*} ;; *) root=. ;; esac
[ ! -L "$0" ] || root=$(dirname "$(readlink -f "$0")")
root=$(CDPATH='' cd -P "${root:-/}" && pwd)
uid=$(id -u)
# Any change of these, or of the checkout's place, leads to setup(), which looks closer.
wanted=$(cksum "$root/ioh.sh" "$root/pyproject.toml") || die "$root is not a whole checkout"
newline='
'
venv=$root/.venv
dev=  # yes: with what the linters and tests need
foreign=  # root in somebody else's checkout: leave no file there that its owner cannot remove
if [ "$uid" = 0 ]; then
    owner=$(stat -c %u:%g "$root")
    [ "${owner%:*}" = 0 ] || foreign=$owner
fi

can_sudo() { command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }

# The stamp: cksum's two lines, then where the distribution's bcc is ("none": not to be had,
# "later": root can install it).
venv_ready() {
    [ -x "$venv/bin/python" ] && [ -r "$venv/ioh.stamp" ] || return 1
    stamped='' stamped_bcc=''
    while IFS= read -r line; do
        stamped=$stamped${stamped_bcc:+$newline$stamped_bcc} stamped_bcc=$line
    done <"$venv/ioh.stamp"
    [ "$stamped" = "$newline$wanted" ] && { [ -z "$dev" ] || [ -e "$venv/ioh.dev" ]; }
}

ready() {
    venv_ready && case $stamped_bcc in
    none) ;;
    later) [ "$uid" != 0 ] && ! can_sudo ;;
    *) [ -e "$stamped_bcc" ] ;;
    esac
}

# --- Distribution packages ------------------------------------------------------------------

manager=
for name in apt-get dnf zypper; do
    [ -n "$manager" ] || ! command -v "$name" >/dev/null || manager=$name
done

package() { # the distribution's package for one thing we need
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
    *:losetup) echo util-linux ;;
    *:modprobe) echo kmod ;;
    *:xz) echo xz-utils ;;
    apt-get:qemu-system-x86_64) echo qemu-system-x86 ;;
    apt-get:busybox) echo busybox-static ;;
    apt-get:rpc.nfsd) echo nfs-kernel-server ;;
    apt-get:mount.nfs) echo nfs-common ;;
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
    # Lists that look fresh can name versions that the mirror no longer has.
    apt_refresh
    apt_get install --no-install-recommends "$@"
}

# Returns 1 where it cannot be done, with the reason in $reason.
install_packages() {
    reason=
    if [ -z "$manager" ]; then
        reason="no apt-get, dnf or zypper here: install $* yourself"
    elif [ "$uid" != 0 ] && ! can_sudo; then
        reason="only root can: $manager install $*"
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

# One clause out of the log of what just failed, with the next step.
cause() {
    # The log may be on the full disk itself, and empty.
    if grep -qi 'no space left on device' "$log" || ! printf '%4096s\n' '' 2>/dev/null >>"$log"; then
        echo "the disk is full; free some space, then run this again"
    elif grep -qi 'certificate verify failed' "$log"; then
        echo "the server's TLS certificate is not trusted; add your proxy's authority" \
            "(update-ca-certificates, or PIP_CERT=file), then run this again"
    elif grep -Eqi 'could not (resolve|connect)|temporary failure|network is unreachable|no route to|connection (refused|timed out)|NewConnectionError|ConnectTimeout' "$log"; then
        echo "no network, or a proxy is needed (https_proxy); then run this again"
    else
        echo "$(grep -E '^(E:|ERROR|Error|[A-Za-z]*Error:)' "$log" | tail -n 1) (all of it: $log)"
    fi
}

# --- Python ---------------------------------------------------------------------------------

too_old() {
    die "Python $1 is too old, ioh needs 3.10 or newer: use Debian 12, Ubuntu 22.04 or later, or" \
        "install a newer Python beside it and set IOH_PYTHON to it"
}

find_python() { # the distribution's own first: it comes with bcc
    found=
    set -- /usr/bin/python3 /usr/bin/python3.1[0-9] /usr/local/bin/python3
    [ -z "${IOH_PYTHON-}" ] || set -- "$IOH_PYTHON"
    for python; do
        [ -x "$python" ] || continue
        version=$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            continue
        case $version in
        3.[0-9] | 2.*) found=${found:-$version} ;;
        *) return 0 ;;
        esac
    done
    python=
    return 1
}

apt_python_is_too_old() { # before anything is installed for nothing
    apt_lists_are_fresh || apt_refresh
    found=$(apt-cache show --no-all-versions python3 2>/dev/null | sed -n 's/^Version: \(3\.[0-9]*\).*/\1/p')
    case $found in 3.[0-9]) ;; *) return 1 ;; esac
}

find_bcc() {
    # The import proves that it is the kernel tool and not PyPI's program of the same name.
    bcc=$(/usr/bin/python3 -W ignore -I -c 'import bcc; bcc.BPF; print(bcc.__file__)' 2>/dev/null)
}

setup_system() {
    set --
    if ! find_python; then
        [ -z "${IOH_PYTHON-}" ] || [ -n "$found" ] || die "IOH_PYTHON=$IOH_PYTHON is no Python"
        newer=
        case $manager:${IOH_PYTHON-}$found in
        apt-get:) ! apt_python_is_too_old || too_old "$found" ;;
        *:) ;;
        dnf:3.9) newer=python3.12 ;; # RHEL 9 has it beside its own
        zypper:3.6) newer=python311 ;; # so has SUSE 15
        *) too_old "$found" ;;
        esac
        if [ -n "$newer" ]; then set -- "$newer"; else set -- python3 "$(package venv)"; fi
    elif ! "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then
        set -- "$(package venv)"
    fi
    needed=$#
    find_bcc || set -- "$@" "$(package bcc)"
    [ $# = 0 ] && return
    if ! install_packages "$@"; then
        [ "$needed" = 0 ] || die "$reason"
        say "no BPF: $reason"
    fi
    find_python || too_old "${found:-(none)}"
    find_bcc || bcc=none
    [ "$bcc" != none ] || [ "$uid" = 0 ] || bcc=later
}

# One dependency a line, out of pyproject.toml; $1 is the name of the list.
requirements() { sed -n "/^$1 = \[/,/^\]/s/^ *\"\([^\"]*\)\".*/\1/p" "$root/pyproject.toml"; }

# All that makes one environment differ from another; the number is of build_venv itself.
recipe() {
    printf '%s\n' "1 $root" "$(requirements dependencies)"
    [ -z "$dev" ] || requirements dev
}

build_venv() { # aside, then moved: whoever starts meanwhile sees the old one or the new one
    new=$venv.new.$$
    set -f
    # shellcheck disable=SC2046
    set -- $(requirements dependencies) $([ -z "$dev" ] || requirements dev)
    set +f
    say "making $venv with Python $version and, from PyPI: $*"
    # python3.N: the next upgrade of the distribution will not swap it for another version.
    # ensurepip apart from venv, which would keep its reason for failing to itself.
    if ! logged "$(readlink -f "$python")" -I -m venv --system-site-packages --without-pip "$new" ||
        ! logged "$new/bin/python" -I -m ensurepip --default-pip; then
        die "cannot make $venv: $(cause)"
    fi
    set -- --quiet --no-input --retries 2 --disable-pip-version-check "$@"
    [ "$uid" != 0 ] || set -- --no-cache-dir --root-user-action=ignore "$@"
    # Without PyPI the distribution's own packages will do, where it has them all.
    if ! logged "$new/bin/python" -I -m pip install --ignore-installed "$@" &&
        ! "$new/bin/python" -I -m pip install --no-index "$@" >/dev/null 2>&1; then
        die "cannot install what ioh needs from PyPI: $(cause)"
    fi
    for site in "$new"/lib/python3*/site-packages; do
        printf '%s\n' "$root" >"$site/ioh.pth"
        # A Python other than the distribution's does not look where its bcc is.
        [ ! -e "$bcc" ] || "$new/bin/python" -I -c 'import bcc' 2>/dev/null ||
            ln -s "${bcc%/*}" "$site/bcc"
    done
    # Scripts name the directory that they were made in.
    grep -lI "${new##*/}" "$new"/bin/* "$new/pyvenv.cfg" |
        while IFS= read -r script; do sed -i "s|${new##*/}|${venv##*/}|g" "$script"; done
    [ -z "$dev" ] || : >"$new/ioh.dev"
    recipe >"$new/ioh.recipe"
    write_stamp "$new"
    "$new/bin/python" -I -m compileall -q "$root/ioh" >/dev/null 2>&1 || :
    [ ! -e "$venv" ] || mv "$venv" "$venv.old.$$"
    mv "$new" "$venv"
    rm -rf "$venv.old.$$"
}

write_stamp() {
    printf '%s\n' "$wanted" "$bcc" >"$1/ioh.stamp.$$" || die "cannot write $1: is the disk full?"
    mv "$1/ioh.stamp.$$" "$1/ioh.stamp"
}

give_back() { # what root made in a checkout of somebody else's
    [ -n "$foreign" ] || return 0
    for made in .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache; do
        [ ! -e "$root/$made" ] || chown -Rh "$foreign" "$root/$made"
    done
    find "$root/ioh" "$root/tests" -name __pycache__ -prune -exec chown -Rh "$foreign" {} +
}

setup() {
    ready && return
    [ ! -e "$venv/ioh.dev" ] || dev=yes
    mask=$(umask)
    umask 022 # ioh gives up root: others must be able to read what root installs
    mkdir -p "${venv%/*}" || die "cannot write ${venv%/*}: set XDG_DATA_HOME to a place that can be"
    log=$(mktemp) || die "cannot write ${TMPDIR:-/tmp}: is the disk full?"
    new=
    trap 'case $said in *"$log"*) ;; *) rm -f "$log" ;; esac; rm -rf "$new"; give_back' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # The kernel lets go of this lock however we end.  Some network file systems lack it.
    exec 9<"${venv%/*}"
    status=0
    flock -n 9 2>/dev/null || status=$?
    if [ "$status" = 1 ]; then
        say "waiting for another ioh.sh that is setting up"
        flock -w 1200 9 || :
    fi
    if ! ready; then
        setup_system
        if [ -x "$venv/bin/python" ] && [ "$(recipe)" = "$(cat "$venv/ioh.recipe" 2>&1)" ]; then
            write_stamp "$venv"
        else
            build_venv
        fi
    fi
    exec 9<&-
    rm -f "$log"
    give_back
    trap - EXIT INT TERM HUP
    umask "$mask"
}

# --- What to run ----------------------------------------------------------------------------

needs_root() { # does ioh look at this machine, or only at a file?
    case ${1-} in
    '' | -*) ;;
    record) # -o - is stdout, and no recording to be read
        for argument; do
            case $argument in -h | --help | --version) return 1 ;; esac
        done
        return
        ;;
    text | json | doctor) shift ;;
    *) return 1 ;;
    esac
    before=
    for argument; do
        case $argument in
        -h | --help | --version | -) return 1 ;;
        esac
        case $before in
        -*) ;; # the value of an option
        *) [ "$argument" != sample ] && [ ! -f "$argument" ] || return 1 ;;
        esac
        before=$argument
    done
}

run_ioh() {
    if [ "$uid" != 0 ] && needs_root "$@" && can_sudo; then
        set -- "$venv/bin/python" -I -B -m ioh "$@"
        # sudo forgets the environment; only asking `env` for it needs no right of its own.
        before=$1
        for name in COLORTERM NO_COLOR CWIDTH PAD; do
            eval "value=\${$name-}"
            [ -z "$value" ] || set -- "$name=$value" "$@"
        done
        [ "$1" = "$before" ] || set -- env "$@"
        exec sudo -- "$@"
    fi
    exec "$venv/bin/python" -I ${foreign:+-B} -m ioh "$@"
}

need_programs() { # installs the packages of those programs among $@ that are not here
    programs=$*
    set --
    for program in $programs; do
        command -v "$program" >/dev/null || set -- "$@" "$(package "$program")"
    done
    [ $# = 0 ] && return
    log=$(mktemp)
    install_packages "$@" || die "$reason"
    rm -f "$log"
}

if ! venv_ready && [ ! -w "$root" ]; then
    home=${XDG_DATA_HOME:-${HOME:-/var/lib}/.local/share}
    venv=$home/ioh/venv-$(printf %s "$root" | cksum | cut -d' ' -f1)
fi

case ${1-} in
--test | --test-vm | --lint | --bench)
    dev=yes
    setup
    # shellcheck source=tests/run.sh
    . "$root/tests/run.sh"
    ;;
--setup) setup ;;
*)
    setup
    run_ioh "$@"
    ;;
esac
