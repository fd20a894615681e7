/* SPDX-License-Identifier: Apache-2.0 */
#include "api/route.h"

#include "api/handlers.h"
#include "base/own.h"

#define C	  SIDE_CONTROL
#define D	  SIDE_DATA
#define OPEN	  ROLE_OPEN
#define VIEWER	  ROLE_VIEWER
#define DEVELOPER ROLE_DEVELOPER
#define ADMIN	  ROLE_ADMIN
#define OPERATOR  ROLE_OPERATOR

#define PAGE   "limit after"
#define NDJSON "application/x-ndjson"
#define OCTETS "application/octet-stream"
#define LATER(m, p, s, r, what)                                                \
	{                                                                      \
		m, p, s, r, NULL, what, NULL, NULL, NULL, NULL, false          \
	}

/* Where two templates match a path, the literal one stands first. */
const struct route routes[] = {
	/* about the server */
	{ "GET", "/healthz", C, OPEN, h_healthz, "the process serves", NULL,
	  NULL, "State", NULL, false },
	{ "GET", "/readyz", C, OPEN, h_readyz, "the database is there", NULL,
	  NULL, "State", NULL, false },
	{ "GET", "/metrics", C, OPERATOR, h_metrics, "Prometheus text", NULL,
	  NULL, NULL, "text/plain", false },
	{ "GET", "/v1/openapi.json", C, OPEN, h_openapi, "this document", NULL,
	  NULL, "State", NULL, false },
	{ "GET", "/v1/whoami", C, VIEWER, h_whoami,
	  "the key, its role, the server, engines and weakest isolation", NULL,
	  NULL, "Whoami", NULL, false },

	/* sandboxes */
	{ "GET", "/v1/sandboxes", C, VIEWER, h_sandbox_list,
	  "list sandboxes, newest first",
	  PAGE " state label template created_after", NULL, "SandboxList", NULL,
	  false },
	{ "POST", "/v1/sandboxes", C, DEVELOPER, h_sandbox_create,
	  "create a sandbox", "wait_s", "SandboxCreate", "Accepted", NULL,
	  false },
	{ "GET", "/v1/sandboxes/{id}", C, VIEWER, h_sandbox_get,
	  "one sandbox, by id or @name", NULL, NULL, "Sandbox", NULL, false },
	LATER("PATCH", "/v1/sandboxes/{id}", C, DEVELOPER,
	      "change labels, lifetime, snapshots"),
	{ "DELETE", "/v1/sandboxes/{id}", C, DEVELOPER, h_sandbox_end,
	  "end a sandbox, from any state; again is the same", "wait_s", NULL,
	  "Accepted", NULL, false },
	LATER("POST", "/v1/sandboxes/{id}/pause", C, DEVELOPER, "pause"),
	LATER("POST", "/v1/sandboxes/{id}/resume", C, DEVELOPER, "resume"),
	LATER("POST", "/v1/sandboxes/{id}/suspend", C, DEVELOPER, "suspend"),
	LATER("POST", "/v1/sandboxes/{id}/branches", C, DEVELOPER, "branch"),
	LATER("GET", "/v1/sandboxes/{id}/snapshots", C, VIEWER,
	      "snapshots of a sandbox"),
	LATER("POST", "/v1/sandboxes/{id}/snapshots", C, DEVELOPER,
	      "take a snapshot"),
	LATER("POST", "/v1/sandboxes/{id}/rollback", C, DEVELOPER, "roll back"),
	LATER("GET", "/v1/sandboxes/{id}/timeline", C, VIEWER, "timeline"),
	{ "GET", "/v1/sandboxes/{id}/metrics", C, VIEWER, h_sandbox_metrics,
	  "the current sample: cpu, memory, disk", NULL, NULL, "Metrics", NULL,
	  false },
	LATER("GET", "/v1/sandboxes/{id}/logs", C, VIEWER, "serial console"),
	{ "GET", "/v1/sandboxes/{id}/execs", C, VIEWER, h_exec_list,
	  "execs of a sandbox", NULL, NULL, "Exec", NULL, false },
	{ "POST", "/v1/sandboxes/{id}/execs", C, DEVELOPER, h_exec_create,
	  "start a command", NULL, "ExecCreate", "Exec", NULL, false },
	LATER("POST", "/v1/sandboxes/{id}/run", C, DEVELOPER,
	      "create, start and wait in one call"),
	LATER("GET", "/v1/sandboxes/{id}/ports", C, VIEWER, "open ports"),
	LATER("POST", "/v1/sandboxes/{id}/ports", C, DEVELOPER, "open a port"),
	LATER("DELETE", "/v1/sandboxes/{id}/ports", C, DEVELOPER,
	      "close a port"),
	LATER("GET", "/v1/sandboxes/{id}/egress", C, VIEWER, "egress binding"),
	LATER("POST", "/v1/sandboxes/{id}/egress/explain", C, VIEWER,
	      "explain a verdict"),
	LATER("GET", "/v1/sandboxes/{id}/egress/log", C, VIEWER,
	      "egress decisions"),
	LATER("GET", "/v1/sandboxes/{id}/grants", C, VIEWER, "grants"),
	LATER("POST", "/v1/sandboxes/{id}/grants", C, ADMIN, "grant"),
	LATER("DELETE", "/v1/sandboxes/{id}/grants", C, ADMIN, "revoke"),

	/* execs */
	{ "GET", "/v1/execs/{ex}", C, VIEWER, h_exec_get, "one exec", NULL,
	  NULL, "Exec", NULL, false },
	{ "DELETE", "/v1/execs/{ex}", C, DEVELOPER, h_exec_forget,
	  "forget a finished exec", NULL, NULL, "State", NULL, false },
	{ "POST", "/v1/execs/{ex}/signal", C, DEVELOPER, h_exec_signal,
	  "send a signal to the tree or its leader", NULL, "Signal",
	  "Signalled", NULL, false },
	{ "POST", "/v1/execs/{ex}/stdin", C, DEVELOPER, h_exec_stdin,
	  "bytes for stdin", "offset end", NULL, "Signalled", NULL, true },
	LATER("POST", "/v1/execs/{ex}/size", C, DEVELOPER, "terminal size"),
	LATER("POST", "/v1/execs/{ex}/token", C, DEVELOPER, "attach token"),

	/* operations */
	{ "GET", "/v1/operations", C, VIEWER, h_operation_list,
	  "list operations, newest first", PAGE " state sandbox", NULL,
	  "OperationList", NULL, false },
	{ "GET", "/v1/operations/{op}", C, VIEWER, h_operation_get,
	  "one operation, with its sandbox", "wait_s", NULL, "Accepted", NULL,
	  false },
	LATER("POST", "/v1/operations/{op}/cancel", C, DEVELOPER, "cancel"),

	/* snapshots */
	LATER("GET", "/v1/snapshots", C, VIEWER, "list snapshots"),
	LATER("GET", "/v1/snapshots/{snp}", C, VIEWER, "one snapshot"),
	LATER("PATCH", "/v1/snapshots/{snp}", C, DEVELOPER, "label, pin"),
	LATER("DELETE", "/v1/snapshots/{snp}", C, DEVELOPER, "delete"),
	LATER("GET", "/v1/snapshots/{snp}/diff", C, VIEWER, "changed paths"),
	LATER("GET", "/v1/snapshots/{snp}/files", C, VIEWER,
	      "files of a snapshot"),

	/* templates */
	{ "GET", "/v1/templates", C, VIEWER, h_template_list,
	  "templates of the project and public ones", PAGE, NULL,
	  "TemplateList", NULL, false },
	LATER("POST", "/v1/templates", C, DEVELOPER, "make a template"),
	{ "GET", "/v1/templates/{t}", C, VIEWER, h_template_get, "one template",
	  NULL, NULL, "Template", NULL, false },
	LATER("DELETE", "/v1/templates/{t}", C, DEVELOPER, "delete"),
	LATER("GET", "/v1/templates/{t}/builds", C, VIEWER, "builds"),
	{ "POST", "/v1/templates/{t}/builds", C, OPERATOR, h_build_start,
	  "register a release of imported artifacts, prepare it on a node and "
	  "move the tag latest",
	  "wait_s", "Build", "Accepted", NULL, false },
	LATER("GET", "/v1/templates/{t}/builds/{op}/logs", C, VIEWER,
	      "build log"),
	LATER("PUT", "/v1/templates/{t}/tags/{tag}", C, DEVELOPER,
	      "move a tag"),
	LATER("DELETE", "/v1/templates/{t}/tags/{tag}", C, DEVELOPER,
	      "delete a tag"),
	LATER("POST", "/v1/releases/audit", C, OPERATOR, "check all releases"),
	{ "GET", "/v1/releases/{sha256}", C, VIEWER, h_release_get,
	  "one release: artifacts, defaults, provenance", NULL, NULL, "Release",
	  NULL, false },
	LATER("PUT", "/v1/uploads/{sha256}", C, DEVELOPER, "build context"),

	/* egress, credentials, audit, events */
	LATER("GET", "/v1/egress/profiles/{p}", C, VIEWER, "egress profile"),
	LATER("PUT", "/v1/egress/profiles/{p}", C, ADMIN, "new version"),
	LATER("DELETE", "/v1/egress/profiles/{p}", C, ADMIN, "delete"),
	LATER("GET", "/v1/egress/log", C, VIEWER, "egress decisions"),
	LATER("POST", "/v1/egress/replay", C, ADMIN, "replay flows"),
	LATER("GET", "/v1/credentials", C, ADMIN, "credentials"),
	LATER("POST", "/v1/credentials", C, ADMIN, "add a credential"),
	LATER("GET", "/v1/credentials/{crd}", C, ADMIN, "one credential"),
	LATER("PATCH", "/v1/credentials/{crd}", C, ADMIN, "change"),
	LATER("DELETE", "/v1/credentials/{crd}", C, ADMIN, "delete"),
	LATER("POST", "/v1/credentials/{crd}/versions", C, ADMIN, "rotate"),
	LATER("POST", "/v1/credentials/{crd}/test", C, ADMIN, "dry run"),
	LATER("GET", "/v1/grants", C, ADMIN, "grants"),
	LATER("POST", "/v1/grants", C, ADMIN, "grant"),
	LATER("DELETE", "/v1/grants", C, ADMIN, "revoke"),
	LATER("GET", "/v1/audit", C, ADMIN, "audit chain"),
	LATER("GET", "/v1/audit/head", C, ADMIN, "head of the audit chain"),
	LATER("GET", "/v1/events", C, VIEWER, "events"),
	LATER("GET", "/v1/webhooks", C, ADMIN, "webhooks"),
	LATER("POST", "/v1/webhooks", C, ADMIN, "add a webhook"),
	LATER("PATCH", "/v1/webhooks", C, ADMIN, "change a webhook"),
	LATER("DELETE", "/v1/webhooks", C, ADMIN, "delete a webhook"),
	LATER("GET", "/v1/volumes", C, VIEWER, "volumes"),
	LATER("POST", "/v1/volumes", C, DEVELOPER, "make a volume"),
	LATER("DELETE", "/v1/volumes", C, DEVELOPER, "delete a volume"),

	/* keys, tenants, nodes */
	{ "GET", "/v1/keys", C, ADMIN, h_key_list, "keys of the project", PAGE,
	  NULL, "KeyList", NULL, false },
	{ "POST", "/v1/keys", C, ADMIN, h_key_create,
	  "make a key; its secret is shown once", NULL, "KeyCreate", "Key",
	  NULL, false },
	{ "DELETE", "/v1/keys/{key}", C, ADMIN, h_key_revoke,
	  "revoke a key; again is the same", NULL, NULL, "Key", NULL, false },
	LATER("POST", "/v1/tokens", C, DEVELOPER, "narrow a key"),
	LATER("GET", "/v1/projects", C, ADMIN, "projects"),
	LATER("GET", "/v1/usage", C, ADMIN, "usage"),
	LATER("GET", "/v1/quotas", C, ADMIN, "quotas"),
	LATER("GET", "/v1/tenants", C, OPERATOR, "tenants"),
	{ "GET", "/v1/nodes", C, OPERATOR, h_nodes_list, "nodes with counters",
	  NULL, NULL, "NodeList", NULL, false },
	LATER("POST", "/v1/nodes/{n}/cordon", C, OPERATOR, "cordon"),
	LATER("POST", "/v1/nodes/{n}/uncordon", C, OPERATOR, "uncordon"),
	LATER("POST", "/v1/nodes/{n}/drain", C, OPERATOR, "drain"),
	LATER("GET", "/v1/pools", C, OPERATOR, "pools"),

	/* the data listener */
	LATER("GET", "/v1/execs/{ex}/attach", D, DEVELOPER, "attach"),
	{ "GET", "/v1/execs/{ex}/output", D, VIEWER, h_exec_output,
	  "output from an offset, one JSON object a line", "from follow", NULL,
	  NULL, NDJSON, false },
	{ "GET", "/v1/sandboxes/{id}/files", D, VIEWER, h_file_read,
	  "read a file", "path", NULL, NULL, OCTETS, false },
	{ "HEAD", "/v1/sandboxes/{id}/files", D, VIEWER, h_file_read,
	  "a file's size and ETag", "path", NULL, NULL, OCTETS, false },
	{ "PUT", "/v1/sandboxes/{id}/files", D, DEVELOPER, h_file_write,
	  "write a file: temporary name, fsync, rename",
	  "path mode owner parents", NULL, "File", NULL, true },
	{ "DELETE", "/v1/sandboxes/{id}/files", D, DEVELOPER, h_file_remove,
	  "remove a file", "path", NULL, "State", NULL, false },
	LATER("GET", "/v1/sandboxes/{id}/files/list", D, VIEWER, "list"),
	LATER("GET", "/v1/sandboxes/{id}/files/stat", D, VIEWER, "stat"),
	LATER("POST", "/v1/sandboxes/{id}/files/mkdir", D, DEVELOPER, "mkdir"),
	LATER("POST", "/v1/sandboxes/{id}/files/move", D, DEVELOPER, "move"),
	LATER("GET", "/v1/sandboxes/{id}/archive", D, VIEWER, "tree as tar"),
	LATER("PUT", "/v1/sandboxes/{id}/archive", D, DEVELOPER,
	      "unpack a tar"),
	LATER("GET", "/v1/sandboxes/{id}/watch", D, VIEWER, "watch"),
	LATER("GET", "/v1/sandboxes/{id}/ports/{port}/tunnel", D, DEVELOPER,
	      "raw TCP to the guest's loopback"),
};
const size_t n_routes = ARRAY_SIZE(routes);
