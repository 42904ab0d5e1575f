# shellcheck shell=sh
# Runs tests in minimal chroots of the distributions in $USERLAND; tests/run.sh sources it.

# Tests of exact counts, and of what the distribution's bcc and libraries do to them.
chroot_kernel_tests="tests/kernel/test_fio.py tests/kernel/test_syscall_calls.py"
chroot_kernel_tests="$chroot_kernel_tests tests/kernel/test_tcp.py tests/kernel/test_block.py"
chroot_kernel_tests="$chroot_kernel_tests tests/kernel/test_functions.py"
# The probes are compiled there with these kernels' types, NFS's too, whose modules are not on
# this machine.
chroot_kernels="6.1 6.12 newest"

test_in_chroots() { # with arguments, they are the one command to run there
    [ "$uid" = 0 ] || die "only root can make a chroot: run sudo ./ioh.sh --test-distros"
    chroots=$(mktemp -d "${TMPDIR:-/var/tmp}/ioh-chroots.XXXXXX")
    trap 'remove_chroots; give_back' EXIT
    : "${USERLAND:=bookworm trixie sid}"
    if [ $# != 0 ]; then
        for suite in $USERLAND; do
            "$root/tests/chroot/make.sh" "$suite" "$chroots/$suite"
            start "$suite: $*" "$root/tests/chroot/enter.sh" "$chroots/$suite" "$@"
            finish
        done
        return
    fi
    for suite in $USERLAND; do
        start "$suite: the launcher from nothing" \
            "$root/tests/chroot/first_use.sh" "$suite" "$chroots/$suite"
    done
    finish
    compile=".venv/bin/python -m tests.vm.compile_probes"
    for kernel_name in $chroot_kernels; do
        "$root/tests/vm/kernel.sh" "$kernel_name" >/dev/null || failed="$failed, Linux $kernel_name"
        compile="$compile ../cache/ioh/kernels/$kernel_name"
    done
    # Two queues at a time: kernel tests mostly wait, and what only takes the CPU leaves it to
    # them.
    # shellcheck disable=SC2086
    for suite in $USERLAND; do
        in_queue kernel "$suite: kernel tests" \
            env IOH_KERNEL_TESTS=1 ./ioh.sh --test $chroot_kernel_tests
        # Where this machine is of the same release, --test has run them with the same Python.
        [ "${CHROOT_TESTS:=all}" = kernel ] ||
            [ "$suite" = "$(. /etc/os-release && echo "${VERSION_CODENAME-}")" ] ||
            in_queue cpu "$suite: unit tests" nice -n 19 ./ioh.sh --test -n auto tests/unit
        in_queue cpu "$suite: probes for other kernels" nice -n 19 $compile
    done
    finish
}

in_queue() { # $1 names a queue, of which one runs at a time, $2 the step
    queue=$chroots/$1.queue
    title=$2
    shift 2
    start "$title" flock --close "$queue" "$root/tests/chroot/enter.sh" "$chroots/$suite" "$@"
}

remove_chroots() {
    if grep -qF " $chroots" /proc/self/mountinfo; then
        say "still mounted below $chroots, left as it is"
    else
        rm -rf --one-file-system "$chroots"
    fi
}
