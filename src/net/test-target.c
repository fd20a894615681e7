/* SPDX-License-Identifier: Apache-2.0 */
#include "net/target.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"

static struct target t;

static bool reads(const char *url)
{
	struct err e = { 0 };

	return target_parse(url, &t, &e) == 0;
}

TEST(scheme_host_and_port_are_read)
{
	T_TRUE(reads("https://example.org/hook?x=1"));
	T_TRUE(t.tls && t.port == 443 && t.kind == ADDR_HOST_NAME);
	T_STR(t.host, "example.org");
	T_TRUE(reads("http://example.org"));
	T_TRUE(!t.tls && t.port == 80);
	T_TRUE(reads("http://192.0.2.1:8080?a"));
	T_TRUE(t.port == 8080 && t.kind == ADDR_HOST_ADDRESS);
	T_TRUE(reads("https://[2001:db8::1]:8443/x"));
	T_TRUE(t.port == 8443 && t.addr.v6);
	T_STR(t.host, "2001:db8::1");
}

TEST(what_two_readers_could_read_differently_is_refused)
{
	static const char *const bad[] = {
		"",
		"example.org",
		"//example.org",
		"ftp://example.org",
		"HTTP://example.org",
		"file:///etc/passwd",
		"gopher://x/",
		"http:/example.org",
		"http://",
		"http:///x",
		"http://user@example.org",
		"http://a:b@example.org",
		"http://example.org#x",
		"http://example.org\\@evil.example",
		"http://exa mple.org",
		"http://example.org/\r\nHost: x",
		"http://ex\303\244mple.org",
		"http://%31.0.0.1",
		"http://[::1",
		"http://[::1]x",
		"http://[fe80::1%25eth0]",
		"http://::1/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (reads(bad[i]))
			test_fail(__FILE__, __LINE__, "%s passed", bad[i]);
}

TEST(odd_spellings_of_addresses_are_refused)
{
	static const char *const bad[] = {
		"http://2130706433/",
		"http://0x7f000001/",
		"http://127.1/",
		"http://0177.0.0.1/",
		"http://127.0.0.1./",
		"http://localhost/",
		"http://x.localhost:8080/",
		"http://0/",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (reads(bad[i]))
			test_fail(__FILE__, __LINE__, "%s passed", bad[i]);
}

TEST(ports_of_other_protocols_are_refused)
{
	T_TRUE(!reads("http://example.org:22/"));
	T_TRUE(!reads("http://example.org:25/"));
	T_TRUE(!reads("http://example.org:0/"));
	T_TRUE(!reads("http://example.org:080/"));
	T_TRUE(!reads("http://example.org:/"));
	T_TRUE(!reads("http://example.org:65536/"));
	T_TRUE(!reads("http://example.org:+443/"));
	T_TRUE(!reads("http://example.org:443:443/"));
	T_TRUE(reads("http://example.org:443/"));
	T_TRUE(reads("http://example.org:1024/"));
}

TEST(a_url_of_more_than_2048_bytes_is_refused)
{
	char url[TARGET_URL_MAX + 3];

	memset(url, 'a', sizeof(url));
	memcpy(url, "https://b.example/", 18);
	url[TARGET_URL_MAX] = '\0';
	T_TRUE(reads(url));
	url[TARGET_URL_MAX] = 'a';
	url[TARGET_URL_MAX + 1] = '\0';
	T_TRUE(!reads(url));
}
