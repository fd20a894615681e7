/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the route table points to: one function per route (h-*.c). */

struct req;

void h_healthz(struct req *r);
void h_readyz(struct req *r);
void h_metrics(struct req *r);
void h_openapi(struct req *r);
void h_whoami(struct req *r);
void h_nodes_list(struct req *r);

void h_sandbox_create(struct req *r);
void h_sandbox_list(struct req *r);
void h_sandbox_get(struct req *r);
void h_sandbox_end(struct req *r);
void h_sandbox_metrics(struct req *r);

void h_operation_list(struct req *r);
void h_operation_get(struct req *r);

void h_key_list(struct req *r);
void h_key_create(struct req *r);
void h_key_revoke(struct req *r);

void h_template_list(struct req *r);
void h_template_get(struct req *r);
void h_release_get(struct req *r);
void h_build_start(struct req *r);

void h_exec_list(struct req *r);
void h_exec_create(struct req *r);
void h_exec_get(struct req *r);
void h_exec_forget(struct req *r);
void h_exec_signal(struct req *r);
void h_exec_stdin(struct req *r);
void h_exec_output(struct req *r);

void h_file_read(struct req *r); /* GET, HEAD */
void h_file_write(struct req *r);
void h_file_remove(struct req *r);
