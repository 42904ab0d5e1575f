# shellcheck shell=sh
# Runs tests in minimal chroots of the distributions in $USERLAND; tests/run.sh sources it.

# What the distribution's compiler, Python, programs and libraries can do to exact counts: some tests
# of each layer.  The kernel is this machine's, where all of them have run.
chroot_kernel_tests="
    tests/kernel/test_fio.py
    tests/kernel/test_functions.py
    tests/kernel/test_syscall_calls.py::test_each_call_counts_once_in_its_class
    tests/kernel/test_syscall_calls.py::test_fsyncs_and_fdatasyncs_of_fio_are_counted
    tests/kernel/test_tcp.py::test_bytes_equal_what_programs_moved
    tests/kernel/test_tcp.py::test_retransmits_equal_the_kernels
    tests/kernel/test_block.py::test_discards_and_flushes_equal_diskstats
    tests/kernel/test_block.py::test_the_processes_bytes_add_up_to_the_devices"
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
        # Where this machine is of the same release, --test runs them with the same Python and bcc.
        if [ "$suite" != "$(. /etc/os-release && echo "${VERSION_CODENAME-}")" ]; then
            in_queue kernel "$suite: kernel tests" \
                env IOH_KERNEL_TESTS=1 ./ioh.sh --test $chroot_kernel_tests
            [ "${CHROOT_TESTS:=all}" = kernel ] ||
                in_queue cpu "$suite: unit tests" nice -n 19 ./ioh.sh --test -n auto tests/unit
        fi
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
