#!/bin/sh
# Run ioh from this checkout.  The first run installs missing packages, after saying so.
#
#   ./ioh.sh [ioh's arguments]           run ioh; with sudo if it needs root
#   ./ioh.sh --test [pytest's arguments] linters (alone: --lint), unit and, as root, kernel tests;
#                                        with a test file among the arguments, only that file
#   ./ioh.sh --test-vm [arguments]       kernel and NFS tests in a virtual machine
#   ./ioh.sh --test-programs [arguments] check the findings about real programs (PostgreSQL,
#                                        MariaDB, tar, git and others), which it installs and runs
#   ./ioh.sh --test-servers [arguments]  tests with a browser or a database, which it installs
#   ./ioh.sh --test-distros [command]    launcher, unit and kernel tests in minimal chroots
#   ./ioh.sh --bench [arguments]         measure the cost of ioh, compared with bpftrace
#   ./ioh.sh --soak [minutes]            check for hours that ioh does not grow and loses nothing
#   ./ioh.sh --fuzz [seconds [seed]]     read malicious recordings for an hour
#   ./ioh.sh --setup [yes]               install what is missing (yes: also for tests); as root,
#                                        compile the probes for this kernel; then exit
#   ./ioh.sh --install [PREFIX]          install a root-owned copy in PREFIX (/opt/ioh), and `ioh`
#   /opt/ioh/ioh.sh --uninstall          remove that copy and all that --install made
#
# IOH_PYTHON        a Python 3.10 or newer, if /usr/bin/python3 is older
# IOH_KERNEL_TESTS  --test: 1 = the kernel tests must run, 0 = skip them
# KERNEL, VM_TESTS, USERLAND   for --test-vm and --test-distros: see docs/contributing.md
#
# POSIX sh: it must start on a machine that has only this checkout.
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

# --- Paths, and whether the setup is current; only builtins, one id and one cksum -----------

system_path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
uid=$(PATH=$system_path id -u)
if [ "$uid" = 0 ]; then # sudo's caller must not choose programs or libraries for root
    PATH=$system_path
    export PATH
    unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT GCONV_PATH PYTHONEXECUTABLE __PYVENV_LAUNCHER__
fi
case $0 in */*) root=${0%/*} ;; *) root=. ;; esac
[ ! -L "$0" ] || root=$(dirname "$(readlink -f "$0")")
root=$(CDPATH='' cd -P "${root:-/}" && pwd)
lock=$root/requirements.lock
# If one of these, or the checkout's path, has changed, setup() checks the details.
wanted=$(cksum "$root/ioh.sh" "$root/pyproject.toml" "$lock") ||
    die "$root is not a complete checkout"
newline='
'
venv=$root/.venv
told_bcc=
dev=  # yes: also install what the linters and tests need
foreign=  # the owner, if root runs another user's checkout: leave no file he cannot remove
if [ "$uid" = 0 ]; then
    owner=$(stat -c %u:%g "$root")
    [ "${owner%:*}" = 0 ] || foreign=$owner
fi

can_sudo() { # run $1, or without it anything; perhaps with a password from the terminal
    command -v sudo >/dev/null || return
    if [ -z "${1-}" ]; then
        [ -t 0 ] || sudo -n true 2>/dev/null
    elif ! refusal=$(LC_ALL=C sudo -n -l "$1" 2>&1 >/dev/null); then
        case $refusal in *password*) [ ! -t 0 ] || return 0 ;; esac
        say "sudo does not run $1 without a password: ioh has only /proc"
        return 1
    fi
}

as_owner() { # files in another user's checkout are created by that user
    command -v setpriv >/dev/null ||
        die "root does not own $root: run ./ioh.sh --setup as its owner, or install util-linux"
    setpriv --reuid "${foreign%:*}" --regid "${foreign#*:}" --clear-groups -- "$@" </dev/null
}

warn_of_others() { # if users other than root and sudo's caller can change what root runs
    place=$root/ioh
    set -- "$venv/."
    while [ -n "$place" ]; do set -- "$@" "$place/." && place=${place%/*}; done
    # A sticky directory such as /tmp protects its files.
    changer=$(find "$@" /. -prune \( ! -user 0 ! -user "${SUDO_UID:-0}" -printf 'user %U' -quit \) -o \
        ! -perm -1000 \( -perm -002 -printf 'everybody' -quit -o \
        -perm -020 ! -group 0 ! -group "${SUDO_GID:-0}" -printf 'group %G' -quit \)) || :
    [ -z "$changer" ] ||
        say "root runs $root, which others can change ($changer); --install makes a safe copy"
}

# The stamp has cksum's three lines, then the path of the distribution's bcc ("none": not
# available, "later": root can install it).
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

# --- Python ---------------------------------------------------------------------------------

too_old() {
    die "Python $1 is too old, ioh needs 3.10 or newer: use Debian 12, Ubuntu 22.04 or later, or" \
        "install a newer Python and set IOH_PYTHON to its path"
}

find_python() { # prefer the distribution's own: bcc comes with it
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

apt_python_is_too_old() { # checked before installing anything in vain
    apt_lists_are_fresh || apt_refresh
    found=$(apt-cache show --no-all-versions python3 2>/dev/null | sed -n 's/^Version: \(3\.[0-9]*\).*/\1/p')
    case $found in 3.[0-9]) ;; *) return 1 ;; esac
}

