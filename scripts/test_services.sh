#!/bin/sh
# Installs the programs that tests need and that Python's packages cannot bring: a sandbox, a container engine, a browser, a database.
# Without root or apt-get it only says what is missing; those tests are then skipped, or fail where CI=true.
set -eu

missing=
while read -r program package; do
	command -v "$program" >/dev/null 2>&1 || missing="$missing $package"
done <<-LIST
	bwrap bubblewrap
	podman podman
	runc runc
	busybox busybox-static
	chromium chromium
	git git
	sshd openssh-server
	cc gcc
	pg_ctlcluster postgresql
	redis-server redis-server
	pgbouncer pgbouncer
	faketime faketime
LIST

# Chromium without windows: tests of the page take it if it is there, and half of the CPU time. Not every system has it.
windowless=chromium-headless-shell
! command -v $windowless >/dev/null 2>&1 && apt-cache show $windowless >/dev/null 2>&1 || windowless=

postgres=$(ls /usr/lib/postgresql 2>/dev/null | sort -n | tail -n 1)
vectors=/usr/share/postgresql/$postgres/extension/vector.control
[ -n "$missing$windowless" ] || [ ! -e "$vectors" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "Tests that need these are skipped; install them to run all:${missing:- pgvector for PostgreSQL}" >&2
	exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null
install() { apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
if [ -n "$missing" ]; then
	echo "Installing for the tests:$missing" >&2
	# shellcheck disable=SC2086 # one word each
	install $missing
fi
[ -z "$windowless" ] || install $windowless || echo "Tests of the page take the whole chromium instead" >&2

# Where this Debian has no package of pgvector, it is built from the source package of a newer one.
build_pgvector() {
	install "postgresql-server-dev-$postgres" gcc make
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	mkdir "$folder/parts" "$folder/lists"
	awk -v RS= '!/-security/ { print; print "" }' /etc/apt/sources.list.d/debian.sources |
		sed -e 's/^Types:.*/Types: deb-src/' -e 's/^Suites:.*/Suites: trixie/' >"$folder/parts/newer.sources"
	newer="-qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$folder/parts -o Dir::State::lists=$folder/lists"
	built="-s with_llvm=no OPTFLAGS= PG_CONFIG=/usr/lib/postgresql/$postgres/bin/pg_config"
	# shellcheck disable=SC2086 # one word each
	(
		cd "$folder" && apt-get update $newer && apt-get source --download-only $newer pgvector &&
			tar xzf pgvector_*.orig.tar.gz && cd pgvector-*/ && make $built && make $built install
	) >/dev/null 2>"$folder/said" || tail -n 3 "$folder/said" >&2
}

postgres=$(ls /usr/lib/postgresql | sort -n | tail -n 1)
if [ ! -e "/usr/share/postgresql/$postgres/extension/vector.control" ]; then
	echo "Installing for the tests: pgvector" >&2
	install "postgresql-$postgres-pgvector" 2>/dev/null || build_pgvector
fi
