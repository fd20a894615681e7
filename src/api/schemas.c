/* SPDX-License-Identifier: Apache-2.0 */
#include "api/openapi.h"

#include "base/own.h"

#define STRING	"{\"type\":\"string\"}"
#define STRING0 "{\"type\":[\"string\",\"null\"]}"
#define INTEGER "{\"type\":\"integer\"}"
#define INT0	"{\"type\":[\"integer\",\"null\"]}"
#define STRMAP                                                                 \
	"{\"type\":\"object\",\"additionalProperties\":{\"type\":"             \
	"\"string\"}}"
#define OBJECT0	   "{\"type\":[\"object\",\"null\"]}"
#define REF(n)	   "{\"$ref\":\"#/components/schemas/" n "\"}"
#define OBJ(props) "{\"type\":\"object\",\"properties\":{" props "}}"
#define CLOSED(need, props)                                                    \
	"{\"type\":\"object\",\"additionalProperties\":false,\"required\":"    \
	"[" need "],\"properties\":{" props "}}"
#define LIST(n)                                                                \
	OBJ("\"items\":{\"type\":\"array\",\"items\":" REF(                    \
	    n) "},\"next\":" STRING0)
#define RESOURCES                                                              \
	OBJ("\"vcpus\":" INTEGER ",\"memory_mib\":" INTEGER                    \
	    ",\"disk_mib\":" INTEGER)

#define NUMBER "{\"type\":\"number\"}"
#define WEBHOOK                                                                \
	"\"url\":{\"type\":\"string\",\"maxLength\":2048},"                  \
	"\"types\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":32,"        \
	"\"items\":{\"type\":\"string\",\"description\":\"sandbox.ended, "     \
	"sandbox.* or *\"}},\"labels\":{\"type\":[\"object\",\"null\"],"         \
	"\"additionalProperties\":{\"type\":\"string\"}},\"secrets\":{"         \
	"\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{"         \
	"\"type\":\"string\",\"minLength\":16,\"maxLength\":128},"             \
	"\"description\":\"[NEW, OLD?]; absent at POST: one is made\"}"

