/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include "api/schema-words.h"
#include "base/own.h"

/* What the control listener takes and answers about sandboxes, templates, keys
 * and who they belong to. Clients are generated from these: an answer's
 * properties are all there, a null says so. */

#define STATES                                                                 \
	"\"pending\",\"starting\",\"running\",\"pausing\",\"paused\","         \
	"\"suspending\",\"suspended\",\"resuming\",\"ending\",\"ended\","      \
	"\"failed\",\"lost\""
#define ROLES "\"viewer\",\"developer\",\"admin\",\"operator\""
#define NAME                                                                   \
	"{\"type\":\"string\",\"pattern\":"                                    \
	"\"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$\"}"
#define DIGEST "{\"type\":\"string\",\"pattern\":\"^sha256:[0-9a-f]{64}$\"}"
#define COUNTS                                                                 \
	S_P("sandboxes", S_INT)                                                \
	S_Q("vcpus", S_INT) S_Q("memory_mib", S_INT) S_Q("disk_mib", S_INT)
#define LIMIT0 "{\"type\":[\"integer\",\"null\"],\"minimum\":0}"
#define LIMITS                                                                 \
	S_P("sandboxes", LIMIT0)                                               \
	S_Q("vcpus", LIMIT0) S_Q("memory_mib", LIMIT0) S_Q("disk_mib", LIMIT0)
#define LABELS                                                                 \
	"{\"type\":\"object\",\"maxProperties\":64,"                           \
	"\"additionalProperties\":{\"type\":\"string\",\"maxLength\":255}}"
#define TTL                                                                    \
	"{\"type\":[\"integer\",\"null\"],\"minimum\":1,\"maximum\":31622400," \
	"\"description\":\"seconds from now; null: no end\"}"

