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

#define NUMBER "{\"type\":\"number\"}"
#define WEBHOOK                                                                \
	"\"url\":{\"type\":\"string\",\"maxLength\":2048},"                    \
	"\"types\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":32,"        \
	"\"items\":{\"type\":\"string\",\"description\":\"sandbox.ended, "     \
	"sandbox.* or *\"}},\"labels\":{\"type\":[\"object\",\"null\"],"       \
	"\"additionalProperties\":{\"type\":\"string\"}},\"secrets\":{"        \
	"\"type\":\"array\",\"minItems\":1,\"maxItems\":2,\"items\":{"         \
	"\"type\":\"string\",\"minLength\":16,\"maxLength\":128},"             \
	"\"description\":\"[NEW, OLD?]; absent at POST: one is made\"}"

const struct schema schemas[] = {
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
	      ",\"status\":" INT0 ",\"error\":" STRING0 ",\"took_ms\":" INT0
	      ",\"next_at\":" STRING0 ",\"created_at\":" STRING
	      ",\"finished_at\":" STRING0) },
	{ "DeliveryList", LIST("Delivery") },
	{ "AuditRecord", OBJ("\"n\":" INTEGER ",\"tenant\":" STRING
			     ",\"project\":" STRING0 ",\"time\":" STRING
			     ",\"actor\":" STRING ",\"actor_name\":" STRING0
			     ",\"action\":" STRING ",\"target\":" STRING0
			     ",\"request\":" STRING0 ",\"trace\":" STRING0
			     ",\"outcome\":{\"enum\":[\"done\",\"refused\"]},"
			     "\"code\":" STRING0 ",\"detail\":" STRING0
			     ",\"prev\":" STRING ",\"hash\":" STRING) },
	{ "AuditList", LIST("AuditRecord") },
	{ "AuditHead",
	  OBJ("\"tenant\":" STRING ",\"n\":" INTEGER ",\"hash\":" STRING
	      ",\"time\":" STRING0
	      ",\"floor\":" OBJ("\"n\":" INTEGER
				",\"hash\":" STRING) ",\"broken\":" INT0
						     ",\"pending\":" INTEGER) },
	{ "Usage",
	  OBJ("\"from\":" STRING ",\"to\":" STRING
	      ",\"items\":{\"type\":\"array\",\"items\":" OBJ(
		  "\"group\":" STRING0 ",\"sandboxes\":" INTEGER
		  ",\"running_s\":" NUMBER ",\"cpu_s\":" NUMBER
		  ",\"memory_mib_s\":" NUMBER ",\"memory_used_mib_s\":" NUMBER
		  ",\"disk_mib_s\":" NUMBER
		  ",\"egress_bytes\":" INTEGER) "}") },
	{ "Metrics", "{\"type\":\"object\",\"description\":\"a sample as the "
		     "guest daemon tells it\"}" },
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
	{ "Port",
	  OBJ("\"sandbox\":" STRING ",\"port\":" INTEGER ",\"access\":{"
	      "\"enum\":[\"private\",\"token\",\"public\"]},\"url\":" STRING
	      ",\"token\":{\"type\":[\"string\",\"null\"],\"description\":"
	      "\"in the answer to POST only, once\"},\"generation\":" INTEGER
	      ",\"created_by\":" STRING ",\"created_at\":" STRING
	      ",\"updated_at\":" STRING
	      ",\"removed\":{\"type\":\"boolean\"}") },
	{ "PortSet",
	  CLOSED("\"port\"", "\"port\":" INTEGER
			     ",\"access\":{\"enum\":[\"private\",\"token\","
			     "\"public\"],\"default\":\"private\"}") },
	{ "PortList", LIST("Port") },
	{ "RunOutput",
	  OBJ("\"encoding\":{\"enum\":[\"utf-8\",\"base64\"]},\"head\":" STRING
	      ",\"tail\":" STRING ",\"bytes\":" INTEGER
	      ",\"omitted_bytes\":" INTEGER
	      ",\"truncated\":{\"type\":\"boolean\"}") },
	{ "Run", OBJ("\"id\":" STRING ",\"state\":{\"enum\":[\"running\","
		     "\"exited\"]},\"exit\":" OBJECT0 ",\"stdout\":" REF(
			 "RunOutput") ",\"stderr\":" REF("RunOutput")) },
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
	{ "state", "{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
		   "\"description\":\"repeat for or\"}" },
	{ "kind", "{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
		  "\"description\":\"repeat for or\"}" },
	{ "project", "{\"type\":\"string\",\"description\":\"absent: the "
		     "key's; another only for operators\"}" },
	{ "tenant", "{\"type\":\"string\",\"description\":\"absent: the "
		    "key's; another only for operators\"}" },
	{ "label", "{\"type\":\"array\",\"items\":{\"type\":\"string\"},"
		   "\"description\":\"KEY=VALUE; repeat for and\"}" },
	{ "template", STRING },
	{ "created_after", "{\"type\":\"string\",\"format\":\"date-time\"}" },
	{ "sandbox", STRING },
	{ "from",
	  "{\"type\":[\"integer\",\"string\"],\"description\":"
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
	{ "port", "{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535}" },
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