find_bcc() {
    # The import checks that it is the kernel tool, not PyPI's package of the same name.
    bcc=$(/usr/bin/python3 -W ignore -I -c 'import bcc; bcc.BPF; print(bcc.__file__)' 2>/dev/null)
}

setup_system() {
    set --
    if ! find_python; then
        [ -z "${IOH_PYTHON-}" ] || [ -n "$found" ] || die "IOH_PYTHON=$IOH_PYTHON is not a Python"
        newer=
        case $manager:${IOH_PYTHON-}$found in
        apt-get:) ! apt_python_is_too_old || too_old "$found" ;;
        *:) ;;
        dnf:3.9) newer=python3.12 ;; # an extra package of RHEL 9
        zypper:3.6) newer=python311 ;; # and of SUSE 15
        *) too_old "$found" ;;
        esac
        if [ -n "$newer" ]; then set -- "$newer"; else set -- python3 "$(package venv)"; fi
    elif ! "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then
        set -- "$(package venv)"
    fi
    needed=$#
    find_bcc || [ -n "$told_bcc" ] || set -- "$@" "$(package bcc)"
    [ $# = 0 ] && return
    if ! install_packages "$@"; then
        [ "$needed" = 0 ] || die "$reason"
        say "no BPF: $reason"
    fi
    find_python || too_old "${found:-(none)}"
    find_bcc || bcc=none
    [ "$bcc" != none ] || [ "$uid" = 0 ] || bcc=${told_bcc:-later}
}

# One dependency per line from pyproject.toml; $1 is the name of the list.
requirements() { sed -n "/^$1 = \[/,/^\]/s/^ *\"\([^\"]*\)\".*/\1/p" "$root/pyproject.toml"; }

# Everything that determines the environment; the number is the version of build_venv.
recipe() {
    printf '%s\n' "2 $root" "$(requirements dependencies)" "$(cksum <"$lock")"
    [ -z "$dev" ] || requirements dev
}

build_venv() { # elsewhere, then moved: a concurrent start sees the old or the new one
    new=$venv.new.$$
    set -f
    # shellcheck disable=SC2046
    set -- $(requirements dependencies) $([ -z "$dev" ] || requirements dev)
    set +f
    say "creating $venv with Python $version and these packages from PyPI, in about a minute: $*"
    needed=$*
    # python3.N: an upgrade of the distribution must not replace it by another version.
    # ensurepip separately, because venv hides why it failed.
    if ! logged "$(readlink -f "$python")" -I -m venv --system-site-packages --without-pip "$new" ||
        ! logged "$new/bin/python" -I -m ensurepip --default-pip; then
        die "cannot create $venv: $(cause)"
    fi
    # Only wheels, so that packages run no code here, and with the hashes of the lock file.
    set -- -I -m pip install --quiet --no-input --retries 2 --disable-pip-version-check
    [ "$uid" != 0 ] || set -- "$@" --no-cache-dir --root-user-action=ignore
    set -f
    # Without PyPI, the distribution's own packages are used if it has all of them.
    # shellcheck disable=SC2046,SC2086
    if ! { logged "$new/bin/python" "$@" --ignore-installed --only-binary :all: \
        --require-hashes -r "$lock" && { [ -z "$dev" ] ||
        logged "$new/bin/python" "$@" --only-binary :all: $(requirements dev); }; } &&
        ! "$new/bin/python" "$@" --no-index $needed >/dev/null 2>&1; then
        die "cannot install what ioh needs from PyPI: $(cause)"
    fi
    set +f
    for site in "$new"/lib/python3*/site-packages; do
        printf '%s\n' "$root" >"$site/ioh.pth"
        # A Python other than the distribution's does not find its bcc.
        [ ! -e "$bcc" ] || "$new/bin/python" -I -c 'import bcc' 2>/dev/null ||
            ln -s "${bcc%/*}" "$site/bcc"
    done
    # Scripts contain the path in which they were created.
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

give_back() { # to the owner of the checkout: files that root created there
    [ -n "$foreign" ] || return 0
    for made in .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache; do
        [ ! -e "$root/$made" ] || chown -Rh "$foreign" "$root/$made"
    done
    find "$root/ioh" "$root/tests" -name __pycache__ -prune -exec chown -Rh "$foreign" {} +
}

setup() {
    ready && return
    # shellcheck source=contrib/packages.sh
    . "$root/contrib/packages.sh"
    [ ! -e "$venv/ioh.dev" ] || dev=yes
    mask=$(umask)
    umask 022 # ioh drops root: other users must be able to read what root installs
    mkdir -p "${venv%/*}" || die "cannot write ${venv%/*}: set XDG_DATA_HOME to another directory"
    log=$(mktemp) || die "cannot write ${TMPDIR:-/tmp}: is the disk full?"
    new=
    trap 'case $said in *"$log"*) ;; *) rm -f "$log" ;; esac; rm -rf "$new"; give_back' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    # The kernel drops this lock however ioh.sh ends.  Some network file systems lack it.
    exec 9<"${venv%/*}"
    status=0
    flock -n 9 2>/dev/null || status=$?
    if [ "$status" = 1 ]; then
        say "waiting for the setup of another ioh.sh"
        flock -w 1200 9 || :
    fi
    if ! ready; then
        setup_system
        if [ -n "$foreign" ] && [ "$venv" = "$root/.venv" ]; then
            exec 9<&- # the owner's setup takes the lock
            as_owner sh "$root/ioh.sh" --setup "${dev:-no}" "$bcc" || exit
            venv_ready || die "the owner of $root could not create $venv"
        elif [ -x "$venv/bin/python" ] && [ "$(recipe)" = "$(cat "$venv/ioh.recipe" 2>&1)" ]; then
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

needs_root() { # does this command measure this machine, or only read a file?
    case ${1-} in
    '' | -*) ;;
    record | bench) # here - is stdout, not a recording to read
        case $1:${2-} in bench:report | bench:compare | bench:card) return 1 ;; esac
        for argument; do
            case $argument in -h | --help | --version | --plans) return 1 ;; esac
        done
        return
        ;;
    text | json | serve | doctor) shift ;;
    *) return 1 ;;
    esac
    before=
    for argument; do
        case $argument in
        -h | --help | --version | -) return 1 ;;
        esac
        case $before in
        -*) ;; # the value of an option
        *) [ "$argument" != sample ] && [ "$argument" != demo ] && [ ! -f "$argument" ] || return 1 ;;
        esac
        before=$argument
    done
}

