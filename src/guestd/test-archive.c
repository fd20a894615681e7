/* SPDX-License-Identifier: Apache-2.0 */

/* Trees in one request, honest and hostile. */

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-files_rig.h"

/* ---- archives of our own making ---- */

static struct archive *a;
static char *made;
static size_t n_made;
static const size_t made_max = 64u << 20;

static void begin(bool zstd)
{
	free(made);
	made = malloc(made_max);
	T_TRUE(made != NULL);
	a = archive_write_new();
	T_INT(archive_write_set_format_pax(a), ARCHIVE_OK);
	if (zstd)
		T_INT(archive_write_add_filter_zstd(a), ARCHIVE_OK);
	T_INT(archive_write_open_memory(a, made, made_max, &n_made),
	      ARCHIVE_OK);
}

static void add(unsigned type, const char *name, const char *link,
		const char *content)
{
	struct archive_entry *e = archive_entry_new();
	size_t n = content ? strlen(content) : 0;

	archive_entry_set_pathname(e, name);
	archive_entry_set_filetype(e, type ? type : AE_IFREG);
	archive_entry_set_perm(e, type == AE_IFDIR ? 0755 : 0640);
	archive_entry_set_size(e, (la_int64_t)n);
	archive_entry_set_mtime(e, 1000000000, 0);
	if (type == AE_IFLNK)
		archive_entry_set_symlink(e, link);
	else if (link)
		archive_entry_set_hardlink(e, link);
	T_TRUE(archive_write_header(a, e) >= ARCHIVE_WARN);
	if (n)
		T_INT(archive_write_data(a, content, n), n);
	archive_entry_free(e);
}

static void end(void)
{
	T_INT(archive_write_free(a), ARCHIVE_OK);
}

/* Unpack it into the test's folder; the answer stays in p. */
static int unpack(const char *query)
{
	owned_str q = xasprintf("&format=%s", query);

	return file_call_with("archive", "PUT", "t", q, NULL, made, n_made);
}

/* The refusal of an archive whose last entry is bad. */
static void refused(const char *name)
{
	end();
	T_INT(unpack("tar"), 400);
	T_STR(error_code(&p), "bad_path");
	T_HAS(buf_cstr(&p.body), name);
	rig_reply_fini(&p);
}

static bool is_there(const char *name)
{
	owned_str path = in_tmp(name);
	struct stat st;

	return lstat(path, &st) == 0;
}

static void folder(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(mkdir(path, 0755), 0);
}

/* ---- honest ---- */

TEST(tree_is_unpacked)
{
	owned_str file = in_tmp("t/d/f");
	owned_str dir = in_tmp("t/d");
	struct stat st;

	guest_up(&r);
	begin(false);
	add(AE_IFDIR, "d/", NULL, NULL);
	add(0, "d/f", NULL, "hello");
	add(AE_IFLNK, "l", "d/f", NULL);
	add(0, "h", "d/f", NULL);
	add(0, "made/on/the/way", NULL, "x");
	end();
	T_INT(unpack("tar"), 200);
	T_STR(buf_cstr(&p.body), "{\"entries\":5,\"bytes\":6}");
	rig_reply_fini(&p);
	T_STR(content_of("t/l"), "hello");
	T_STR(content_of("t/h"), "hello");
	T_STR(content_of("t/made/on/the/way"), "x");
	T_INT(stat(file, &st), 0);
	T_INT(st.st_nlink, 2);
	T_INT(st.st_mode & 07777, 0640);
	T_INT(st.st_mtime, 1000000000);
	T_INT(stat(dir, &st), 0);
	T_INT(st.st_mtime, 1000000000);
	rig_fini(&r);
}

TEST(owner_of_what_is_unpacked)
{
	owned_str file = in_tmp("t/d/f");
	owned_str dir = in_tmp("t/d");
	struct stat st;

	guest_up(&r);
	begin(true);
	add(0, "d/f", NULL, "x");
	end();
	T_INT(unpack("tar.zst&owner=7:8"), 200);
	rig_reply_fini(&p);
	T_INT(stat(file, &st), 0);
	T_INT(st.st_uid, 7);
	T_INT(st.st_gid, 8);
	T_INT(stat(dir, &st), 0);
	T_INT(st.st_uid, 7);
	rig_fini(&r);
}