const struct schema schemas[] = {
	{ "Sandbox",
	  OBJ("\"id\":" STRING ",\"name\":" STRING0 ",\"project\":" STRING
	      ",\"state\":" STRING ",\"desired\":" STRING
	      ",\"observed\":" STRING ",\"activity\":" STRING0
	      ",\"generation\":" INTEGER ",\"observed_generation\":" INTEGER
	      ",\"template\":" STRING0 ",\"release\":" STRING
	      ",\"labels\":" STRMAP ",\"resources\":" RESOURCES
	      ",\"lifetime\":" OBJ(
		  "\"ttl_s\":" INT0
		  ",\"on_expiry\":" STRING) ",\"ends_at\":" STRING0
					    ",\"isolation\":" OBJECT0
					    ",\"node\":" STRING0
					    ",\"durability\":" STRING
					    ",\"last_snapshot\":" STRING0
					    ",\"at_risk_s\":" INT0
					    ",\"end\":" OBJECT0
					    ",\"created_by\":" STRING
					    ",\"created_at\":" STRING
					    ",\"started_at\":" STRING0
					    ",\"updated_at\":" STRING) },
	{ "SandboxCreate",
	  CLOSED("\"template\"",
		 "\"template\":{\"type\":\"string\",\"description\":\"NAME, "
		 "NAME:TAG or sha256:HEX\"},\"name\":" STRING
		 ",\"labels\":" STRMAP ",\"env\":" STRMAP
		 ",\"resources\":" RESOURCES ",\"lifetime\":" OBJ(
		     "\"ttl_s\":{\"type\":[\"integer\",\"null\"],\"default\":"
		     "3600,\"description\":\"null: no end\"},"
		     "\"on_expiry\":{\"enum\":[\"end\"]}") ",\"isolation\":{"
							   "\"enum\":["
							   "\"hardware\","
							   "\"software\"]},"
							   "\"on_node_loss\":{"
							   "\"enum\":[\"lose\"]"
							   "}") },
	{ "SandboxList", LIST("Sandbox") },
	{ "Operation",
	  OBJ("\"id\":" STRING ",\"kind\":" STRING
	      ",\"state\":{\"enum\":[\"pending\",\"running\",\"succeeded\","
	      "\"failed\",\"cancelled\"]},\"sandbox\":" STRING0
	      ",\"template\":" STRING0 ",\"generation\":" INT0
	      ",\"progress\":" OBJECT0 ",\"error\":" OBJECT0
	      ",\"timings_ms\":" OBJECT0 ",\"superseded_by\":" STRING0
	      ",\"created_by\":" STRING ",\"created_at\":" STRING
	      ",\"started_at\":" STRING0 ",\"finished_at\":" STRING0
	      ",\"deadline\":" STRING) },
	{ "OperationList", LIST("Operation") },
	{ "Accepted", OBJ("\"operation\":" REF("Operation") ",\"sandbox\":" REF(
			  "Sandbox")) },
	{ "Exec", "{\"type\":\"object\",\"description\":\"as the guest daemon "
		  "tells it\"}" },
	{ "ExecCreate",
	  CLOSED("",
		 "\"cmd\":{\"type\":\"array\",\"items\":" STRING
		 "},\"shell\":" STRING ",\"env\":" STRMAP ",\"cwd\":" STRING
		 ",\"user\":" STRING ",\"stdin\":{\"type\":\"boolean\"},"
		 "\"timeout_s\":" INTEGER ",\"start\":{\"enum\":[\"attach\","
		 "\"now\"],\"default\":\"attach\"},\"pty\":" REF(
		     "Size") ","
			     "\"keep_bytes\":" INTEGER
			     ",\"overflow\":{\"enum\":[\"roll\",\"block\"]}") },
	{ "Signal",
	  CLOSED("\"name\"", "\"name\":" STRING
			     ",\"scope\":{\"enum\":[\"tree\",\"leader\"]}") },
	{ "Size", CLOSED("\"cols\",\"rows\"",
			 "\"cols\":" INTEGER ",\"rows\":" INTEGER) },
	{ "Attach",
	  OBJ("\"url\":" STRING ",\"token\":" STRING ",\"expires_at\":" STRING
	      ",\"exec\":" STRING ",\"watch\":{\"type\":\"boolean\"}") },
	{ "AttachTokenCreate",
	  CLOSED("", "\"watch\":{\"type\":\"boolean\"},\"ttl_s\":{\"type\":"
		     "\"integer\",\"minimum\":1,\"maximum\":86400,"
		     "\"default\":86400}") },
	{ "TokenCreate",
	  CLOSED("\"sandbox\",\"allow\"",
		 "\"sandbox\":" STRING ",\"allow\":{\"type\":\"array\","
		 "\"minItems\":1,\"items\":{\"enum\":[\"exec\",\"files\","
		 "\"ports\",\"end\"]}},\"ttl_s\":{\"type\":\"integer\","
		 "\"minimum\":1,\"maximum\":86400,\"default\":3600}") },
	{ "Token", OBJ("\"token\":" STRING ",\"sandbox\":" STRING
		       ",\"allow\":{\"type\":\"array\",\"items\":" STRING
		       "},\"expires_at\":" STRING ",\"key\":" STRING) },
	{ "Signalled", "{\"type\":\"object\"}" },
	{ "Event",
	  OBJ("\"id\":" STRING ",\"cursor\":" STRING0 ",\"time\":" STRING
	      ",\"type\":" STRING ",\"project\":" STRING0
	      ",\"sandbox\":" STRING0 ",\"operation\":" STRING0
	      ",\"actor\":" STRING0 ",\"data\":{\"type\":\"object\"},"
	      "\"trace\":" STRING0) },
	{ "EventList", LIST("Event") },
	{ "Webhook",
	  OBJ("\"id\":" STRING ",\"project\":" STRING ",\"url\":" STRING
	      ",\"types\":{\"type\":\"array\",\"items\":" STRING
	      "},\"labels\":" OBJECT0 ",\"secrets\":" INTEGER
	      ",\"state\":{\"enum\":[\"active\",\"disabled\"]},"
	      "\"reason\":" STRING0 ",\"generation\":" INTEGER
	      ",\"created_by\":" STRING ",\"created_at\":" STRING
	      ",\"updated_at\":" STRING
	      ",\"secret\":{\"type\":[\"string\",\"null\"],"
	      "\"description\":\"in the answer to POST without secrets, "
	      "once\"}") },
	{ "WebhookList", LIST("Webhook") },
	{ "WebhookCreate", CLOSED("\"url\",\"types\"", WEBHOOK) },
	{ "WebhookChange",
	  CLOSED("", WEBHOOK ",\"state\":{\"enum\":[\"active\","
			     "\"disabled\"]}") },
	{ "Delivery",
	  OBJ("\"id\":" STRING ",\"webhook\":" STRING ",\"event\":" STRING
	      ",\"type\":" STRING ",\"state\":{\"enum\":[\"pending\","
	      "\"delivered\",\"failed\"]},\"attempts\":" INTEGER
	      ",\"status\":" INT0 ",\"error\":" STRING0
	      ",\"took_ms\":" INT0 ",\"next_at\":" STRING0
	      ",\"created_at\":" STRING ",\"finished_at\":" STRING0) },
	{ "DeliveryList", LIST("Delivery") },
	{ "AuditRecord",
	  OBJ("\"n\":" INTEGER ",\"tenant\":" STRING ",\"project\":" STRING0
	      ",\"time\":" STRING ",\"actor\":" STRING
	      ",\"actor_name\":" STRING0 ",\"action\":" STRING
	      ",\"target\":" STRING0 ",\"request\":" STRING0
	      ",\"trace\":" STRING0
	      ",\"outcome\":{\"enum\":[\"done\",\"refused\"]},"
	      "\"code\":" STRING0 ",\"detail\":" STRING0
	      ",\"prev\":" STRING ",\"hash\":" STRING) },
	{ "AuditList", LIST("AuditRecord") },
	{ "AuditHead",
	  OBJ("\"tenant\":" STRING ",\"n\":" INTEGER ",\"hash\":" STRING
	      ",\"time\":" STRING0 ",\"floor\":" OBJ(
		  "\"n\":" INTEGER ",\"hash\":" STRING) ",\"broken\":" INT0
							   ",\"pending\":" INTEGER) },
	{ "Usage",
	  OBJ("\"from\":" STRING ",\"to\":" STRING
	      ",\"items\":{\"type\":\"array\",\"items\":" OBJ(
		  "\"group\":" STRING0 ",\"sandboxes\":" INTEGER
		  ",\"running_s\":" NUMBER ",\"cpu_s\":" NUMBER
		  ",\"memory_mib_s\":" NUMBER
		  ",\"memory_used_mib_s\":" NUMBER ",\"disk_mib_s\":" NUMBER
		  ",\"egress_bytes\":" INTEGER) "}") },
	{ "Metrics",
 "{\"type\":\"object\",\"description\":\"a sample as the "
		     "guest daemon tells it\"}" },
	{ "Key", OBJ("\"id\":" STRING ",\"name\":" STRING ",\"role\":" STRING
		     ",\"prefix\":" STRING ",\"project\":" STRING
		     ",\"created_at\":" STRING ",\"revoked_at\":" STRING0
		     ",\"secret\":{\"type\":[\"string\",\"null\"],"
		     "\"description\":\"in the answer to POST only, once\"}") },
	{ "KeyCreate",
	  CLOSED("\"name\",\"role\"",
		 "\"name\":" STRING ",\"role\":{\"enum\":[\"viewer\","
		 "\"developer\",\"admin\",\"operator\"]}") },
	{ "KeyList", LIST("Key") },
	{ "Template",
	  OBJ("\"name\":" STRING
	      ",\"public\":{\"type\":\"boolean\"},\"release\":" STRING0
	      ",\"tags\":" STRMAP ",\"created_at\":" STRING) },
	{ "TemplateList", LIST("Template") },
	{ "Release", OBJ("\"digest\":" STRING ",\"template\":" STRING
			 ",\"public\":{\"type\":\"boolean\"},\"manifest\":"
			 "{\"type\":\"object\"},\"created_by\":" STRING
			 ",\"created_at\":" STRING) },
	{ "Build",
	  CLOSED(
	      "\"from\"",
	      "\"from\":" OBJ("\"artifacts\":" CLOSED(
		  "\"kernel\",\"initramfs\",\"root\"",
		  "\"kernel\":" STRING ",\"initramfs\":" STRING
		  ",\"root\":" STRING)) ",\"root_format\":{\"enum\":[\"raw\"]},"
					"\"defaults\":" OBJ(
					    "\"memory_"
					    "mib\":" INTEGER ",\"vcpus\""
					    ":" INTEGER ",\"disk_"
					    "mib\":" INTEGER ",\"user\":" STRING
					    ",\"cwd\":" STRING
					    ",\"env\":" STRMAP) ",\"provenance"
								"\":{\"type\":"
								"\"object\""
								"}") },
	{ "NodeList", OBJ("\"items\":{\"type\":\"array\",\"items\":"
			  "{\"type\":\"object\"}},\"next\":" STRING0) },
	{ "Whoami", "{\"type\":\"object\"}" },
	{ "State", "{\"type\":\"object\"}" },
	{ "File", OBJ("\"path\":" STRING ",\"size\":" INTEGER
		      ",\"sha256\":" STRING ",\"etag\":" STRING) },
	{ "Entry",
	  OBJ("\"name\":" STRING ",\"path\":" STRING ",\"type\":{\"enum\":["
	      "\"file\",\"dir\",\"symlink\",\"fifo\",\"socket\","
	      "\"block\",\"char\"]},\"size\":" INTEGER ",\"mode\":" STRING
	      ",\"uid\":" INTEGER ",\"gid\":" INTEGER ",\"user\":" STRING
	      ",\"group\":" STRING ",\"mtime\":" STRING ",\"target\":" STRING
	      ",\"etag\":" STRING ",\"name_b64\":" STRING
	      ",\"path_b64\":" STRING ",\"target_b64\":" STRING) },
	{ "EntryList", LIST("Entry") },
	{ "Unpacked", OBJ("\"entries\":" INTEGER ",\"bytes\":" INTEGER) },
};
const size_t n_schemas = ARRAY_SIZE(schemas);

