# SPDX-License-Identifier: GPL-2.0-or-later
# make check: find the walls of Debian's own kernel. make test: pass the tests.
# Both set up all that they need first.

PARTYWALL = .venv/bin/partywall

.PHONY: setup check test test-unit test-guest test-recorder lint bench doctor clean

setup:
	@scripts/setup

check: setup
	@$(PARTYWALL) check

doctor:
	@scripts/setup --no-kernel
	@$(PARTYWALL) doctor

test: setup-dev lint test-recorder test-unit test-guest

.PHONY: setup-dev
setup-dev:
	@scripts/setup --dev

lint: setup-dev
	@scripts/lint

test-recorder: setup-dev
	cargo test --quiet --offline --manifest-path recorder/Cargo.toml

test-unit: setup-dev
	.venv/bin/pytest tests/unit

test-guest: setup-dev
	.venv/bin/pytest tests/guest

bench: setup
	@.venv/bin/python -m bench

clean:
	rm -rf .venv recorder/target
