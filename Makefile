# Every target is one call of the launcher, which sets up what it needs.
.PHONY: run test lint bench

run:
	./ioh.sh

test:
	./ioh.sh --test

lint:
	./ioh.sh --lint

bench:
	./ioh.sh --bench
