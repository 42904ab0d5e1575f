# shellcheck shell=sh
# Runs tests in virtual machines, one for each kernel in $KERNEL; tests/run.sh sources it.

# One run of pytest each: the modules' tests need a machine without an NFS mount, and the last
# ones share an ioh, since starting one takes half a minute.  test_nfs_findings.py runs by name only:
# its thresholds were changed after its last run here.
vm_module_tests="tests/vm/test_modules.py"
vm_nfs_tests="tests/vm/test_nfs_proc.py tests/vm/test_nfs_counts.py tests/vm/test_nfs_trouble.py"
# One transfer size instead of three: what CI runs on its second kernel.
vm_short_tests="tests/vm/test_nfs_proc.py tests/vm/test_nfs_counts.py -k '131072 or not equal'"

vm_command() { # the machine's one command: pytest on each line of arguments
    printf 'uname -r >"%s/ran-on"; status=0\n' "$vm_out"
    printf 'export IOH_KERNEL_TESTS=1 PYTHONDONTWRITEBYTECODE=1 PATH="%s:$PATH"\n' "$venv/bin"
    for vm_line; do
        printf 'python -m pytest -p no:cacheprovider --durations=5 %s || status=$?\n' "$vm_line"
    done
    printf 'exit $status\n'
}

# It cannot pass without having run: the exit status and the kernel's version come from inside.
test_in_vm() { # $1 is the kernel, the rest are pytest's arguments
    kernel_dir=$("$root/tests/vm/kernel.sh" "$1") || return
    shift
    vm_out=$(mktemp -d)
    vm_status=0
    VM_OUT=$vm_out VM_TIMEOUT_S=${VM_TIMEOUT_S:-1500} \
        "$root/tests/vm/boot.sh" "$kernel_dir" "$(vm_command "$@")" || vm_status=$?
    if [ "$vm_status" = 0 ] && ! cmp -s "$vm_out/ran-on" "$kernel_dir/version"; then
        say "the tests did not run on the kernel that was asked for"
        vm_status=1
    fi
    rm -rf "$vm_out"
    return "$vm_status"
}

test_in_vms() {
    if [ $# != 0 ]; then
        set -- "$*"
    elif [ "${VM_TESTS:-all}" = short ]; then
        set -- "$vm_short_tests"
    else
        set -- "$vm_module_tests" "$vm_nfs_tests"
    fi
    for kernel_name in ${KERNEL:-6.1}; do
        step "tests in a virtual machine, Linux $kernel_name" test_in_vm "$kernel_name" "$@"
    done
}
