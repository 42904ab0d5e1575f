# shellcheck shell=sh
# The part of ./ioh.sh that only --test, --test-vm, --lint and --bench need; ioh.sh sources it with the
# development environment ready in $venv.

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

# pytest says 5 where no test fits: no fault where the user chose tests by name.
run_pytest() {
    status=0
    python -m pytest "$@" || status=$?
    [ "$status" = 0 ] || { [ "$status" = 5 ] && [ -n "$chosen" ]; }
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
    *) kernel=$(python tests/can_bpf.py) || : ;;
    esac
    IOH_KERNEL_TESTS=$([ -n "$kernel" ] || echo 1)
    export IOH_KERNEL_TESTS
    if [ -n "$selected" ]; then
        step "chosen tests" run_pytest "$@"
    else
        lint
        step "unit tests" run_pytest tests/unit "$@"
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
    need_programs fio nft ip tc mkfs.ext4 mkfs.btrfs mkfs.xfs losetup
    test_all "$@"
    verdict
    ;;
--test-vm)
    need_programs fio nft ip tc mkfs.ext4 losetup qemu-system-x86_64 busybox cpio modprobe xz \
        rpc.nfsd mount.nfs mdadm dmsetup
    # shellcheck source=tests/vm/run.sh
    . "$root/tests/vm/run.sh"
    test_in_vms "$@"
    verdict
    ;;
--lint)
    lint
    verdict
    ;;
--bench)
    need_programs fio bpftrace
    python -m tests.bench "$@"
    ;;
esac
