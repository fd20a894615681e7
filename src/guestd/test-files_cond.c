/* SPDX-License-Identifier: Apache-2.0 */

/* Parts of files, conditions, digests, and what may not be read. */

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/test-files_rig.h"

static int get_with(const char *field, const char *value)
{
	const char *fields[] = { field, value, NULL };

	return file_call_with("files", "GET", "f", "", fields, NULL, 0);
}

static int put_with(const char *field, const char *value, const char *text)
{
	const char *fields[] = { field, value, NULL };
	int status =
	    file_call_with("files", "PUT", "f", "", fields, text, strlen(text));

	rig_reply_fini(&p);
	return status;
}

static void get_etag(char ret[128])
{
	T_INT(file_call_with("files", "HEAD", "f", "", NULL, NULL, 0), 200);
	snprintf(ret, 128, "%s", p.etag);
	T_TRUE(ret[0] == '"');
	rig_reply_fini(&p);
}

TEST(part_of_a_file)
{
	guest_up(&r);
	make_file("f", "0123456789");
	T_INT(get_with("range", "bytes=2-4"), 206);
	T_STR(buf_cstr(&p.body), "234");
	T_STR(p.content_range, "bytes 2-4/10");
	T_INT(p.length, 3);
	rig_reply_fini(&p);
	T_INT(get_with("range", "bytes=-2"), 206);
	T_STR(buf_cstr(&p.body), "89");
	rig_reply_fini(&p);
	T_INT(get_with("range", "bytes=7-"), 206);
	T_STR(buf_cstr(&p.body), "789");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(part_that_is_not_there)
{
	guest_up(&r);
	make_file("f", "0123456789");
	T_INT(get_with("range", "bytes=10-"), 416);
	T_STR(p.content_range, "bytes */10");
	T_STR(error_code(&p), "offset_gone");
	rig_reply_fini(&p);
	T_INT(get_with("range", "bytes=0-1,2-3"), 416);
	rig_reply_fini(&p);
	T_INT(get_with("range", "bytes=-"), 416);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(if_range_falls_back_to_all)
{
	char etag[128];

	guest_up(&r);
	make_file("f", "0123456789");
	get_etag(etag);
	{
		const char *same[] = { "range", "bytes=1-1", "if-range", etag,
				       NULL };
		const char *other[] = { "range", "bytes=1-1", "if-range",
					"\"x\"", NULL };

		T_INT(file_call_with("files", "GET", "f", "", same, NULL, 0),
		      206);
		rig_reply_fini(&p);
		T_INT(file_call_with("files", "GET", "f", "", other, NULL, 0),
		      200);
		T_INT(buf_len(&p.body), 10);
		rig_reply_fini(&p);
	}
	rig_fini(&r);
}

TEST(unchanged_is_304)
{
	char etag[128];

	guest_up(&r);
	make_file("f", "x");
	get_etag(etag);
	T_INT(get_with("if-none-match", etag), 304);
	T_STR(p.etag, etag);
	T_INT(buf_len(&p.body), 0);
	rig_reply_fini(&p);
	T_INT(get_with("if-match", etag), 200);
	rig_reply_fini(&p);
	T_INT(get_with("if-match", "\"other\""), 412);
	T_STR(error_code(&p), "generation_changed");
	rig_reply_fini(&p);
	T_INT(get_with("if-match", "nonsense"), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(tag_changes_with_a_write_of_the_same_size_at_once)
{
	owned_str path = in_tmp("f");
	char before[128], after[128];
	owned_fd fd = -1;

	guest_up(&r);
	for (int i = 0; i < 30; i++) {
		make_file("f", "aaaa");
		get_etag(before);
		fd_close(fd);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		T_INT(pwrite(fd, "bbbb", 4, 0), 4);
		get_etag(after);
		T_TRUE(strcmp(before, after) != 0);
	}
	rig_fini(&r);
}

TEST(create_only)
{
	guest_up(&r);
	T_INT(put_with("if-none-match", "*", "one"), 201);
	T_INT(put_with("if-none-match", "*", "two"), 412);
	T_STR(content_of("f"), "one");
	rig_fini(&r);
}

TEST(replace_only_what_was_seen)
{
	char etag[128];

	guest_up(&r);
	T_INT(put_with("if-match", "*", "none there"), 412);
	make_file("f", "one");
	get_etag(etag);
	T_INT(put_with("if-match", "\"stale\"", "bad"), 412);
	T_STR(content_of("f"), "one");
	T_INT(put_with("if-match", etag, "two"), 200);
	T_STR(content_of("f"), "two");
	T_INT(put_with("if-match", etag, "three"), 412);
	T_STR(content_of("f"), "two");
	rig_fini(&r);
}

TEST(digest_is_checked_before_the_name)
{
	guest_up(&r);
	make_file("f", "old");
	T_INT(put_with("content-digest",
		       "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:",
		       "hello"),
	      200);
	T_STR(content_of("f"), "hello");
	T_INT(put_with("content-digest",
		       "sha-256=:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=:",
		       "hellO"),
	      400);
	T_STR(content_of("f"), "hello");
	T_INT(put_with("content-digest", "sha-256=junk", "x"), 400);
	rig_fini(&r);
}

TEST(the_host_may_hash)
{
	static const char *const by[] = { "sum-by", "host", NULL };

	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "f", "", by, "hello", 5), 201);
	T_TRUE(!strstr(buf_cstr(&p.body), "sha256"));
	T_HAS(buf_cstr(&p.body), "\"size\":5");
	rig_reply_fini(&p);
	T_INT(file_call_with("files", "PUT", "f", "", NULL, "hello", 5), 200);
	T_HAS(buf_cstr(&p.body), "\"sha256\":\"2cf24dba5fb0a30e");
	rig_reply_fini(&p);
	T_STR(content_of("f"), "hello");
	rig_fini(&r);
}

TEST(answer_to_a_write_has_the_tag_of_the_next_read)
{
	owned_str shown = NULL;
	owned_json v = NULL;
	struct err e = { 0 };
	char etag[128];

	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "f", "", NULL, "x", 1), 201);
	T_INT(json_parse(buf_data(&p.body), buf_len(&p.body), &v, &e), 0);
	shown = xstrdup(json_string_value(json_object_get(v, "etag")));
	rig_reply_fini(&p);
	get_etag(etag);
	T_STR(shown, etag);
	rig_fini(&r);
}

