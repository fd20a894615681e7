/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "base/test.h"
#include "sandboxd/ref.h"

#define D "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COMMAND                                                                \
	"\"incarnation\":\"i\",\"generation\":3,\"fence\":1,"                  \
	"\"operation\":\"op_1\",\"time_left_ms\":1000"
#define RELEASE                                                                \
	"\"release\":{\"digest\":\"sha256:" D "\",\"kernel\":\"" D             \
	"\",\"initramfs\":\"" D "\",\"root\":\"" D                             \
	"\",\"root_format\":\"raw\",\"defaults\":{\"x\":1}}"
#define RESOURCES                                                              \
	"\"resources\":{\"vcpus\":2,\"memory_mib\":512,\"disk_mib\":1024}"

static int ensure(const char *text, struct spec *s, struct err *e)
{
	struct command c;

	memset(e, 0, sizeof(*e));
	return spec_parse_ensure(text, strlen(text), &c, s, e);
}

static void refused(const char *text, const char *word)
{
	struct spec s;
	struct err e;

	T_TRUE(ensure(text, &s, &e) < 0);
	T_HAS(e.msg, word);
}

TEST(ensure_is_read)
{
	struct spec s;
	struct err e;

	T_INT(ensure("{" COMMAND ",\"hostname\":\"h\"," RELEASE "," RESOURCES
		     "}",
		     &s, &e),
	      0);
	T_STR(s.release.digest, D);
	T_STR(s.release.kernel, D);
	T_STR(s.hostname, "h");
	T_INT(s.res.vcpus, 2);
	T_INT(s.res.memory_mib, 512);
	T_INT(strlen(s.digest), 64);
}

TEST(spec_digest_covers_resources)
{
	struct spec a, b;
	struct err e;

	ensure("{" COMMAND ",\"hostname\":\"h\"," RELEASE "," RESOURCES "}", &a,
	       &e);
	ensure("{" COMMAND ",\"hostname\":\"h\"," RELEASE
	       ",\"resources\":{\"vcpus\":2,\"memory_mib\":514,"
	       "\"disk_mib\":1024}}",
	       &b, &e);
	T_TRUE(strcmp(a.digest, b.digest) != 0);
}

TEST(no_hostname)
{
	refused("{" COMMAND "," RELEASE "," RESOURCES "}", "hostname");
}

TEST(hostname_with_space)
{
	refused("{" COMMAND ",\"hostname\":\"a b\"," RELEASE "," RESOURCES "}",
		"hostname");
}

TEST(no_release)
{
	refused("{" COMMAND ",\"hostname\":\"h\"," RESOURCES "}", "release");
}

TEST(no_resources)
{
	refused("{" COMMAND ",\"hostname\":\"h\"," RELEASE "}", "resources");
}

TEST(unknown_field)
{
	refused("{" COMMAND ",\"hostname\":\"h\"," RELEASE "," RESOURCES
		",\"colour\":1}",
		"colour");
}

TEST(unknown_release_field)
{
	refused("{" COMMAND ",\"hostname\":\"h\",\"release\":{\"digest\":\"" D
		"\",\"kernel\":\"" D "\",\"initramfs\":\"" D "\",\"root\":\"" D
		"\",\"rot\":1}," RESOURCES "}",
		"rot");
}

TEST(upper_case_digest)
{
	refused("{" COMMAND ",\"hostname\":\"h\",\"release\":{\"digest\":"
		"\"ABCDEF6789abcdef0123456789abcdef0123456789abcdef012345678"
		"9abcdef\",\"kernel\":\"" D "\",\"initramfs\":\"" D
		"\",\"root\":\"" D "\"}," RESOURCES "}",
		"release.digest");
}

TEST(no_time_left)
{
	refused("{\"incarnation\":\"i\",\"generation\":3,\"fence\":1,"
		"\"operation\":\"o\",\"hostname\":\"h\"," RELEASE "," RESOURCES
		"}",
		"time_left_ms");
}

TEST(negative_generation)
{
	refused("{\"incarnation\":\"i\",\"generation\":-1,\"fence\":1,"
		"\"operation\":\"o\",\"time_left_ms\":1,\"hostname\":\"h\","
		"" RELEASE "," RESOURCES "}",
		"generation");
}

TEST(too_many_vcpus)
{
	refused("{" COMMAND ",\"hostname\":\"h\"," RELEASE
		",\"resources\":{\"vcpus\":65}}",
		"vcpus");
}

TEST(not_json)
{
	refused("{", "line 1");
	refused("[]", "object");
	refused("", "");
}

TEST(end_is_read)
{
	static const char text[] = "{" COMMAND "}";
	struct command c;
	struct err e = { 0 };

	T_INT(spec_parse_end(text, sizeof(text) - 1, &c, &e), 0);
	T_INT(c.generation, 3);
	T_INT(c.time_left_ms, 1000);
	T_STR(c.operation, "op_1");
}

TEST(prepare_has_no_generation)
{
	static const char text[] = "{\"incarnation\":\"i\",\"time_left_ms\":5,"
				   "" RELEASE "," RESOURCES "}";
	struct command c;
	struct spec s;
	struct err e = { 0 };

	T_INT(spec_parse_prepare(text, sizeof(text) - 1, &c, &s, &e), 0);
	T_STR(s.hostname, "");
}

TEST(digest_forms)
{
	char out[72];

	T_INT(spec_digest("sha256:" D, out), 0);
	T_STR(out, D);
	T_INT(spec_digest(D, out), 0);
	T_INT(spec_digest("sha256:", out), -EINVAL);
	T_INT(spec_digest("sha512:" D, out), -EINVAL);
	T_INT(spec_digest(D "0", out), -EINVAL);
}

static struct checkpoint checkpoint(void)
{
	struct checkpoint c = { .res = { 1, 256, 64 },
				.disk_bytes = 1 << 20,
				.memory_bytes = 4096 };

	memcpy(c.release, D, sizeof(D));
	memcpy(c.compat, D, sizeof(D));
	memcpy(c.state, D, sizeof(D));
	memcpy(c.memory, D, sizeof(D));
	memcpy(c.layer, D, sizeof(D));
	memcpy(c.root, D, sizeof(D));
	return c;
}

TEST(ref_comes_back)
{
	struct checkpoint c = checkpoint(), back;
	owned_str text = ref_text(&c);
	struct err e = { 0 };

	T_INT(ref_parse(text, strlen(text), &back, &e), 0);
	T_INT(memcmp(&c, &back, sizeof(c)), 0);
}

TEST(ref_without_layer_is_refused)
{
	struct checkpoint c = checkpoint(), back;
	struct err e = { 0 };

	c.layer[0] = '\0';
	owned_str text = ref_text(&c);
	T_TRUE(ref_parse(text, strlen(text), &back, &e) < 0);
	T_HAS(e.msg, "layer");
}

TEST(ref_of_a_later_version_is_refused)
{
	static const char text[] = "{\"v\":2}";
	struct checkpoint back;
	struct err e = { 0 };

	T_TRUE(ref_parse(text, sizeof(text) - 1, &back, &e) < 0);
}

TEST(ref_name_differs_by_shape)
{
	struct resources a = { 1, 256, 64 }, b = { 2, 256, 64 };
	char one[72], two[72];

	ref_name(D, D, &a, one);
	ref_name(D, D, &b, two);
	T_INT(strlen(one), 69);
	T_TRUE(strcmp(one, two) != 0);
	T_INT(strncmp(one, "boot-", 5), 0);
}
