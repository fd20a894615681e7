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
void h_node_cordon(struct req *r);
void h_node_uncordon(struct req *r);

void h_project_list(struct req *r);
void h_project_create(struct req *r);
void h_tenant_list(struct req *r);
void h_tenant_create(struct req *r);
void h_tenant_delete(struct req *r);
void h_quota_get(struct req *r);
void h_quota_put(struct req *r);

void h_sandbox_create(struct req *r);
void h_sandbox_list(struct req *r);
void h_sandbox_get(struct req *r);
void h_sandbox_update(struct req *r);
void h_sandbox_end(struct req *r);
void h_sandbox_metrics(struct req *r);

void h_operation_list(struct req *r);
void h_operation_get(struct req *r);
void h_operation_cancel(struct req *r);
void h_build_list(struct req *r);

void h_key_list(struct req *r);
void h_key_create(struct req *r);
void h_key_revoke(struct req *r);

void h_template_list(struct req *r);
void h_template_get(struct req *r);
void h_template_create(struct req *r);
void h_template_delete(struct req *r);
void h_tag_put(struct req *r);
void h_tag_delete(struct req *r);
void h_release_get(struct req *r);
void h_build_start(struct req *r);

void h_exec_list(struct req *r);
void h_exec_create(struct req *r);
void h_exec_get(struct req *r);
void h_exec_forget(struct req *r);
void h_exec_signal(struct req *r);
void h_exec_stdin(struct req *r);
void h_exec_output(struct req *r);
void h_exec_attach(struct req *r);
void h_exec_size(struct req *r);
void h_exec_token(struct req *r);
void h_token_create(struct req *r);

void h_event_list(struct req *r);
void h_audit_list(struct req *r);
void h_audit_head(struct req *r);
void h_usage(struct req *r);

void h_webhook_list(struct req *r);
void h_webhook_create(struct req *r);
void h_webhook_get(struct req *r);
void h_webhook_update(struct req *r);
void h_webhook_delete(struct req *r);
void h_webhook_test(struct req *r);
void h_delivery_list(struct req *r);
void h_delivery_again(struct req *r);

void h_file(struct req *r); /* files, archive, watch */
void h_sandbox_logs(struct req *r);
void h_tunnel(struct req *r);
void h_port_list(struct req *r);
void h_port_set(struct req *r);
void h_port_delete(struct req *r);
void h_exec_run(struct req *r);
