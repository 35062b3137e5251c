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

[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "Tests that need these are skipped; install them to run all:$missing" >&2
	exit 0
fi
echo "Installing for the tests:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq >/dev/null
# shellcheck disable=SC2086 # one word each
apt-get install -y -qq --no-install-recommends $missing >/dev/null