run_ioh() {
    if [ "$uid" != 0 ] && needs_root "$@"; then
        # The name in the sudo rule that docs/security.md recommends.
        program=$(sed -n '1s|$|/bin/ioh|p' "$root/installed.txt" 2>/dev/null) || :
        if can_sudo "$program"; then
            [ -n "$program" ] || set -- "$venv/bin/python" -I -B -m ioh "$@"
            # sudo drops the environment; neither `env` nor the program needs an extra rule for it.
            for name in COLORTERM NO_COLOR CWIDTH PAD; do
                eval "value=\${$name-}"
                [ -z "$value" ] || set -- "$name=$value" "$@"
            done
            exec sudo -- "${program:-env}" "$@"
        fi
    fi
    exec "$venv/bin/python" -I ${foreign:+-B} -m ioh "$@"
}

compile_probes() { # each is compiled once for a kernel; root alone can write the cache
    venv_ready && case $stamped_bcc in none | later) return ;; esac
    "$venv/bin/python" -I ${foreign:+-B} -m ioh.commands.prepare || :
}

need_programs() { # installs the packages of the missing programs among $@
    # shellcheck source=contrib/packages.sh
    . "$root/contrib/packages.sh"
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

verb=${1-}
[ ! -L "$0" ] || verb= # a sudo rule may name the link: it runs ioh, and nothing else
case $verb in
--install | --uninstall)
    # shellcheck source=contrib/install.sh
    . "$root/contrib/install.sh"
    ;;
--test | --test-vm | --test-programs | --test-servers | --test-distros | --lint | --bench | --soak | --fuzz)
    [ -e "$root/tests/run.sh" ] || die "$1 needs a checkout: $root has no tests"
    dev=yes
    setup
    # shellcheck source=tests/run.sh
    . "$root/tests/run.sh"
    ;;
--setup) # more arguments come from root, for the owner of the checkout
    [ "${2-}" != yes ] || dev=yes
    told_bcc=${3-}
    setup
    [ "$uid" != 0 ] || compile_probes
    ;;
--run) # from the program that --install makes; its caller may have no right to anything but ioh
    shift
    while :; do
        case ${1-} in
        COLORTERM=* | NO_COLOR=* | CWIDTH=* | PAD=*) export "${1?}" ;;
        *) break ;;
        esac
        shift
    done
    venv=$root/.venv
    venv_ready || die "the system has changed: run sudo $root/ioh.sh --setup"
    run_ioh "$@"
    ;;
*)
    setup
    [ "$uid" != 0 ] || warn_of_others
    [ "${1-}" != bench ] || ! needs_root "$@" || need_programs fio
    run_ioh "$@"
    ;;
esac
