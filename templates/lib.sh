# SPDX-License-Identifier: Apache-2.0
# Parts of ./build: progress, a private apt, the guest kernel, the initramfs and
# the file system image. Sourced; needs $cache, $tmp and $progress_fd.

suite=bookworm

die()
{
	echo "template build: $*" >&2
	exit 1
}

# Progress is written in seconds expected, so that a reader can show how much is
# left. plan: the phases to come as "SECONDS words" lines, in order.
plan_total=0
plan_done=0
plan_add()
{
	plan_total=$((plan_total + $1))
}

# phase SECONDS words…: the phase begins; the one before is over.
phase_weight=0
phase()
{
	plan_done=$((plan_done + phase_weight))
	phase_weight=$1
	shift
	line="progress $plan_done $plan_total $*"
	# dash takes one digit only after >&
	case $progress_fd in
	?) echo "$line" >&"$progress_fd" ;;
	*) echo "$line" >>"/dev/fd/$progress_fd" ;;
	esac
}

# The host's own archive entries, mapped to the guest's suite: whatever mirror
# or proxy this machine reaches is what its administrator configured for apt.
apt_uris()
{
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$f" ] || continue
		sed -n 's/^[[:space:]]*deb[[:space:]]*\(\[[^]]*\]\)\{0,1\}[[:space:]]*//p' "$f" |
			awk 'NF >= 2 { print $1, $2 }'
	done
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -f "$f" ] || continue
		awk '
		function flush() {
			if (uri != "" && suites != "" && enabled) {
				n = split(suites, s, " ")
				for (i = 1; i <= n; i++)
					print uri, s[i]
			}
			uri = suites = key = ""; enabled = 1
		}
		BEGIN { enabled = 1 }
		/^#/ { next }
		/^[[:space:]]*$/ { flush(); next }
		/^[^[:space:]]/ { key = tolower($1); $1 = "" }
		key == "uris:" && uri == "" && NF { uri = $1 == "" ? $2 : $1 }
		key == "suites:" { suites = suites " " $0 }
		key == "enabled:" { enabled = ($0 !~ /no/) }
		END { flush() }' "$f"
	done
}

