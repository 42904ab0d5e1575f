# shellcheck shell=sh
# Runs tests in virtual machines, one for each kernel in $KERNEL; tests/run.sh sources it.

# One run of pytest for each: calls and TCP must not be mixed with NFS's own, the modules' tests
# need a machine without an NFS mount, the played anomalies have an ioh of their own, and the others
# share one, since starting it takes half a minute.  test_nfs_findings.py, test_nfs_hosts.py and
# most of test_nvme_ways.py run only by name.
vm_layer_tests="tests/vm/test_kernel.py tests/vm/test_requests.py"
vm_module_tests="tests/vm/test_modules.py"
vm_nfs_tests="tests/vm/test_nfs_proc.py tests/vm/test_nfs_counts.py tests/vm/test_nfs_files.py"
vm_nfs_tests="$vm_nfs_tests tests/vm/test_nfs_meta.py tests/vm/test_nfs_trouble.py"
vm_nfs_tests="$vm_nfs_tests tests/vm/test_nfs_bench.py"
vm_client_tests="tests/vm/test_nfs_client.py"
vm_remote_disk_tests="tests/vm/test_nvme_ways.py -k network"
vm_findings_tests="tests/vm/test_findings_played.py -k md_resync"
vm_silent_tests="tests/vm/test_silent_disks.py"
# Layer db, which needs Linux 5.15.
vm_function_tests="tests/kernel/test_functions.py"
# One transfer size instead of three: what CI runs on its second kernel.
vm_short_tests="tests/vm/test_nfs_proc.py tests/vm/test_nfs_counts.py -k '131072 or not equal'"
# All that is compared on the outer kernel, too: calls, TCP and requests.  One run for each, which
# reports its failures as soon as it ends: together they take an hour under emulation.
vm_kernel_tests="test_block test_syscall_calls test_tcp test_fio"
# Linux 5.10 has no BTF of modules (5.11, commit 36e68442d1af), and so no NFS through BPF.
vm_tests_without_module_btf="tests/vm/test_nfs_proc.py"

vm_command() { # the machine's one command: pytest on each line of arguments
    printf 'uname -r >"%s/ran-on"; status=0\n' "$vm_out"
    printf 'export IOH_KERNEL_TESTS=1 PATH="%s:$PATH"\n' "$venv/bin"
    for vm_line; do
        printf 'python -m pytest -p no:cacheprovider --durations=5 %s || status=$?\n' "$vm_line"
    done
    printf 'exit $status\n'
}

# It cannot pass without having run: the exit status and the kernel's version come from inside.
test_in_vm() { # $1 is the kernel, the rest are pytest's arguments
    kernel_dir=$("$root/tests/vm/kernel.sh" "$1") || return
    case $1 in
    *-arm64)
        VM_ROOT=$("$root/tests/vm/arm64.sh" "$kernel_dir") || return
        venv=/srv/ioh/.venv
        export VM_ROOT
        ;;
    esac
    case $1 in
    5.10 | *-arm64) ;;
    *) [ "$uid" != 0 ] || python -m tests.vm.prepare "$kernel_dir" || return ;;
    esac
    shift
    vm_out=$(mktemp -d)
    vm_status=0
    VM_OUT=$vm_out VM_TIMEOUT_S=${VM_TIMEOUT_S:-3000} \
        "$root/tests/vm/boot.sh" "$kernel_dir" "$(vm_command "$@")" || vm_status=$?
    if [ "$vm_status" = 0 ] && ! cmp -s "$vm_out/ran-on" "$kernel_dir/version"; then
        say "the tests did not run on the kernel that was asked for"
        vm_status=1
    fi
    rm -rf "$vm_out"
    return "$vm_status"
}

tests_on() { # $1 is the kernel, $2 the set of tests; the rest are pytest's arguments
    kernel_name=$1
    tests=$2
    shift 2
    if [ $# != 0 ]; then
        test_in_vm "$kernel_name" "$*"
        return
    fi
    case $kernel_name:$tests in
    *-arm64:* | *:kernel)
        : "${VM_TIMEOUT_S:=5400}"
        for vm_file in $vm_kernel_tests; do set -- "$@" "tests/kernel/$vm_file.py"; done
        ;;
    5.10:*)
        say "Linux 5.10 has no BTF of modules: only what needs none is run"
        set -- "$vm_layer_tests" "$vm_tests_without_module_btf"
        ;;
    *:short) set -- "$vm_layer_tests" "$vm_short_tests" ;;
    *:all | *:local | *:nfs)
        # In two machines, these take half as long.
        [ "$tests" = nfs ] ||
            set -- "$vm_layer_tests" "$vm_function_tests" "$vm_module_tests" "$vm_silent_tests" \
                "$vm_remote_disk_tests" "$vm_findings_tests"
        [ "$tests" = local ] || set -- "$@" "$vm_nfs_tests" "$vm_client_tests"
        ;;
    *)
        say "VM_TESTS: all, local, nfs, short or kernel, not $tests"
        return 2
        ;;
    esac
    test_in_vm "$kernel_name" "$@"
}

# Several machines run at a time, as many as there are CPUs: an emulated one uses one.
test_in_vms() {
    : "${KERNEL:=6.1}"
    case $KERNEL in
    *' '*) test_beside "$@" ;;
    *)
        vm_tests=${KERNEL#*:}
        [ "$vm_tests" != "$KERNEL" ] || vm_tests=${VM_TESTS:-all}
        step "tests in a virtual machine, Linux $KERNEL" tests_on "${KERNEL%%:*}" "$vm_tests" "$@"
        ;;
    esac
}

# Each with a launcher of its own, in as many queues as there are CPUs.
test_beside() {
    vm_queues=$(mktemp -d)
    vm_count=0
    for vm_kernel in $KERNEL; do
        # The launcher has the lock, and not flock(1): who ends the launcher waits for it.
        # shellcheck disable=SC2016
        start "tests in a virtual machine, Linux $vm_kernel" \
            sh -c 'exec 7>"$1" && flock 7 && shift && exec env "$@"' sh \
            "$vm_queues/$((vm_count % $(nproc)))" \
            KERNEL="$vm_kernel" "$root/ioh.sh" --test-vm "$@"
        vm_count=$((vm_count + 1))
    done
    finish
    rm -rf "$vm_queues"
}
