# SPDX-License-Identifier: Apache-2.0
# Part of ./build: the root of a `flavour=debian` template, by mmdebstrap in a
# mount namespace of its own, so that no mount outlives an interruption.

root_seconds=90

# Run in a mount namespace of its own. Where / is no mount point (in a chroot) its
# propagation cannot be changed; there the folder $1 becomes a private mount first.
debian_unshared()
{
	if mountpoint -q /; then
		shift
		unshare --mount --propagation private "$@"
	else
		unshare --mount --propagation unchanged sh -c '
			mount --bind "$1" "$1" && mount --make-rprivate "$1" &&
			shift && exec "$@"' sh "$@"
	fi
}

# Settings of the host's apt that concern the way to the archive.
debian_aptopt()
{
	apt-config dump Acquire |
		grep -v -e '::IndexTargets' -e '::Changelogs' \
			-e '::CompressionTypes' -e '^Acquire::Languages' \
			-e '^Acquire "' -e '^Acquire::GzipIndexes'
	# registries' credentials stay in the host's own file
	echo 'Dir::Etc::netrcparts "/etc/apt/auth.conf.d/";'
	echo 'Acquire::Languages "none";'
	echo 'APT::Install-Recommends "false";'
}

# npm is one tarball of its registry. curl and node of the new root fetch and
# check it, with this machine's npm configuration and certificates, because a
# fresh host may have neither.
debian_npm()
{
	stage=$1/tmp/caisson-npm
	mkdir -p "$stage"
	for f in /etc/npmrc /usr/etc/npmrc "${HOME:-/root}/.npmrc"; do
		[ -f "$f" ] && cat "$f"
	done >"$stage/npmrc" || :
	cafile=$(sed -n 's/^ *cafile *= *//p' "$stage/npmrc" | tail -n 1)
	for f in "$cafile" "${SSL_CERT_FILE:-}" "${NODE_EXTRA_CA_CERTS:-}" \
		/etc/ssl/certs/ca-certificates.crt; do
		[ -n "$f" ] && [ -f "$f" ] && cat "$f" && break
	done >"$stage/ca.crt" || :
	registry=${npm_config_registry:-$(sed -n 's/^ *registry *= *//p' \
		"$stage/npmrc" | tail -n 1)}
	registry=${registry:-https://registry.npmjs.org/}
	cp /etc/resolv.conf "$stage/resolv.conf"
	cp "$here/npm-fetch.js" "$stage/"
	mv "$1/etc/resolv.conf" "$stage/resolv.saved" 2>/dev/null || :
	cp "$stage/resolv.conf" "$1/etc/resolv.conf"
	REGISTRY=$registry MAJOR=$npm_major chroot "$1" \
		/usr/bin/node /tmp/caisson-npm/npm-fetch.js >"$tmp/npm" ||
		die "npm: $registry did not deliver npm@$npm_major"
	mkdir -p "$1/usr/local/lib/node_modules/npm"
	tar -xzf "$stage/npm.tgz" --strip-components=1 --no-same-owner \
		-C "$1/usr/local/lib/node_modules/npm"
	for b in npm npx; do
		chmod 0755 "$1/usr/local/lib/node_modules/npm/bin/$b-cli.js"
		ln -sf "../lib/node_modules/npm/bin/$b-cli.js" \
			"$1/usr/local/bin/$b"
	done
	rm -rf "$stage" "$1/etc/resolv.conf"
	chroot "$1" /usr/local/bin/npm --version >"$tmp/npm-version" ||
		die "npm does not start in the new root"
}

root_make()
{
	[ -f "$cache/apt/sources.list" ] || apt_prepare
	debian_aptopt >"$tmp/aptopt"
	log=$tmp/mmdebstrap.log
	touch "$tmp/began"
	# --format=directory as root; /dev nodes come from devtmpfs in the guest
	mkdir -p "$1"
	debian_unshared "$1" mmdebstrap --mode=root --format=directory --variant=important \
		--aptopt="$tmp/aptopt" \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-include=/usr/share/doc/*/copyright' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--include="$(echo $packages | tr ' ' ,)" \
		"$suite" "$1" "$cache/apt/sources.list" >"$log" 2>&1 || {
		tail -n 30 "$log" >&2
		die "mmdebstrap failed (its last lines are above)"
	}
	debian_npm "$1"
	rm -f "$1/etc/apt/apt.conf.d/99mmdebstrap"
	# made when the package is configured; they would be every sandbox's
	rm -f "$1"/etc/ssh/ssh_host_*
	rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin \
		"$1"/var/log/*.log "$1"/var/log/apt "$1"/var/cache/ldconfig/*
	mkdir -p "$1/var/lib/apt/lists/partial"
	# the guest's own sources name the public archive, not this host's
	for s in "debian $suite" "debian $suite-updates" \
		"debian-security $suite-security"; do
		echo "deb http://deb.debian.org/$s main"
	done >"$1/etc/apt/sources.list"
	rm -f "$1"/etc/apt/sources.list.d/*
	root_common "$1"
	chroot "$1" useradd --create-home --uid 1000 --shell /bin/bash user
	mkdir -p "$1/etc/sudoers.d"
	echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' >"$1/etc/sudoers.d/user"
	chmod 0440 "$1/etc/sudoers.d/user"
	if [ "$modules" = all ]; then
		mkdir -p "$1/lib/modules"
		cp -a "$cache/kernel/lib/modules/$kernel_version" \
			"$1/lib/modules/"
	fi
	# Times of this build become a constant; those out of packages stay, for
	# compiled Python names its source by time.
	find "$1" -newer "$tmp/began" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	chroot "$1" dpkg-query -W -f '${Package} ${Version}\n' >"$tmp/packages"
	echo "npm $(cat "$tmp/npm-version")" >>"$tmp/packages"
}
