# SPDX-License-Identifier: GPL-2.0-or-later
# make check: find the walls of Debian's own kernel. make test: pass the tests.
# Both set up all that they need first.

PARTYWALL = .venv/bin/partywall

.PHONY: setup check compare test test-unit test-guest test-kernel test-recorder lint bench doctor soak
.PHONY: clean

setup:
	@scripts/setup

check: setup
	@$(PARTYWALL) check

# Builds both kernels first, which takes half an hour on two cores, once.
compare: setup
	@$(PARTYWALL) compare stock partywall

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
	cargo test --quiet --offline --manifest-path partywall/record/recorder/Cargo.toml

test-unit: setup-dev
	.venv/bin/pytest -n auto --maxprocesses 4 tests/unit

# A guest that is recorded keeps one processor busy, and one that is not boots on one:
# so many files of tests run beside each other. Each file's tests share their recordings.
BESIDE = -n auto --maxprocesses 4 --dist loadfile

test-guest: setup-dev
	.venv/bin/pytest $(BESIDE) tests/guest

# What takes minutes and is nearly shown by what test-guest and test-kernel run: before a release.
.PHONY: test-slow
test-slow: setup-dev
	.venv/bin/pytest $(BESIDE) -m slow tests/guest tests/kernel

# Builds kernels first, one of them with sanitizers: 40 minutes on two cores, once.
test-kernel: setup-dev
	.venv/bin/pytest $(BESIDE) tests/kernel

# What finds its faults by chance: races and floods, with sanitizers, for as long as it takes;
# then all of them at once, for so many minutes in each of eight guests.
MINUTES = 20
soak: setup-dev
	.venv/bin/pytest tests/kernel -m soak
	.venv/bin/python tests/kernel/soak.py --minutes $(MINUTES)

# Walls that others found and mended, on three kernels of Debian's and two built ones (docs/known-walls.md): an hour, and
# 700 MB of downloads once. CASES names some of them; --saved scores what was measured.
CASES =
.PHONY: known
known: setup
	@.venv/bin/python tests/known/known.py $(CASES)

# The pages and the picture that the documentation shows; builds both kernels first.
.PHONY: gallery
gallery: setup
	@.venv/bin/python scripts/gallery.py

bench: setup
	@.venv/bin/python -m partywall.clock.overhead

# The program as a wheel, for pip (docs/install.md).
.PHONY: wheel
wheel: setup-dev
	@rm -f dist/partywall-*.whl
	@.venv/bin/python -m hatchling build -t wheel -d dist

# What a release has for pip: the wheel and the sources, held to what a registry asks for.
.PHONY: dist
dist: wheel
	@rm -f dist/partywall-*.tar.gz
	@.venv/bin/python -m hatchling build -t sdist -d dist
	@.venv/bin/python -c 'import twine' 2>/dev/null || .venv/bin/pip install --quiet -e '.[release]'
	@.venv/bin/python -m twine check --strict dist/partywall-*.whl dist/partywall-*.tar.gz

# The pages of docs/ as a site in dist/site, with those of make gallery if they were made. A link
# that leads nowhere is an error.
.PHONY: site
site: setup-dev
	@.venv/bin/python -c 'import sphinx, myst_parser, furo' 2>/dev/null || \
		.venv/bin/pip install --quiet -e '.[site]'
	@rm -rf dist/site
	@.venv/bin/python -m sphinx --fail-on-warning --keep-going --quiet -c scripts/site . dist/site
	@echo "$(CURDIR)/dist/site/index.html"

# The container image, built and tried with buildah in a new root file system (docs/install.md).
.PHONY: image
image:
	@scripts/try-image

# The program as a Debian package, built, installed and tried in new root file systems.
RELEASE = bookworm
.PHONY: deb-program
deb-program:
	@scripts/try-deb $(RELEASE)

# The series as packages of a kernel (docs/kernel-packages.md): an hour and a half on two cores, of the
# generic flavour many more.
FLAVOUR = cloud-amd64
REVISION = 1
.PHONY: deb
deb:
	@scripts/setup --debs --no-kernel
	@$(PARTYWALL) series package dist/$(FLAVOUR) --flavour $(FLAVOUR) --revision $(REVISION)

clean:
	rm -rf .venv dist partywall/record/recorder/target
