#!/bin/sh
# Runs one command as root inside a virtual machine on a stock Debian kernel.
#
#   tests/vm/boot.sh KERNEL_DIR COMMAND...
#
# The machine's root is this one's, copy-on-write, so the working tree, the Python and the tools
# are the same; what the command writes is lost, except in the directory $VM_OUT.  The console goes
# to $VM_OUT/console.log, the command's output to stdout.  Exit status: the command's; 124 when
# it took longer than VM_TIMEOUT_S; 125 when the machine died before the command ended.
# KERNEL_DIR comes from tests/vm/kernel.sh.  Emulated (TCG): works where KVM does not.
# VM_ROOT, a directory with another system, takes the place of this machine's root; its checkout is
# in /srv/ioh, and the kernel in a directory of the same name.
set -eu

kernel_dir=$1
shift
version=$(cat "$kernel_dir/version")
system=${VM_ROOT:-/}
working_dir=$PWD
[ "$system" = / ] || working_dir=/srv/ioh
case $kernel_dir in
*-arm64)
    qemu=qemu-system-aarch64
    hardware='-machine virt,gic-version=3 -cpu neoverse-n1'
    terminal=ttyAMA0
    ;;
*)
    qemu=qemu-system-x86_64
    hardware='-machine q35,usb=off,vmport=off -cpu max'
    terminal=ttyS0
    ;;
esac
here=$(CDPATH='' cd -P "$(dirname "$0")" && pwd)
VM_OUT=${VM_OUT:-$(mktemp -d)}
mkdir -p "$VM_OUT"
VM_OUT=$(CDPATH='' cd -P "$VM_OUT" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ioh-vm.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' TERM HUP
trap 'exit 130' INT
rm -f "$VM_OUT/status"
truncate -s 4G "$scratch/disk.img" "$scratch/tmp.img"
truncate -s 2G "$scratch/small.img"

# --- The initial ramdisk: busybox and the modules that lead to this machine's root ------------

rd=$scratch/rd
mkdir -p "$rd/bin" "$rd/mod" "$rd/stage" "$rd/proc" "$rd/sys" "$rd/dev" \
    "$rd/low" "$rd/up" "$rd/new"
cp "$(PATH=$system/usr/bin:$system/bin command -v busybox)" "$rd/bin/busybox"
number=10
for module in $(/sbin/modprobe -d "$kernel_dir" -S "$version" -a --show-depends \
    virtio_pci 9p 9pnet_virtio overlay virtio_blk virtio_console virtio_rng |
    awk '/^insmod/ && !seen[$2]++ { print $2 }'); do
    name=${module##*/}
    case $name in # busybox' insmod takes them uncompressed only
    *.xz) xz -dc "$module" >"$rd/mod/$number-${name%.xz}" ;;
    *.zst) zstd -dcq "$module" >"$rd/mod/$number-${name%.zst}" ;;
    *) cp "$module" "$rd/mod/$number-$name" ;;
    esac
    number=$((number + 1))
done
cp "$here/initrd-init" "$rd/init"
cp "$here/guest-init" "$rd/stage/init"
{
    printf 'out=%s\nworking_dir=%s\nkernel_dir=%s\n' "'$VM_OUT'" "'$working_dir'" "'$kernel_dir'"
    printf 'seconds=%s\n' "$(date +%s)"
} >"$rd/stage/settings"
printf '%s\n' "$*" >"$rd/stage/command"
chmod +x "$rd/init"
(cd "$rd" && find . | cpio -o -H newc --quiet) >"$scratch/initrd"

# --- The machine ------------------------------------------------------------------------------

# QEMU before 8.1 (commit deba78709ae8) can keep the translation of an instruction that another CPU
# was just patching: once a tracepoint had been attached or detached, CPUs met its int3 for ever,
# in memory that had none any more, and the guest was locked up.  There they share one thread.
thread=$($qemu --version | awk -F '[ .]' '
    NR == 1 { print ($4 > 8 || ($4 == 8 && $5 >= 1)) ? "multi" : "single" }')

# --foreground: what ends this script's process group must end the machine, too.
# `| cat`: with stdout a file, two of QEMU's writers would overwrite each other.
{
    status=0
    # shellcheck disable=SC2086
    timeout --foreground -k 5 "${VM_TIMEOUT_S:-600}" $qemu $hardware \
        -nodefaults -no-user-config -no-reboot -display none \
        -accel tcg,thread="$thread",tb-size=512 \
        -smp 2 -m "${VM_MEMORY_MB:-3072}" \
        -kernel "$kernel_dir/vmlinuz" -initrd "$scratch/initrd" \
        -append "console=$terminal panic=-1 oops=panic mitigations=off quiet tsc=reliable \
no_timer_check random.trust_cpu=on audit=0 apparmor=0 ${VM_APPEND:-}" \
        -chardev file,id=console,path="$VM_OUT/console.log" -serial chardev:console \
        -device virtio-rng-pci \
        -fsdev local,id=host,path="$system",security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -fsdev local,id=out,path="$VM_OUT",security_model=none \
        -device virtio-9p-pci,fsdev=out,mount_tag=out \
        -drive if=none,id=disk,file="$scratch/disk.img",format=raw,cache=unsafe,discard=unmap \
        -device virtio-blk-pci,drive=disk \
        -drive if=none,id=tmp,file="$scratch/tmp.img",format=raw,cache=unsafe,discard=unmap \
        -device virtio-blk-pci,drive=tmp \
        -drive if=none,id=small,file="$scratch/small.img",format=raw,cache=unsafe,discard=unmap \
        -device virtio-blk-pci,drive=small,queue-size=32 \
        -device virtio-serial-pci -chardev file,id=said,path=/proc/self/fd/1,append=on \
        -device virtserialport,chardev=said,name=said </dev/null || status=$?
    echo "$status" >"$scratch/qemu-status"
} | cat
if [ "$(cat "$scratch/qemu-status")" = 124 ]; then
    echo "boot.sh: the command took longer than ${VM_TIMEOUT_S:-600} s" >&2
    exit 124
fi
if ! [ -s "$VM_OUT/status" ]; then
    echo "boot.sh: the machine died; the end of its console:" >&2
    tail -n 25 "$VM_OUT/console.log" >&2
    exit 125
fi
exit "$(cat "$VM_OUT/status")"