const struct query_doc query_docs[] = {
	{ "wait_s", "{\"type\":\"integer\",\"minimum\":0,\"maximum\":60,"
		    "\"default\":0,\"description\":\"answer when it is done, "
		    "at the latest then\"}" },
	{ "limit", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":200,"
		   "\"default\":50}" },
	{ "after", "{\"type\":\"string\",\"description\":\"`next` of the page "
		   "before\"}" },
	{ "state", STRING },
	{ "label", "{\"type\":\"string\",\"description\":\"KEY=VALUE; repeat "
		   "for and\"}" },
	{ "template", STRING },
	{ "created_after", "{\"type\":\"string\",\"format\":\"date-time\"}" },
	{ "sandbox", STRING },
	{ "from", "{\"type\":[\"integer\",\"string\"],\"description\":"
		  "\"offset of the first byte; of usage and metrics: a time\"}" },
	{ "follow", "{\"enum\":[0,1],\"default\":0}" },
	{ "offset", "{\"type\":\"integer\",\"minimum\":0,\"description\":"
		    "\"position in stdin\"}" },
	{ "end", "{\"enum\":[0,1],\"default\":0,\"description\":\"1: no more "
		 "input follows\"}" },
	{ "path", "{\"type\":\"string\",\"description\":\"any bytes, "
		  "percent-encoded\"}" },
	{ "mode", "{\"type\":\"string\",\"description\":\"octal\"}" },
	{ "owner", "{\"type\":\"string\",\"description\":\"user[:group]\"}" },
	{ "parents", "{\"enum\":[0,1],\"default\":0}" },
	{ "watch", "{\"enum\":[0,1],\"default\":0,\"description\":\"1: start "
		   "nothing, write nothing\"}" },
	{ "recursive", "{\"enum\":[0,1],\"default\":0}" },
	{ "replace", "{\"enum\":[0,1],\"default\":0}" },
	{ "depth", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":64,"
		   "\"default\":1}" },
	{ "to", "{\"type\":\"string\",\"description\":\"any bytes, "
		"percent-encoded\"}" },
	{ "format", "{\"enum\":[\"tar\",\"tar.zst\"],\"default\":"
		    "\"tar\"}" },
	{ "type", "{\"type\":\"string\",\"description\":\"types, separated by "
		  "commas: sandbox.ended, sandbox.*\"}" },
	{ "order", "{\"enum\":[\"newest\",\"oldest\"],\"default\":"
		   "\"newest\"}" },
	{ "actor", STRING },
	{ "action", STRING },
	{ "target", STRING },
	{ "outcome", "{\"enum\":[\"done\",\"refused\"]}" },
	{ "cluster", "{\"enum\":[0,1],\"default\":0,\"description\":\"1: of "
		     "what belongs to no tenant; operators\"}" },
	{ "to", "{\"type\":\"string\",\"format\":\"date-time\"}" },
	{ "group", "{\"type\":\"string\",\"description\":\"project, sandbox "
		   "or label:KEY\"}" },
	{ "step_s", "{\"type\":\"integer\",\"minimum\":10,\"maximum\":86400,"
		    "\"default\":60}" },
};
const size_t n_query_docs = ARRAY_SIZE(query_docs);
