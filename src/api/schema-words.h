/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Words to write JSON schemas with, as C string literals. */

#define S_STRING     "{\"type\":\"string\"}"
#define S_STRING0    "{\"type\":[\"string\",\"null\"]}"
#define S_INT	     "{\"type\":\"integer\"}"
#define S_INT0	     "{\"type\":[\"integer\",\"null\"]}"
#define S_NUMBER     "{\"type\":\"number\"}"
#define S_BOOL	     "{\"type\":\"boolean\"}"
#define S_TIME	     "{\"type\":\"string\",\"format\":\"date-time\"}"
#define S_TIME0	     "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define S_ANY_OBJECT "{\"type\":\"object\"}"
#define S_STRMAP                                                               \
	"{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"
#define S_NUMMAP0                                                              \
	"{\"type\":[\"object\",\"null\"],\"additionalProperties\":{\"type\":"  \
	"\"number\"}}"
#define S_RANGE(min, max)                                                      \
	"{\"type\":\"integer\",\"minimum\":" min ",\"maximum\":" max "}"
/* words: "\"a\",\"b\"" */
#define S_ENUM(words) "{\"type\":\"string\",\"enum\":[" words "]}"
#define S_ARRAY(item) "{\"type\":\"array\",\"items\":" item "}"
#define S_REF(n)      "{\"$ref\":\"#/components/schemas/" n "\"}"
#define S_REF0(n)     "{\"oneOf\":[" S_REF(n) ",{\"type\":\"null\"}]}"
#define S_ID(prefix)                                                           \
	"{\"type\":\"string\",\"pattern\":\"^" prefix "[a-z0-9]{20}$\"}"
/* p: a property; q: the same after a comma */
#define S_P(name, type) "\"" name "\":" type
#define S_Q(name, type) ",\"" name "\":" type
/* An answer: all its properties are there, but those that opt() names. */
#define S_ANSWER(props) "{\"type\":\"object\",\"properties\":{" props "}}"
#define S_OPT(name, type)                                                      \
	",\"" name "\":{\"x-optional\":true,\"allOf\":[" type "]}"
/* A body: unknown fields are refused. need: "\"a\",\"b\"" or "" */
#define S_BODY(need, props)                                                    \
	"{\"type\":\"object\",\"additionalProperties\":false,\"required\":"    \
	"[" need "],\"properties\":{" props "}}"
#define S_LIST(n)                                                              \
	S_ANSWER(S_P("items",                                                  \
		     S_ARRAY(S_REF(                                            \
			 n))) ",\"next\":{\"type\":[\"string\",\"null\"],"     \
			      "\"description\":"                               \
			      "\"cursor of the next page; null at the end\"}")