apt_sources()
{
	keyring=
	for k in /usr/share/keyrings/debian-archive-keyring.gpg \
		/usr/share/keyrings/debian-archive-keyring.pgp; do
		[ -f "$k" ] && keyring=$k && break
	done
	[ -n "$keyring" ] ||
		die "no Debian keyring: apt install debian-archive-keyring"
	main=$(apt_uris | awk '$2 ~ /^(bookworm|trixie|forky|sid|stable|testing|unstable)$/ { print $1; exit }')
	security=$(apt_uris | awk '$2 ~ /^(bookworm|trixie|forky|stable|testing)-security$/ { print $1; exit }')
	main=${main:-http://deb.debian.org/debian}
	security=${security:-http://deb.debian.org/debian-security}
	for s in "$main $suite" "$main $suite-updates" \
		"$security $suite-security"; do
		echo "deb [signed-by=$keyring] $s main"
	done
}

# apt with the host's transport settings and nothing else of the host: no
# package of it is looked at or changed.
apt_private()
{
	verb=$1
	shift
	"$verb" -q \
		-o Dir::State="$cache/apt/state" \
		-o Dir::State::status="$cache/apt/status" \
		-o Dir::Cache="$cache/apt/cache" \
		-o Dir::Etc::sourcelist="$cache/apt/sources.list" \
		-o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null \
		-o APT::Architecture=amd64 \
		-o APT::Sandbox::User=root \
		-o Acquire::Languages=none \
		-o Acquire::Retries=3 \
		"$@"
}

apt_prepare()
{
	mkdir -p "$cache/apt/state/lists/partial" \
		"$cache/apt/cache/archives/partial"
	: >"$cache/apt/status"
	apt_sources >"$cache/apt/sources.list"
	apt_private apt-get update >"$tmp/apt.log" 2>&1 || {
		cat "$tmp/apt.log" >&2
		die "apt cannot reach the Debian archive (see above)"
	}
	grep -q '^E:' "$tmp/apt.log" && {
		cat "$tmp/apt.log" >&2
		die "apt cannot read the Debian archive (see above)"
	}
	return 0
}

# fetch_deb PACKAGE: newest version into $cache/debs; prints the file.
fetch_deb()
{
	mkdir -p "$cache/debs" "$tmp/deb"
	(cd "$tmp/deb" && rm -f ./*.deb &&
		apt_private apt-get download "$1" >"$tmp/apt.log" 2>&1) || {
		cat "$tmp/apt.log" >&2
		die "cannot download $1"
	}
	set -- "$tmp"/deb/*.deb
	mv "$1" "$cache/debs/"
	echo "$cache/debs/${1##*/}"
}

# The kernel that the guests run, and busybox for `tiny`, are kept unpacked in
# the cache: a second build needs no network. --refresh looks for newer ones.
kernel_cached()
{
	[ -f "$cache/kernel/version" ] && [ -f "$cache/kernel/busybox" ] &&
		[ "$refresh" = 0 ]
}

kernel_fetch()
{
	! kernel_cached || return 0
	apt_prepare
	image=$(apt_private apt-cache depends linux-image-cloud-amd64 |
		sed -n 's/^ *Depends: \(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
	[ -n "$image" ] || die "the archive has no linux-image-cloud-amd64"
	deb=$(fetch_deb "$image")
	busybox=$(fetch_deb busybox-static)
	rm -rf "$tmp/kernel"
	mkdir -p "$tmp/kernel" "$tmp/busybox"
	dpkg-deb -x "$deb" "$tmp/kernel"
	dpkg-deb -x "$busybox" "$tmp/busybox"
	for b in "$tmp/busybox/bin/busybox" "$tmp/busybox/usr/bin/busybox"; do
		[ -f "$b" ] && cp "$b" "$tmp/kernel/busybox"
	done
	echo "${image#linux-image-}" >"$tmp/kernel/version"
	dpkg-deb -f "$deb" Version >"$tmp/kernel/package-version"
	dpkg-deb -f "$busybox" Version >"$tmp/kernel/busybox-version"
	depmod -b "$tmp/kernel" "${image#linux-image-}" 2>/dev/null ||
		/sbin/depmod -b "$tmp/kernel" "${image#linux-image-}"
	rm -rf "$cache/kernel"
	mv "$tmp/kernel" "$cache/kernel"
	rm -f "$cache"/debs/*.deb
}

# What guestd loads, in this order, before it can see disk, channel and network.
# No balloon: nothing in a guest may discard memory that is mapped from a
# shared base. The *_diag modules let it destroy sockets on a renewal.
guest_modules="virtio_ring virtio virtio_mmio virtio_blk virtio_console
virtio-rng failover net_failover virtio_net inet_diag tcp_diag udp_diag"

# Uncompressed newc: under the software engine unpacking gzip costs more than
# reading the bytes.
initramfs_make()
{
	root=$tmp/initramfs
	mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/run" \
		"$root/modules" "$root/newroot"
	install -m 0755 "$guestd" "$root/init"
	echo "user=$default_user" >"$root/defaults"
	tree=$cache/kernel/lib/modules/$kernel_version
	for m in $guest_modules; do
		ko=$(find "$tree" -name "$m.ko" | head -n 1)
		# a name that is not there is built into the kernel
		[ -n "$ko" ] || continue
		install -m 0644 "$ko" "$root/modules/$m.ko"
		echo "$m" >>"$root/modules/order"
	done
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	(cd "$root" && find . | LC_ALL=C sort |
		cpio --quiet --reproducible -o -H newc -R 0:0) >"$1"
}

# image_make ROOT FILE: an ext4 with a journal, never mounted here. Everything
# is initialised now, so that no kernel thread writes to it in the guest.
image_make()
{
	rm -f "$2"
	truncate -s "${image_mib}M" "$2"
	E2FSPROGS_FAKE_TIME=$SOURCE_DATE_EPOCH mke2fs -q -t ext4 -b 4096 -F \
		-L "caisson-$name" -U "$fs_uuid" -m 1 -O has_journal \
		-E "hash_seed=$fs_uuid,lazy_itable_init=0,lazy_journal_init=0" \
		-d "$1" "$2" || die "mke2fs failed"
	fallocate --dig-holes "$2" 2>/dev/null || :
}

# Files that every guest has, whatever its packages. The gateway's address is
# the constant link address of a slot.
root_common()
{
	mkdir -p "$1/dev" "$1/proc" "$1/sys" "$1/run" "$1/tmp" "$1/etc" \
		"$1/root" "$1/home" "$1/mnt" "$1/var"
	chmod 1777 "$1/tmp"
	chmod 0700 "$1/root"
	echo caisson >"$1/etc/hostname"
	printf '127.0.0.1\tlocalhost\n127.0.1.1\tcaisson\n' >"$1/etc/hosts"
	rm -f "$1/etc/resolv.conf"
	printf 'nameserver 100.64.0.1\noptions timeout:2 attempts:2\n' \
		>"$1/etc/resolv.conf"
	: >"$1/etc/machine-id"
	echo '/dev/vda / ext4 defaults 0 1' >"$1/etc/fstab"
}

json_words()
{
	sep=
	for w in "$@"; do
		printf '%s"%s"' "$sep" "$w"
		sep=,
	done
}
