/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exitcode.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/client.h"
#include "cli/jget.h"

int exit_of_err(const struct err *e)
{
	switch (e->kind) {
	case ERR_NOT_FOUND:
		return CLI_NOT_FOUND;
	case ERR_DENIED:
		return CLI_REFUSED;
	case ERR_TIMEOUT:
		return CLI_TIMEOUT;
	case ERR_INTERNAL:
	case ERR_INVALID:
	case ERR_EXISTS:
	case ERR_CONFLICT:
	case ERR_EXHAUSTED:
	case ERR_UNAVAILABLE:
	case ERR_UNSUPPORTED:
	case ERR_KIND_MAX_:
		break;
	}
	return CLI_OURS;
}

int exit_of_fault(const struct fault *f)
{
	/* the guest could not run the command: as a shell or env(1) says it */
	if (!strcmp(f->cause, "guest") && !strcmp(f->field, "cmd"))
		return strstr(f->message, "Permission denied") ||
			       strstr(f->message, "Exec format")
			   ? CLI_REFUSED
			   : CLI_NOT_FOUND;
	if (f->status == 401 || f->status == 403 ||
	    !strcmp(f->cause, "policy") || !strcmp(f->cause, "quota") ||
	    !strcmp(f->code, "isolation_unavailable"))
		return CLI_REFUSED;
	if (f->status == 404)
		return CLI_NOT_FOUND;
	if (f->status == 408 || f->status == 504 ||
	    !strcmp(f->code, "deadline_exceeded"))
		return CLI_TIMEOUT;
	return CLI_OURS;
}

static const struct {
	const char *name;
	int number;
} signals[] = {
	{ "HUP", SIGHUP },     { "INT", SIGINT },   { "QUIT", SIGQUIT },
	{ "ILL", SIGILL },     { "TRAP", SIGTRAP }, { "ABRT", SIGABRT },
	{ "BUS", SIGBUS },     { "FPE", SIGFPE },   { "KILL", SIGKILL },
	{ "USR1", SIGUSR1 },   { "SEGV", SIGSEGV }, { "USR2", SIGUSR2 },
	{ "PIPE", SIGPIPE },   { "ALRM", SIGALRM }, { "TERM", SIGTERM },
	{ "STKFLT", 16 },      { "CHLD", SIGCHLD }, { "CONT", SIGCONT },
	{ "STOP", SIGSTOP },   { "TSTP", SIGTSTP }, { "TTIN", SIGTTIN },
	{ "TTOU", SIGTTOU },   { "URG", SIGURG },   { "XCPU", SIGXCPU },
	{ "XFSZ", SIGXFSZ },   { "VTALRM", 26 },    { "PROF", SIGPROF },
	{ "WINCH", SIGWINCH }, { "POLL", SIGIO },   { "PWR", SIGPWR },
	{ "SYS", SIGSYS },
};

int signal_number(const char *name)
{
	char *end;
	long n = strtol(name, &end, 10);

	if (end != name && *end == '\0')
		return n > 0 && n <= 64 ? (int)n : 0;
	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (!strcmp(name, signals[i].name))
			return signals[i].number;
	}
	return 0;
}

static int fact_signal(const json_t *fact, char *ret_name, size_t n)
{
	const json_t *s = json_object_get(fact, "signal");

	if (json_is_integer(s)) {
		snprintf(ret_name, n, "signal %lld",
			 (long long)json_integer_value(s));
		return json_integer_value(s) > 0 && json_integer_value(s) <= 64
			   ? (int)json_integer_value(s)
			   : 0;
	}
	if (json_is_string(s)) {
		snprintf(ret_name, n, "%.31s", json_string_value(s));
		return signal_number(json_string_value(s));
	}
	snprintf(ret_name, n, "a signal");
	return 0;
}

int exit_of_fact(const json_t *fact, char *note, size_t n)
{
	const char *reason = jget_str(fact, "reason", "unknown");
	const json_t *code = json_object_get(fact, "code");
	char name[48];
	int signo;

	note[0] = '\0';
	if (!strcmp(reason, "exited") && json_is_integer(code))
		return (int)(json_integer_value(code) & 0xff);
	if (!strcmp(reason, "timeout")) {
		snprintf(note, n, "the command ran into its timeout");
		return CLI_TIMEOUT;
	}
	if (!strcmp(reason, "signaled")) {
		signo = fact_signal(fact, name, sizeof(name));
		snprintf(note, n, "the command was ended by %s", name);
		return signo ? 128 + signo : CLI_OURS;
	}
	if (!strcmp(reason, "oom")) {
		snprintf(note, n,
			 "the command was killed: the sandbox is out of "
			 "memory; give it more with --memory");
		return 128 + SIGKILL;
	}
	if (!strcmp(reason, "ended")) {
		snprintf(note, n, "the sandbox ended under the command");
		return CLI_OURS;
	}
	snprintf(note, n, "how the command ended is not known (%.40s)", reason);
	return CLI_OURS;
}
