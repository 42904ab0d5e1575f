# shellcheck shell=sh
# The part of ./ioh.sh that only --test..., --lint, --bench, --soak and --fuzz need; ioh.sh sources
# it with the development environment ready in $venv.

# shellcheck disable=SC2154  # root, venv, foreign come from ioh.sh
PATH=$venv/bin:$PATH:/usr/sbin:/sbin
[ -z "$foreign" ] || export PYTHONDONTWRITEBYTECODE=1
cd "$root" || exit
trap give_back EXIT
passed='' failed=''

step() { # one linter or suite of tests; $1 names it in the verdict
    name=$1
    shift
    printf '== %s\n' "$name"
    if "$@"; then passed="$passed, $name"; else failed="$failed, $name"; fi
}

check_probes() { find probes -name '*.[ch]' -exec clang-format --dry-run -Werror {} +; }

lint() {
    step "ruff check" ruff check --output-format=concise .
    step "ruff format" ruff format --check .
    step mypy mypy --no-error-summary
    step import-linter lint-imports --no-logo
    step clang-format check_probes
    step codespell codespell
}

# pytest exits with 5 if no test matches: no failure if the user chose tests by name.
run_pytest() {
    status=0
    python -m pytest "$@" || status=$?
    [ "$status" = 0 ] || { [ "$status" = 5 ] && [ -n "$chosen" ]; }
}

need_servers() { # installing must not start the distribution's servers: tests start their own
    refusal=/usr/sbin/policy-rc.d
    if [ -d "${refusal%/*}" ] && [ ! -e "$refusal" ]; then
        trap 'rm -f "$refusal"; give_back' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$refusal"
        chmod 755 "$refusal"
    else
        refusal=
    fi
    set -- fio losetup mkfs.ext4 mariadbd sysbench sqlite3 mdb_copy rsync git gcc dpkg pgbench sshd
    # Debian keeps it off the PATH.
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || set -- "$@" initdb
    need_programs "$@"
    [ -z "$refusal" ] || rm -f "$refusal"
    trap give_back EXIT
}

test_all() {
    chosen=$*
    selected=
    for argument; do
        [ ! -e "${argument%%::*}" ] || selected=yes
    done
    case ${IOH_KERNEL_TESTS-} in
    0) kernel="IOH_KERNEL_TESTS=0" ;;
    1) kernel= ;;
    *) kernel=$(python tests/support/can_bpf.py) || : ;;
    esac
    IOH_KERNEL_TESTS=$([ -n "$kernel" ] || echo 1)
    export IOH_KERNEL_TESTS
    if [ -n "$selected" ]; then
        step "chosen tests" run_pytest "$@"
    else
        lint
        # A third of their time is waiting, for processes and terminals.
        PYTEST_XDIST_AUTO_NUM_WORKERS=$(($(nproc 2>/dev/null || echo 1) * 3 / 2))
        export PYTEST_XDIST_AUTO_NUM_WORKERS
        step "unit tests" run_pytest -n auto --dist worksteal tests/unit "$@"
        [ -n "$chosen" ] || step fuzzer python -m tests.fuzz 60 1
        [ -n "$kernel" ] || step "kernel tests" run_pytest tests/kernel "$@"
    fi
}

verdict() {
    [ -z "$failed" ] || die "FAILED: ${failed#, }"
    [ -z "${kernel-}" ] || passed="$passed. THE KERNEL TESTS DID NOT RUN: $kernel"
    say "passed: ${passed#, }"
}

what=$1
shift
case $what in
--test)
    need_programs fio nft ip tc mkfs.ext4 mkfs.btrfs mkfs.xfs losetup mandoc sudo strace
    test_all "$@"
    verdict
    ;;
--test-vm)
    need_programs fio nft ip tc mkfs.ext4 losetup qemu-system-x86_64 busybox cpio modprobe xz \
        rpc.nfsd mount.nfs mdadm dmsetup
    case ${KERNEL-} in
    *-arm64*) need_programs qemu-system-aarch64 qemu-aarch64-static debootstrap unshare git ;;
    esac
    # shellcheck source=tests/beside.sh
    . "$root/tests/beside.sh"
    # shellcheck source=tests/vm/run.sh
    . "$root/tests/vm/run.sh"
    test_in_vms "$@"
    verdict
    ;;
--test-programs)
    [ "$uid" = 0 ] || die "$what needs root: it mounts volumes and runs servers as their users"
    need_servers
    chosen=$*
    step "real programs" run_pytest tests/programs/test_programs.py "$@"
    verdict
    ;;
--test-servers)
    [ "$uid" = 0 ] || die "$what needs root: it runs servers as their users"
    need_servers
    need_programs chromium prometheus systemd-analyze sudo
    python -c 'import psycopg' 2>/dev/null || need_programs psycopg
    chosen=$*
    step "servers and browsers" run_pytest tests/servers "$@"
    verdict
    ;;
--lint)
    lint
    verdict
    ;;
--test-distros)
    need_programs debootstrap unshare git modprobe
    # shellcheck source=tests/beside.sh
    . "$root/tests/beside.sh"
    # shellcheck source=tests/chroot/run.sh
    . "$root/tests/chroot/run.sh"
    test_in_chroots "$@"
    verdict
    ;;
--bench)
    need_programs fio bpftrace
    python -m tests.bench "$@"
    ;;
--soak)
    need_programs fio
    python -m tests.soak "$@"
    ;;
--fuzz)
    python -m tests.fuzz "$@"
    ;;
esac
