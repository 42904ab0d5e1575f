# Every target is one call of the launcher, which sets up what it needs.
.PHONY: run test test-vm lint bench

run:
	./ioh.sh

test:
	./ioh.sh --test

test-vm:
	KERNEL="$(KERNEL)" ./ioh.sh --test-vm

lint:
	./ioh.sh --lint

bench:
	./ioh.sh --bench