static void round_trip(const char *format)
{
	owned_str query = xasprintf("&format=%s", format);
	owned_str odd = in_tmp("s/\xff\xfe");
	owned_str first = in_tmp("s/\xc3\xbc");
	owned_str second = in_tmp("s/second");
	owned_str copy = in_tmp("t/\xff\xfe");
	owned_str copy2 = in_tmp("t/second");
	owned_str fifo = in_tmp("s/fifo");
	struct buf packed = { 0 };
	struct stat st;

	folder("s");
	make_file("s/\xff\xfe", "odd");
	make_file("s/\xc3\xbc", "umlaut");
	T_INT(link(first, second), 0);
	T_INT(chmod(odd, 04711), 0);
	(void)setxattr(odd, "user.note", "kept", 4, 0);
	T_INT(file_call_with("archive", "GET", "s", query, NULL, NULL, 0), 200);
	packed = p.body;
	p.body = (struct buf){ 0 };
	rig_reply_fini(&p);
	T_INT(file_call_with("archive", "PUT", "t", query, NULL,
			     buf_data(&packed), buf_len(&packed)),
	      200);
	rig_reply_fini(&p);
	buf_fini(&packed);
	T_STR(content_of("t/\xff\xfe"), "odd");
	T_STR(content_of("t/\xc3\xbc"), "umlaut");
	T_INT(stat(copy, &st), 0);
	T_INT(st.st_mode & 07777, 04711);
	T_INT(stat(copy2, &st), 0);
	T_INT(st.st_nlink, 2);
	T_INT(mkfifo(fifo, 0600), 0);
}

TEST(round_trip_plain)
{
	guest_up(&r);
	round_trip("tar");
	rig_fini(&r);
}

TEST(round_trip_zstd)
{
	guest_up(&r);
	round_trip("tar.zst");
	rig_fini(&r);
}

/* Run a shell line in the test's folder; its exit status. */
static int shell(const char *line)
{
	const char *dir = test_tmpdir();
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (chdir(dir) < 0)
			_exit(99);
		execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(98);
	}
	T_INT(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void save(const char *name)
{
	owned_str path = in_tmp(name);
	owned_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	T_INT(write_all(fd, buf_data(&p.body), buf_len(&p.body)), 0);
	rig_reply_fini(&p);
}

TEST(other_programs_read_what_is_packed)
{
	guest_up(&r);
	T_INT(shell("mkdir s && cd s && mkdir d && echo hi >d/f && ln -s d/f l "
		    "&& truncate -s 8M hole && echo end >>hole && "
		    "n=$(printf '%0200d' 7) && mkdir -p $n/$n && "
		    "echo deep >$n/$n/x"),
	      0);
	T_INT(file_call_with("archive", "GET", "s", "", NULL, NULL, 0), 200);
	T_TRUE(buf_len(&p.body) < 1u << 20); /* the hole is none */
	save("s.tar");
	T_INT(shell("mkdir o && tar -C o -xf s.tar && diff -r s o && "
		    "[ $(stat -c %b o/hole) -lt 100 ]"),
	      0);
	rig_fini(&r);
}

TEST(what_other_programs_packed_is_read)
{
	static const char *const formats[] = { "gnu", "pax", "ustar" };

	guest_up(&r);
	T_INT(shell("mkdir s && cd s && mkdir d && echo hi >d/f && ln -s d/f l "
		    "&& truncate -s 3M hole && echo end >>hole && "
		    "n=$(printf '%090d' 7) && mkdir $n && echo n >$n/$n"),
	      0);
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		owned_str line =
		    xasprintf("rm -rf t; cd s && tar --format=%s %s -cf ../f "
			      ".",
			      formats[i], i < 2 ? "-S" : "");
		owned_str path = in_tmp("f");
		owned_str text = NULL;
		struct err e = { 0 };
		size_t n;

		T_INT(shell(line), 0);
		T_INT(file_read(path, 64u << 20, &text, &n, &e), 0);
		T_INT(file_call_with("archive", "PUT", "t", "", NULL, text, n),
		      200);
		rig_reply_fini(&p);
		T_INT(shell("diff -r s t"), 0);
	}
	rig_fini(&r);
}

TEST(thousand_small_files_in_one_request)
{
	char name[32];
	uint64_t at;

	guest_up(&r);
	begin(false);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "d%d/f%d", i / 100, i);
		add(0, name, NULL, "content");
	}
	end();
	at = now_mono_us();
	T_INT(unpack("tar"), 200);
	printf("# 1,000 files unpacked in %llu ms\n",
	       (unsigned long long)(now_mono_us() - at) / 1000);
	T_TRUE(now_mono_us() - at < 60000000u);
	rig_reply_fini(&p);
	T_STR(content_of("t/d9/f999"), "content");
	rig_fini(&r);
}

