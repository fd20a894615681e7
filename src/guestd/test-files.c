/* SPDX-License-Identifier: Apache-2.0 */

/* File calls of a guestd that runs as an ordinary process. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/test.h"
#include "base/text.h"
#include "guestd/filework.h"
#include "guestd/test-frames.h"

static struct rig r;
static struct rig_reply p;

/* name and query are percent-encoded by the caller. */
static int file_call(const char *method, const char *name, const char *query,
		     const void *body, size_t n)
{
	owned_str path =
	    xasprintf("/v1/files?path=%s/%s%s", test_tmpdir(), name, query);

	rig_start(&r, &p, method, path, NULL, body, n);
	T_TRUE(rig_finish(&p));
	return p.status;
}

/* 201: it is new; 200: it was there. */
static void put(const char *name, const char *text)
{
	owned_str path = xasprintf("%s/%s", test_tmpdir(), name);
	bool there = access(path, F_OK) == 0;

	T_INT(file_call("PUT", name, "", text, strlen(text)),
	      there ? 200 : 201);
	rig_reply_fini(&p);
}

static char *in_tmp(const char *name)
{
	return xasprintf("%s/%s", test_tmpdir(), name);
}

TEST(written_and_read_back)
{
	guest_up(&r);
	T_INT(file_call("PUT", "a", "", "hello", 5), 201);
	T_HAS(buf_cstr(&p.body), "\"size\":5");
	T_HAS(buf_cstr(&p.body), "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa74"
				 "25e73043362938b9824");
	rig_reply_fini(&p);
	T_INT(file_call("GET", "a", "", NULL, 0), 200);
	T_STR(buf_cstr(&p.body), "hello");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(empty_file)
{
	guest_up(&r);
	put("a", "");
	T_INT(file_call("GET", "a", "", NULL, 0), 200);
	T_INT(buf_len(&p.body), 0);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(large_file_both_ways)
{
	size_t n = 20u << 20;
	owned_str text = malloc(n);

	random_bytes(text, n);
	guest_up(&r);
	T_INT(file_call("PUT", "big", "", text, n), 201);
	rig_reply_fini(&p);
	T_INT(file_call("GET", "big", "", NULL, 0), 200);
	T_INT(buf_len(&p.body), n);
	T_TRUE(!memcmp(buf_data(&p.body), text, n));
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(any_byte_in_a_name)
{
	owned_str path = in_tmp("\xff \n\x01%?&#+=\xc3\xbc");
	struct stat st;

	guest_up(&r);
	put("%FF%20%0A%01%25%3F%26%23%2B%3D%C3%BC", "odd");
	T_INT(stat(path, &st), 0);
	T_INT(st.st_size, 3);
	rig_fini(&r);
}

TEST(missing_file)
{
	guest_up(&r);
	T_INT(file_call("GET", "nothing", "", NULL, 0), 404);
	T_STR(error_code(&p), "not_found");
	rig_reply_fini(&p);
	T_INT(file_call("DELETE", "nothing", "", NULL, 0), 404);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(missing_folder_without_parents)
{
	guest_up(&r);
	T_INT(file_call("PUT", "x/y/z", "", "t", 1), 404);
	rig_reply_fini(&p);
	T_INT(file_call("PUT", "x/y/z", "&parents=1", "t", 1), 201);
	rig_reply_fini(&p);
	T_INT(file_call("GET", "x/y/z", "", NULL, 0), 200);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(mode_is_set)
{
	owned_str path = in_tmp("m");
	struct stat st;

	guest_up(&r);
	T_INT(file_call("PUT", "m", "&mode=0750", "t", 1), 201);
	rig_reply_fini(&p);
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0750);
	T_INT(file_call("PUT", "m", "&mode=9", "t", 1), 400);
	rig_reply_fini(&p);
	T_INT(file_call("PUT", "m", "&mode=77777", "t", 1), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(mode_of_an_existing_file_stays)
{
	owned_str path = in_tmp("m");
	struct stat st;

	guest_up(&r);
	put("m", "1");
	T_INT(chmod(path, 0711), 0);
	put("m", "2");
	T_INT(stat(path, &st), 0);
	T_INT(st.st_mode & 07777, 0711);
	rig_fini(&r);
}

TEST(owner_that_is_unknown)
{
	guest_up(&r);
	T_INT(file_call("PUT", "o", "&owner=nobody-here", "t", 1), 400);
	T_HAS(buf_cstr(&p.body), "nobody-here");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(folder_is_no_file)
{
	guest_up(&r);
	T_INT(file_call("GET", "", "", NULL, 0), 409);
	T_STR(error_code(&p), "wrong_state");
	rig_reply_fini(&p);
	T_INT(file_call("PUT", "", "", "x", 1), 409);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(fifo_does_not_hang)
{
	owned_str path = in_tmp("fifo");

	T_INT(mkfifo(path, 0600), 0);
	guest_up(&r);
	T_INT(file_call("GET", "fifo", "", NULL, 0), 409);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(file_is_deleted)
{
	owned_str path = in_tmp("d");

	guest_up(&r);
	put("d", "x");
	T_INT(file_call("DELETE", "d", "", NULL, 0), 204);
	rig_reply_fini(&p);
	T_TRUE(access(path, F_OK) < 0);
	rig_fini(&r);
}

TEST(folder_is_deleted_when_empty)
{
	guest_up(&r);
	T_INT(file_call("PUT", "e/f", "&parents=1", "x", 1), 201);
	rig_reply_fini(&p);
	T_INT(file_call("DELETE", "e", "", NULL, 0), 409);
	rig_reply_fini(&p);
	T_INT(file_call("DELETE", "e/f", "", NULL, 0), 204);
	rig_reply_fini(&p);
	T_INT(file_call("DELETE", "e", "", NULL, 0), 204);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(link_is_written_through)
{
	owned_str link = in_tmp("link");
	owned_str target = in_tmp("target");
	struct stat st;

	guest_up(&r);
	put("target", "old");
	T_INT(symlink("target", link), 0);
	put("link", "newer");
	T_INT(lstat(link, &st), 0);
	T_TRUE(S_ISLNK(st.st_mode));
	T_INT(stat(target, &st), 0);
	T_INT(st.st_size, 5);
	rig_fini(&r);
}

TEST(head_has_the_length_and_no_body)
{
	guest_up(&r);
	put("h", "hello");
	T_INT(file_call("HEAD", "h", "", NULL, 0), 200);
	T_INT(buf_len(&p.body), 0);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(file_of_unknown_size)
{
	guest_up(&r);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=/proc/self/status", NULL),
	      200);
	T_HAS(buf_cstr(&p.body), "Pid:");
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(paths_that_are_none)
{
	guest_up(&r);
	T_INT(rig_call(&r, &p, "GET", "/v1/files", NULL), 400);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=etc", NULL), 400);
	T_STR(error_code(&p), "bad_path");
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=/a%00b", NULL), 400);
	rig_reply_fini(&p);
	T_INT(rig_call(&r, &p, "GET", "/v1/files?path=/a%zz", NULL), 400);
	rig_reply_fini(&p);
	rig_fini(&r);
}

TEST(upload_that_is_cut_leaves_nothing)
{
	owned_str path = xasprintf("/v1/files?path=%s/cut", test_tmpdir());
	owned_str file = in_tmp("cut");
	owned_str fields = NULL;
	struct frames f;
	struct http_head head;
	struct err e = { 0 };
	struct http_stream *s;

	guest_up(&r);
	http_head_init(&head);
	rig_start(&r, &p, "PUT", path, NULL, "part", 4);
	T_TRUE(rig_finish(&p));
	rig_reply_fini(&p);
	T_INT(unlink(file), 0);
	/* now one that the client resets before its end */
	head.method = xstrdup("PUT");
	head.path = xstrdup(path);
	head.authority = xstrdup("guest");
	p = (struct rig_reply){ .rig = &r };
	s = http_conn_request(r.conn, &head, true, rig_handler(), &p, &e);
	T_TRUE(s != NULL);
	p.stream = s;
	T_INT(http_stream_write(s, "part", 4), 4);
	rig_run(&r, 100, NULL);
	rig_reply_fini(&p);
	http_head_fini(&head);
	rig_run(&r, 300, NULL);
	T_TRUE(access(file, F_OK) < 0);
	fields = xasprintf("\"cmd\":[\"ls\",\"-A\",\"%s\"]", test_tmpdir());
	guest_run(&r, fields, &f);
	T_INT(buf_len(&f.out), 0);
	frames_fini(&f);
	rig_fini(&r);
}

TEST(many_at_once)
{
	struct rig_reply q[16];
	owned_str path = NULL;

	guest_up(&r);
	put("many", "0123456789");
	path = xasprintf("/v1/files?path=%s/many", test_tmpdir());
	for (size_t i = 0; i < ARRAY_SIZE(q); i++)
		rig_start(&r, &q[i], "GET", path, NULL, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(q); i++) {
		T_TRUE(rig_finish(&q[i]));
		T_INT(q[i].status, 200);
		T_INT(buf_len(&q[i].body), 10);
		rig_reply_fini(&q[i]);
	}
	rig_fini(&r);
}

TEST(path_check_is_exact)
{
	char out[FILE_PATH_MAX];
	owned_str text = xcalloc(1, FILE_PATH_MAX + 1);

	T_INT(filework_path("/a/../b", out), 0);
	T_STR(out, "/a/../b");
	T_INT(filework_path("", out), -EINVAL);
	T_INT(filework_path("a", out), -EINVAL);
	memset(text, '/', FILE_PATH_MAX - 1);
	T_INT(filework_path(text, out), 0);
	text[FILE_PATH_MAX - 1] = '/';
	T_INT(filework_path(text, out), -EINVAL);
}
