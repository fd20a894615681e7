#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `./dev demo` after the build: start Caisson, build what templates are missing, run
# real code in real microVMs, and leave it running. Killed at any moment, it can be
# run again.
#
# usage: demo.sh CAISSON-BINARY
set -eu
caisson=$1
start=$(date +%s)

step() { printf '\n[%4ss] %s\n' "$(($(date +%s) - start))" "$*"; }
show() {
	printf '$ caisson'
	for a in "$@"; do
		case $a in *[!a-zA-Z0-9_./:=,+-]*) printf " '%s'" "$a" ;; *) printf ' %s' "$a" ;; esac
	done
	printf '\n'
	"$caisson" "$@"
}

step 'starting Caisson (private PostgreSQL, node daemons, API)'
"$caisson" up

step 'template tiny: busybox on the guest kernel'
"$caisson" template build tiny --if-changed
step 'first microVM'
show run -t tiny -- sh -c 'echo "hello from $(uname -sr), pid 1 is $(cat /proc/1/comm), I am $(id -un)"'
printf 'this machine runs %s\n' "$(uname -sr)"

step 'template base: Debian 12 with python3, node, git, build tools'
"$caisson" template build base --if-changed
step 'Python in a microVM'
show run -- python3 -c 'import platform, sys; print("Python", sys.version.split()[0], "on", platform.release())'
show run -- sh -c 'node --version; git --version; gcc --version | head -n 1'
show node ls
step 'done'

cat <<END

running:  caisson (state /var/lib/caisson, sockets /run/caisson, logs /var/lib/caisson/log): $caisson status
run code: $caisson run -- python3 -c 'print(6 * 7)'
API:      curl -s -H "Authorization: Bearer \$($caisson context key)" http://127.0.0.1:7700/v1/whoami
stop:     $caisson down          (everything it made goes with: ./dev clean)
END