const struct schema control_schemas[] = {
	{ "Alive", S_ANSWER(S_P("alive", S_BOOL)) },
	{ "Ready", S_ANSWER(S_P("ready", S_BOOL)) },
	{ "Document", S_ANY_OBJECT },
	{ "Resources", S_ANSWER(S_P("vcpus", S_INT) S_Q("memory_mib", S_INT)
				    S_Q("disk_mib", S_INT)) },
	{ "ResourcesAsked",
	  S_BODY("", S_P("vcpus", S_RANGE("1", "64"))
			 S_Q("memory_mib", S_RANGE("64", "1048576"))
			     S_Q("disk_mib", S_RANGE("64", "16777216"))) },
	{ "Lifetime", S_ANSWER(S_P("ttl_s", S_INT0)
				   S_Q("on_expiry", S_ENUM("\"end\",\"pause\","
							   "\"suspend\""))) },
	{ "LifetimeAsked",
	  S_BODY("", S_P("ttl_s", TTL) S_Q("on_expiry", S_ENUM("\"end\""))) },
	{ "Isolation",
	  S_ANSWER(S_P("level", S_ENUM("\"hardware\",\"software\",\"none\""))
		       S_Q("engine", S_STRING0) S_Q("reason", S_STRING0)) },
	{ "End", S_ANSWER(S_P("reason", S_STRING0) S_Q("detail", S_STRING0) S_Q(
		     "at", S_TIME) S_Q("last_usage",
				       "{\"type\":[\"object\",\"null\"]}")) },
	{ "Sandbox",
	  S_ANSWER(
	      S_P("id", S_ID("sb")) S_Q("name", S_STRING0)
		  S_Q("project", S_STRING) S_Q("state", S_ENUM(STATES)) S_Q(
		      "desired", S_ENUM("\"running\",\"paused\","
					"\"suspended\",\"deleted\""))
		      S_Q("observed", S_STRING) S_Q("activity", S_STRING0) S_Q(
			  "generation", S_INT) S_Q("observed_generation", S_INT)
			  S_Q("template", S_STRING0) S_Q("release", DIGEST) S_Q(
			      "labels", S_STRMAP) S_Q("resources",
						      S_REF("Resources"))
			      S_Q("lifetime", S_REF("Lifetime")) S_Q(
				  "ends_at", S_TIME0) S_Q("isolation",
							  S_REF0("Isolation"))
				  S_Q("node", S_STRING0) S_Q(
				      "durability",
				      S_ENUM("\"none\",\"node\",\"store\""))
				      S_Q("last_snapshot",
					  S_STRING0) S_Q("at_risk_s", S_INT0)
					  S_Q("end", S_REF0("End")) S_Q(
					      "created_by", S_STRING)
					      S_Q("created_at", S_TIME) S_Q(
						  "started_at", S_TIME0)
						  S_Q("updated_at", S_TIME)) },
	{ "SandboxCreate",
	  S_BODY("\"template\"",
		 "\"template\":{\"type\":\"string\",\"description\":\"NAME, "
		 "NAME:TAG or sha256:HEX\"}" S_Q("name", NAME)
		     S_Q("labels", LABELS) S_Q("env", S_STRMAP) S_Q(
			 "resources", S_REF("ResourcesAsked"))
			 S_Q("lifetime", S_REF("LifetimeAsked")) S_Q(
			     "isolation", S_ENUM("\"hardware\",\"software\""))
			     S_Q("on_node_loss", S_ENUM("\"lose\""))) },
	{ "SandboxUpdate",
	  S_BODY(
	      "",
	      "\"labels\":{\"type\":\"object\",\"maxProperties\":64,"
	      "\"additionalProperties\":{\"type\":[\"string\",\"null\"],"
	      "\"maxLength\":255},\"description\":\"merged into the labels; "
	      "null removes one\"}" S_Q("lifetime", S_REF("LifetimeAsked"))) },
	{ "SandboxList", S_LIST("Sandbox") },
	{ "Fault",
	  "{\"type\":\"object\",\"required\":[\"code\",\"message\","
	  "\"cause\",\"remedy\"],\"properties\":{" S_P("code", S_STRING)
	      S_Q("message", S_STRING) S_Q("cause", S_STRING)
		  S_Q("remedy", S_STRING) S_Q("field", S_STRING)
		      S_Q("retry_after_s", S_INT) "}}" },
	{ "Progress",
	  "{\"type\":\"object\",\"required\":[],\"properties\":{" S_P(
	      "phase", S_STRING) S_Q("done", S_NUMBER) S_Q("total", S_NUMBER)
	      S_Q("unit", S_STRING) "}}" },
	{ "Operation",
	  S_ANSWER(
	      S_P("id", S_ID("op_")) S_Q(
		  "kind", S_ENUM("\"create\",\"end\",\"template_build\""))
		  S_Q("state", S_ENUM("\"pending\",\"running\",\"succeeded\","
				      "\"failed\",\"cancelled\""))
		      S_Q("sandbox", S_STRING0) S_Q("template", S_STRING0)
			  S_Q("generation", S_INT0) S_Q("progress",
							S_REF0("Progress"))
			      S_Q("error", S_REF0("Fault")) S_Q("timings_ms",
								S_NUMMAP0)
				  S_Q("superseded_by",
				      S_STRING0) S_Q("created_by", S_STRING)
				      S_Q("created_at", S_TIME)
					  S_Q("started_at", S_TIME0)
					      S_Q("finished_at", S_TIME0)
						  S_Q("deadline", S_TIME)) },
	{ "OperationList", S_LIST("Operation") },
	{ "Accepted", S_ANSWER(S_P("operation", S_REF0("Operation"))
				   S_Q("sandbox", S_REF0("Sandbox"))) },
	{ "Key",
	  S_ANSWER(
	      S_P("id", S_ID("key_")) S_Q("name", S_STRING) S_Q(
		  "role", S_ENUM(ROLES)) S_Q("prefix", S_STRING)
		  S_Q("project", S_STRING) S_Q("created_at", S_TIME) S_Q(
		      "revoked_at",
		      S_TIME0) ",\"secret\":{\"type\":[\"string\",\"null\"],"
			       "\"x-optional\":true,\"description\":\"in the "
			       "answer to "
			       "POST only; null when that is replayed\"}") },
	{ "KeyCreate",
	  S_BODY("\"role\"",
		 "\"name\":{\"type\":\"string\",\"maxLength\":100}" S_Q(
		     "role", S_ENUM(ROLES)) S_Q("project", S_STRING)) },
	{ "KeyList", S_LIST("Key") },
	{ "Template",
	  S_ANSWER(S_P("name", NAME) S_Q("public", S_BOOL)
		       S_Q("project", S_STRING) S_Q("generation", S_INT)
			   S_Q("release", S_STRING0) S_Q("tags", S_STRMAP)
			       S_Q("created_at", S_TIME)) },
	{ "TemplateCreate",
	  S_BODY("\"name\"", S_P("name", NAME) S_Q("public", S_BOOL)) },
	{ "TemplateList", S_LIST("Template") },
	{ "TagPut", S_BODY("\"release\"", S_P("release", DIGEST)) },
	{ "TemplateDefaults",
	  "{\"type\":\"object\",\"required\":[],\"properties\":{" S_P(
	      "vcpus", S_INT) S_Q("memory_mib", S_INT) S_Q("disk_mib", S_INT)
	      S_Q("user", S_STRING) S_Q("cwd", S_STRING)
		  S_Q("env", S_STRMAP) "}}" },
	{ "Manifest",
	  "{\"type\":\"object\",\"required\":[\"kernel\",\"initramfs\","
	  "\"root\"],\"properties\":{" S_P("kernel", DIGEST)
	      S_Q("initramfs", DIGEST) S_Q("root", DIGEST)
		  S_Q("root_format", S_STRING)
		      S_Q("defaults", S_REF("TemplateDefaults"))
			  S_Q("provenance", S_ANY_OBJECT) "}}" },
	{ "Release",
	  S_ANSWER(S_P("digest", DIGEST) S_Q("template", S_STRING) S_Q(
	      "public", S_BOOL) S_Q("manifest", S_REF("Manifest"))
		       S_Q("created_by", S_STRING) S_Q("created_at", S_TIME)) },
	{ "Build",
	  S_BODY(
	      "\"from\"",
	      S_P("from", S_BODY("\"artifacts\"",
				 S_P("artifacts",
				     S_BODY("\"kernel\",\"initramfs\",\"root\"",
					    S_P("kernel", S_STRING)
						S_Q("initramfs", S_STRING)
						    S_Q("root", S_STRING)))))
		  S_Q("root_format", S_ENUM("\"raw\""))
		      S_Q("defaults", S_REF("TemplateDefaults"))
			  S_Q("provenance", S_ANY_OBJECT)) },
	{ "NodeEngine", S_ANSWER(S_P("name", S_STRING) S_Q(
			    "isolation", S_STRING) S_Q("reason", S_STRING)) },
	{ "NodeCapacity", S_ANSWER(S_P("slots", S_INT) S_Q("memory_mib", S_INT)
				       S_Q("vcpus", S_INT)) },
	{ "NodeUsed", S_ANSWER(S_P("sandboxes", S_INT) S_Q("slots", S_INT)
				   S_Q("memory_mib", S_INT)) },
	{ "Node",
	  S_ANSWER(S_P("name", S_STRING)
		       S_Q("state", S_ENUM("\"up\",\"cordoned\",\"down\""))
			   S_Q("alive", S_BOOL) S_Q("version", S_STRING)
			       S_Q("incarnation",
				   S_STRING) S_Q("engine", S_REF("NodeEngine"))
				   S_Q("capacity", S_REF("NodeCapacity"))
				       S_Q("used", S_REF("NodeUsed"))
					   S_Q("waiting_vmms", S_INT)
					       S_Q("heartbeat_at", S_TIME)
						   S_Q("created_at", S_TIME)) },
	{ "NodeList", S_LIST("Node") },
	{ "Named", S_ANSWER(S_P("id", S_STRING) S_Q("name", S_STRING)) },
	{ "WhoamiKey", S_ANSWER(S_P("id", S_STRING) S_Q("name", S_STRING) S_Q(
			   "role", S_ENUM(ROLES)) S_Q("prefix", S_STRING)) },
	{ "WhoamiScope",
	  S_ANSWER(S_P("sandbox", S_STRING) S_Q(
	      "allow", S_ARRAY(S_ENUM("\"exec\",\"files\",\"ports\","
				      "\"end\"")))) },
	{ "WhoamiLimits",
	  S_ANSWER(S_P("body_bytes", S_INT) S_Q("ttl_s", S_INT)
		       S_Q("ttl_default_s", S_INT) S_Q("labels", S_INT)
			   S_Q("env", S_INT) S_Q("wait_s", S_INT)
			       S_Q("page", S_INT) S_Q("calls_per_s", S_INT)) },
	{ "Whoami",
	  S_ANSWER(
	      S_P("key", S_REF("WhoamiKey")) S_Q("role", S_ENUM(ROLES))
		  S_Q("scope", S_REF0("WhoamiScope")) S_Q(
		      "tenant", S_REF("Named")) S_Q("project", S_REF("Named"))
		      S_Q("version", S_STRING) S_Q("api", S_STRING)
			  S_Q("limits", S_REF("WhoamiLimits"))
			      S_Q("quotas", S_REF("Quota"))
				  S_Q("engines", S_ARRAY(S_ANY_OBJECT))
				      S_Q("weakest_isolation", S_STRING0)) },
	{ "Quota", S_ANSWER(S_P("project", S_STRING) S_Q("generation", S_INT)
				S_Q("limits", S_ANSWER(LIMITS))
				    S_Q("used", S_ANSWER(COUNTS))) },
	{ "QuotaPut",
	  S_BODY("\"limits\"",
		 S_P("project", S_STRING) S_Q(
		     "limits", S_BODY("\"sandboxes\",\"vcpus\",\"memory_mib\","
				      "\"disk_mib\"",
				      LIMITS))) },
	{ "Project", S_ANSWER(S_P("id", S_STRING) S_Q("name", S_STRING) S_Q(
			 "tenant", S_STRING) S_Q("created_at", S_TIME)) },
	{ "ProjectCreate",
	  S_BODY("\"name\"", S_P("name", NAME) S_Q("tenant", S_STRING)) },
	{ "ProjectList", S_LIST("Project") },
	{ "Tenant", S_ANSWER(S_P("id", S_STRING) S_Q("name", S_STRING) S_Q(
			"created_at", S_TIME) S_Q("deleted_at", S_TIME0)) },
	{ "TenantCreate", S_BODY("\"name\"", S_P("name", NAME)) },
	{ "TenantCreated", S_ANSWER(S_P("tenant", S_REF("Tenant"))
					S_Q("project", S_REF("Project"))) },
	{ "TenantDeleted",
	  S_ANSWER(S_P("tenant", S_REF("Tenant")) S_Q("ending", S_INT)) },
	{ "TenantList", S_LIST("Tenant") },
	{ "ExecOutput", S_ANSWER(S_P("begin", S_INT) S_Q("end", S_INT)) },
	{ "ExecAttached",
	  S_ANSWER(S_P("writer", S_BOOL) S_Q("watchers", S_INT)) },
	{ "ExecBytes", S_ANSWER(S_P("stdout", S_INT) S_Q("stderr", S_INT)
				    S_Q("pty", S_INT)) },
	{ "ExecExit",
	  S_ANSWER(S_P("reason",
		       S_ENUM("\"exited\",\"signaled\",\"timeout\",\"oom\","
			      "\"ended\",\"unknown\"")) S_Q("code", S_INT0)
		       S_Q("signal", S_STRING0) S_Q("wall_ms", S_INT)
			   S_Q("cpu_ms", S_INT) S_Q("max_rss_bytes", S_INT)
			       S_Q("bytes", S_REF("ExecBytes"))
				   S_Q("dropped_bytes", S_INT)
				       S_OPT("left_behind", S_ARRAY(S_INT))) },
	{ "Exec",
	  S_ANSWER(
	      S_P("id", "{\"type\":\"string\",\"pattern\":"
			"\"^ex_[a-z0-9]{28}$\"}")
		  S_Q("state", S_ENUM("\"created\",\"expired\",\"running\","
				      "\"exited\"")) S_Q("cmd",
							 S_ARRAY(S_STRING))
		      S_Q("user", S_STRING0) S_Q("cwd", S_STRING0)
			  S_Q("stdin", S_BOOL) S_Q("pty", S_REF0("Size"))
			      S_Q("overflow", S_ENUM("\"roll\",\"block\"")) S_Q(
				  "pid", S_INT0) S_Q("created_at", S_TIME0)
				  S_Q("started_at", S_TIME0) S_Q("ended_at",
								 S_TIME0)
				      S_Q("output", S_REF("ExecOutput")) S_Q(
					  "stdin_offset", S_INT)
					  S_Q("attached", S_REF("ExecAttached"))
					      S_Q("exit", S_REF0("ExecExit"))
						  S_OPT("not_started", S_STRING)
						      S_OPT("attach",
							    S_REF("Attach"))) },
	{ "ExecList", S_LIST("Exec") },
};
const size_t n_control_schemas = ARRAY_SIZE(control_schemas);
