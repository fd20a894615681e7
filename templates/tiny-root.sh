# SPDX-License-Identifier: Apache-2.0
# Part of ./build: the root of a `flavour=busybox` template.

root_seconds=1

# root_make DIR; writes the package list to $tmp/packages
root_make()
{
	mkdir -p "$1/bin" "$1/sbin" "$1/usr/bin" "$1/usr/sbin"
	root_common "$1"
	install -m 0755 "$cache/kernel/busybox" "$1/bin/busybox"
	# --install makes absolute links from where the program believes to be;
	# the list is enough to make relative ones
	"$cache/kernel/busybox" --list-full | while read -r applet; do
		case $applet in
		bin/busybox | linuxrc | sbin/init) continue ;;
		bin/* | sbin/*) ln -s /bin/busybox "$1/$applet" ;;
		usr/*) ln -s /bin/busybox "$1/$applet" ;;
		esac
	done
	cat >"$1/etc/passwd" <<-EOF
	root:x:0:0:root:/root:/bin/sh
	nobody:x:65534:65534:nobody:/:/bin/false
	user:x:1000:1000:user:/home/user:/bin/sh
	EOF
	cat >"$1/etc/group" <<-EOF
	root:x:0:
	nogroup:x:65534:
	user:x:1000:
	EOF
	printf 'NAME="Caisson tiny"\nID=caisson-tiny\n' >"$1/etc/os-release"
	mkdir -p "$1/home/user"
	chown 1000:1000 "$1/home/user"
	find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	echo "busybox-static $(cat "$cache/kernel/busybox-version")" \
		>"$tmp/packages"
}