TEST(owner_and_group_are_set)
{
	owned_str path = in_tmp("f");
	struct stat st;

	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "f", "&owner=12:34", NULL, "x", 1),
	      201);
	rig_reply_fini(&p);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_uid, 12);
	T_INT(st.st_gid, 34);
	/* and stay with the next content */
	T_INT(file_call_with("files", "PUT", "f", "", NULL, "y", 1), 200);
	rig_reply_fini(&p);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_uid, 12);
	rig_fini(&r);
}

TEST(device_socket_and_fifo_are_not_opened)
{
	owned_str path = in_tmp("sock");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	owned_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	T_INT(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	guest_up(&r);
	T_INT(file_status("files", "GET", "sock", ""), 409);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=/dev/zero", NULL), 409);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "PUT", "/v1/files?path=/dev/null", "x"), 409);
	T_STR(error_code(&p), "wrong_state");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(file_of_proc_has_a_length_and_parts)
{
	guest_up(&r);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=/proc/meminfo", NULL),
	      200);
	T_HAS(buf_cstr(&p.body), "MemTotal:");
	T_INT(p.length, buf_len(&p.body));
	rig_reply_fini(&p);
	{
		const char *fields[] = { "range", "bytes=0-2", NULL };

		rig_start(&r, &p, "GET", "/v1/files?path=/proc/meminfo", fields,
			  NULL, 0);
		T_TRUE(rig_finish(&p));
		T_INT(p.status, 206);
		T_STR(buf_cstr(&p.body), "Mem");
		rig_reply_fini(&p);
	}
	rig_fini(&r);
}

TEST(hole_is_read_as_zeros)
{
	owned_str path = in_tmp("f");
	owned_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	T_INT(ftruncate(fd, 3000), 0);
	guest_up(&r);
	T_INT(file_call_with("files", "GET", "f", "", NULL, NULL, 0), 200);
	T_INT(buf_len(&p.body), 3000);
	rig_reply_fini(&p);
	/* 4 GiB are not read for its last bytes */
	T_INT(ftruncate(fd, 4ll << 30), 0);
	T_INT(get_with("range", "bytes=-5"), 206);
	T_STR(p.content_range, "bytes 4294967291-4294967295/4294967296");
	T_INT(buf_len(&p.body), 5);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(link_loop)
{
	owned_str a = in_tmp("a");

	T_INT(symlink("a", a), 0);
	guest_up(&r);
	T_INT(file_call_with("files", "GET", "a", "", NULL, NULL, 0), 400);
	T_STR(error_code(&p), "bad_path");
	rig_reply_fini(&p);
	T_INT(file_call_with("files", "PUT", "a", "", NULL, "x", 1), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(dangling_link_is_written_through)
{
	owned_str a = in_tmp("a");

	T_INT(symlink("b", a), 0);
	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "a", "", NULL, "x", 1), 201);
	rig_reply_fini(&p);
	T_STR(content_of("b"), "x");
	rig_fini(&r);
}

TEST(name_that_is_too_long)
{
	char name[300] = { 0 };

	memset(name, 'n', 256);
	guest_up(&r);
	T_INT(file_call_with("files", "PUT", name, "", NULL, "x", 1), 400);
	T_STR(error_code(&p), "bad_path");
	rig_reply_fini(&p);
	rig_fini(&r);
}

/* A file system of 1 MiB, or a skipped test. */
static void small_disk(const char *name)
{
	owned_str path = in_tmp(name);

	T_INT(mkdir(path, 0755), 0);
	if (mount("none", path, "tmpfs", 0, "size=1m") < 0)
		test_skip("may not mount");
}

TEST(full_disk_leaves_the_old_file)
{
	owned_str path = in_tmp("disk");
	size_t n = 2u << 20;
	owned_str text = xcalloc(1, n);

	small_disk("disk");
	guest_up(&r);
	make_file("disk/f", "old");
	T_INT(file_call_with("files", "PUT", "disk/f", "", NULL, text, n), 507);
	T_STR(error_code(&p), "no_space");
	rig_reply_fini(&p);
	T_STR(content_of("disk/f"), "old");
	/* nothing of ours is left */
	T_INT(file_call_with("files/list", "GET", "disk", "", NULL, NULL, 0),
	      200);
	T_TRUE(!strstr(buf_cstr(&p.body), ".caisson-tmp"));
	rig_reply_fini(&p);
	rig_fini(&r);
	T_INT(umount2(path, MNT_DETACH), 0);
}

TEST(read_only_disk)
{
	owned_str path = in_tmp("disk");

	small_disk("disk");
	T_INT(mount("none", path, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "disk/f", "", NULL, "x", 1), 403);
	T_STR(error_code(&p), "policy_denied");
	rig_reply_fini(&p);
	rig_fini(&r);
	T_INT(umount2(path, MNT_DETACH), 0);
}

TEST(fresh_temporary_file_of_another_is_kept)
{
	owned_str path = in_tmp(".caisson-tmp-0123456789abcdef");
	struct timespec old[2] = { { 1, 0 }, { 1, 0 } };

	make_file(".caisson-tmp-0123456789abcdef", "part");
	T_INT(utimensat(AT_FDCWD, path, old, 0), 0);
	guest_up(&r);
	T_INT(file_call_with("files", "PUT", "f", "", NULL, "x", 1), 201);
	rig_reply_fini(&p);
	/* its change time is now: it may be somebody's at work */
	T_INT(access(path, F_OK), 0);
	rig_fini(&r);
}