TEST(one_file_is_packed_by_its_name)
{
	guest_up(&r);
	make_file("f", "x");
	T_INT(file_call_with("archive", "GET", "f", "", NULL, NULL, 0), 200);
	save("f.tar");
	T_INT(shell("[ \"$(tar -tf f.tar)\" = f ]"), 0);
	T_INT(file_status("archive", "GET", "none", ""), 404);
	T_INT(file_status("archive", "GET", "f", "&format=zip"), 400);
	rig_fini(&r);
}

TEST(existing_folders_stay_and_files_are_replaced)
{
	owned_str dir = in_tmp("t/d");
	owned_str first = in_tmp("t/d/f");
	owned_str other = in_tmp("other");
	struct stat st;

	guest_up(&r);
	folder("t");
	folder("t/d");
	T_INT(chmod(dir, 01777), 0);
	make_file("t/d/f", "old");
	T_INT(link(first, other), 0);
	begin(false);
	add(AE_IFDIR, "./", NULL, NULL);
	add(AE_IFDIR, "./d/", NULL, NULL);
	add(0, "./d/f", NULL, "new");
	end();
	T_INT(unpack("tar"), 200);
	rig_reply_fini(&p);
	T_STR(content_of("t/d/f"), "new");
	T_STR(content_of("other"), "old");
	T_INT(stat(dir, &st), 0);
	T_INT(st.st_mode & 07777, 01777);
	rig_fini(&r);
}

TEST(links_that_were_there_are_ways)
{
	owned_str link = in_tmp("t/l");

	guest_up(&r);
	folder("t");
	folder("t/d");
	T_INT(symlink("d", link), 0);
	begin(false);
	add(AE_IFDIR, "l/", NULL, NULL);
	add(0, "l/f", NULL, "x");
	end();
	T_INT(unpack("tar"), 200);
	rig_reply_fini(&p);
	T_STR(content_of("t/d/f"), "x");
	rig_fini(&r);
}

/* ---- hostile ---- */

TEST(names_that_leave_are_refused)
{
	static const char *const bad[] = { "../evil", "/tmp/evil", "a/../../x",
					   ".." };

	guest_up(&r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		begin(false);
		add(0, "first", NULL, "x");
		add(0, bad[i], NULL, "x");
		refused(bad[i]);
	}
	/* what came before stays */
	T_STR(content_of("t/first"), "x");
	T_TRUE(!is_there("evil"));
	rig_fini(&r);
}

