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
	  CLOSED("", "\"cmd\":{\"type\":\"array\",\"items\":" STRING
		     "},\"shell\":" STRING ",\"env\":" STRMAP ",\"cwd\":" STRING
		     ",\"user\":" STRING ",\"stdin\":{\"type\":\"boolean\"},"
		     "\"timeout_s\":" INTEGER ",\"start\":{\"enum\":[\"now\"]},"
		     "\"keep_bytes\":" INTEGER
		     ",\"overflow\":{\"enum\":[\"roll\",\"block\"]}") },
	{ "Signal",
	  CLOSED("\"name\"", "\"name\":" STRING
			     ",\"scope\":{\"enum\":[\"tree\",\"leader\"]}") },
	{ "Signalled", "{\"type\":\"object\"}" },
	{ "Metrics", "{\"type\":\"object\",\"description\":\"a sample as the "
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
	{ "File",
	  OBJ("\"path\":" STRING ",\"size\":" INTEGER ",\"sha256\":" STRING) },
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
	{ "from", "{\"type\":\"integer\",\"minimum\":0,\"description\":"
		  "\"offset of the first byte\"}" },
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
};
const size_t n_query_docs = ARRAY_SIZE(query_docs);
