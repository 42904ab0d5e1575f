# Every target is one call of the launcher, which sets up what it needs.
.PHONY: run test test-vm test-programs test-servers test-distros lint bench soak fuzz

# With USERLAND=trixie or the like, the virtual machine has that Debian's programs and libraries.
in_chroot = $(if $(USERLAND),USERLAND="$(USERLAND)" ./ioh.sh --test-distros env)

run:
	./ioh.sh

test:
	./ioh.sh --test

test-vm:
	$(in_chroot) KERNEL="$(KERNEL)" VM_TESTS="$(VM_TESTS)" ./ioh.sh --test-vm

test-programs:
	./ioh.sh --test-programs

test-servers:
	./ioh.sh --test-servers

test-distros:
	USERLAND="$(USERLAND)" ./ioh.sh --test-distros

lint:
	./ioh.sh --lint

bench:
	./ioh.sh --bench

soak:
	./ioh.sh --soak

fuzz:
	./ioh.sh --fuzz