TEST(refusal_counts_what_was_done)
{
	guest_up(&r);
	begin(false);
	add(0, "first", NULL, "12345");
	add(0, "/abs", NULL, "x");
	end();
	T_INT(unpack("tar"), 400);
	T_HAS(buf_cstr(&p.body), "\"done\":{\"entries\":1,\"bytes\":5}");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(links_that_leave_are_refused)
{
	guest_up(&r);
	begin(false);
	add(AE_IFLNK, "up", "../secret", NULL);
	refused("up");
	begin(false);
	add(AE_IFLNK, "abs", "/etc/passwd", NULL);
	refused("abs");
	begin(false);
	add(0, "hard", "../secret", NULL);
	refused("hard");
	begin(false);
	add(0, "hard", "/etc/passwd", NULL);
	refused("hard");
	T_TRUE(!is_there("t/up") && !is_there("t/abs") && !is_there("t/hard"));
	rig_fini(&r);
}

TEST(nothing_goes_through_a_link_of_the_archive)
{
	guest_up(&r);
	begin(false);
	add(AE_IFDIR, "d", NULL, NULL);
	add(AE_IFLNK, "l", "d", NULL);
	add(0, "l/f", NULL, "x");
	refused("l/f");
	T_TRUE(!is_there("t/d/f"));
	/* nor through another name of one that was there */
	{
		owned_str link = in_tmp("t/there");

		T_INT(symlink("/etc", link), 0);
	}
	begin(false);
	add(0, "again", "there", NULL);
	add(0, "again/f", NULL, "x");
	refused("again/f");
	rig_fini(&r);
}

TEST(file_in_place_of_a_link_does_not_follow_it)
{
	owned_str link = in_tmp("t/l");
	struct stat st;

	guest_up(&r);
	folder("t");
	make_file("victim", "safe");
	T_INT(symlink("../victim", link), 0);
	begin(false);
	add(0, "l", NULL, "new");
	end();
	T_INT(unpack("tar"), 200);
	rig_reply_fini(&p);
	T_STR(content_of("victim"), "safe");
	T_INT(lstat(link, &st), 0);
	T_TRUE(S_ISREG(st.st_mode));
	rig_fini(&r);
}

TEST(devices_and_fifos_are_refused)
{
	guest_up(&r);
	begin(false);
	add(AE_IFIFO, "fifo", NULL, NULL);
	refused("fifo");
	begin(false);
	add(AE_IFCHR, "chr", NULL, NULL);
	refused("chr");
	begin(false);
	add(AE_IFBLK, "blk", NULL, NULL);
	refused("blk");
	T_TRUE(!is_there("t/fifo") && !is_there("t/chr") && !is_there("t/blk"));
	rig_fini(&r);
}

TEST(folder_is_not_replaced_by_a_file)
{
	guest_up(&r);
	begin(false);
	add(0, "d/f", NULL, "x");
	add(0, "d", NULL, "x");
	end();
	T_INT(unpack("tar"), 409);
	rig_reply_fini(&p);
	T_STR(content_of("t/d/f"), "x");
	rig_fini(&r);
}

TEST(path_of_ten_thousand_levels_is_refused)
{
	owned_str name = xcalloc(1, 20002);

	for (size_t i = 0; i < 10000; i++)
		memcpy(name + 2 * i, "d/", 2);
	guest_up(&r);
	begin(false);
	add(0, name, NULL, "x");
	refused("too long");
	rig_fini(&r);
}

TEST(what_is_no_archive)
{
	guest_up(&r);
	T_INT(file_call_with("archive", "PUT", "t", "", NULL, "junk", 4), 400);
	T_STR(error_code(&p), "invalid_field");
	rig_reply_fini(&p);
	begin(false);
	add(0, "f", NULL, "x");
	end();
	T_INT(unpack("tar.zst"), 400);
	rig_reply_fini(&p);
	begin(true);
	add(0, "f", NULL, "x");
	end();
	T_INT(unpack("tar"), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(archive_that_is_cut)
{
	guest_up(&r);
	begin(false);
	add(0, "f", NULL, "0123456789");
	end();
	n_made = 512 + 3; /* in the file's bytes */
	T_INT(unpack("tar"), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

/* Zeros: `mib` of them in some KiB. */
static void bomb(unsigned mib)
{
	struct archive_entry *e = archive_entry_new();
	static const char zeros[1u << 20];

	begin(true);
	archive_entry_set_pathname(e, "bomb");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)mib << 20);
	T_INT(archive_write_header(a, e), ARCHIVE_OK);
	for (unsigned i = 0; i < mib; i++)
		T_INT(archive_write_data(a, zeros, sizeof(zeros)),
		      sizeof(zeros));
	archive_entry_free(e);
	end();
	T_TRUE(n_made < 1u << 20);
}

TEST(bomb_meets_a_full_disk)
{
	owned_str path = in_tmp("t");

	folder("t");
	if (mount("none", path, "tmpfs", 0, "size=4m") < 0)
		test_skip("may not mount");
	guest_up(&r);
	bomb(512);
	T_INT(unpack("tar.zst"), 507);
	T_STR(error_code(&p), "no_space");
	rig_reply_fini(&p);
	/* the part of the file is gone again */
	T_TRUE(!is_there("t/bomb"));
	rig_fini(&r);
	T_INT(umount2(path, MNT_DETACH), 0);
}

TEST(others_are_answered_while_a_bomb_goes_off)
{
	owned_str path = in_tmp("t");
	owned_str call = NULL;
	struct rig_reply q;

	folder("t");
	if (mount("none", path, "tmpfs", 0, "size=600m") < 0)
		test_skip("may not mount");
	guest_up(&r);
	make_file("f", "x");
	bomb(512);
	call = xasprintf("/v1/archive?path=%s/t&format=tar.zst", test_tmpdir());
	rig_start(&r, &q, "PUT", call, NULL, made, n_made);
	T_INT(file_status("files", "GET", "f", ""), 200);
	/* and whoever sent it may leave */
	rig_reply_fini(&q);
	rig_fini(&r);
	(void)umount2(path, MNT_DETACH);
}

TEST(sparse_file_beyond_any_disk)
{
	struct archive_entry *e = archive_entry_new();

	guest_up(&r);
	begin(false);
	archive_entry_set_pathname(e, "huge");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_size(e, 1ll << 61);
	archive_entry_sparse_add_entry(e, 0, 0);
	(void)archive_write_header(a, e);
	archive_entry_free(e);
	(void)archive_write_free(a);
	(void)unpack("tar");
	T_TRUE(p.status >= 400 && p.status < 600 && p.status != 500);
	rig_reply_fini(&p);
	rig_fini(&r);
}
