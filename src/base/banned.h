/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls that do not compile in this tree. The build force-includes this file
 * before every source, so each name below carries its remedy into the
 * compiler's message.
 *
 * Why `deprecated` and not poison or `error`: poison also hits harmless members
 * of that name in libraries' headers, and the compiler replaces strcpy() of a
 * literal before the `error` attribute is looked at.
 *
 * pipe, dup, accept: the descriptor would not be CLOEXEC. getpwnam & co.: they
 * load NSS modules, which a static program cannot and a root daemon must not
 * do; base/user.h reads the two files itself.
 */

#include <grp.h>
#include <netdb.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* clang cannot attach it to what _FORTIFY_SOURCE has defined inline; gcc does
 */
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wignored-attributes"
#endif

#define BANNED(use) __attribute__((deprecated("banned here: use " use)))

/* no bounds */
extern __typeof__(strcpy) strcpy BANNED("memcpy, snprintf or a struct buf");
extern __typeof__(stpcpy) stpcpy BANNED("memcpy, snprintf or a struct buf");
extern __typeof__(strcat) strcat BANNED("snprintf or a struct buf");
extern __typeof__(strncpy) strncpy BANNED("snprintf or memcpy");
extern __typeof__(strncat) strncat BANNED("snprintf or a struct buf");
extern __typeof__(sprintf) sprintf BANNED("snprintf");
extern __typeof__(vsprintf) vsprintf BANNED("vsnprintf");
extern char *gets(char *) BANNED("getline");

/* hidden state, or errors that cannot be seen */
extern __typeof__(strtok) strtok BANNED("strtok_r or strchr");
extern __typeof__(gmtime) gmtime BANNED("text_rfc3339 or gmtime_r");
extern __typeof__(localtime) localtime BANNED("text_rfc3339: we speak UTC");
extern __typeof__(ctime) ctime BANNED("text_rfc3339");
extern __typeof__(asctime) asctime BANNED("text_rfc3339");
extern __typeof__(atoi) atoi BANNED("text_int");
extern __typeof__(atol) atol BANNED("text_int");
extern __typeof__(atoll) atoll BANNED("text_int");
extern __typeof__(atof) atof BANNED("strtod");
extern __typeof__(rand) rand BANNED("random_bytes");
extern __typeof__(srand) srand BANNED("random_bytes");
extern __typeof__(mktemp) mktemp BANNED("mkostemp");
extern __typeof__(tmpnam) tmpnam BANNED("mkostemp");

/* a shell */
extern __typeof__(system) system BANNED("spawn_start");
extern __typeof__(popen) popen BANNED("spawn_start");

/* NSS */
extern __typeof__(getaddrinfo) getaddrinfo BANNED("a numeric address");
extern __typeof__(gethostbyname) gethostbyname BANNED("a numeric address");
extern __typeof__(getpwnam) getpwnam BANNED("user_lookup");
extern __typeof__(getpwuid) getpwuid BANNED("user_lookup_uid");
extern __typeof__(getgrnam) getgrnam BANNED("group_lookup");
extern __typeof__(getgrgid) getgrgid BANNED("group_lookup");
extern __typeof__(getpwnam_r) getpwnam_r BANNED("user_lookup");
extern __typeof__(getpwuid_r) getpwuid_r BANNED("user_lookup_uid");
extern __typeof__(getgrnam_r) getgrnam_r BANNED("group_lookup");
extern __typeof__(getgrgid_r) getgrgid_r BANNED("group_lookup");
extern __typeof__(initgroups) initgroups BANNED("setgroups");
extern __typeof__(getgrouplist) getgrouplist BANNED("user_find_groups");

/* descriptors that would survive an exec */
extern __typeof__(dup) dup BANNED("fcntl(F_DUPFD_CLOEXEC)");
extern __typeof__(dup2) dup2 BANNED("dup3");
extern __typeof__(pipe) pipe BANNED("pipe2(O_CLOEXEC)");
extern __typeof__(accept) accept BANNED("accept4(SOCK_CLOEXEC)");

#if defined(__clang__)
#pragma clang diagnostic pop
#endif
#pragma GCC diagnostic error "-Wdeprecated-declarations"
