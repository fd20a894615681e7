// SPDX-License-Identifier: Apache-2.0
// The official client against `caisson mcp`: argv is the program to start.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "test", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
assert.equal(client.getServerVersion().name, "caisson");
await client.ping();

const { tools } = await client.listTools();
const names = tools.map((t) => t.name);
for (const n of ["create_sandbox", "list_sandboxes", "end_sandbox", "run_command", "read_file", "write_file", "list_files", "exec_start", "exec_output", "exec_signal"])
	assert.ok(names.includes(n), n);
for (const t of tools) assert.equal(t.inputSchema.type, "object");

async function call(name, args, options) {
	const r = await client.callTool({ name, arguments: args }, undefined, { timeout: 120000, ...options });
	return { failed: r.isError, text: r.content.map((c) => c.text).join("\n") };
}
async function json(name, args) {
	const r = await call(name, args);
	assert.ok(!r.failed, r.text);
	return JSON.parse(r.text);
}

const sb = (await json("create_sandbox", { template: "tiny", labels: { by: "mcp" } })).id;
try {
	assert.ok((await json("list_sandboxes", { label: "by=mcp" })).some((s) => s.id === sb));
	await json("write_file", { sandbox: sb, path: "/root/new/a.txt", text: "grüße\n" });
	assert.equal((await call("read_file", { sandbox: sb, path: "/root/new/a.txt" })).text, "grüße\n");
	const listed = await json("list_files", { sandbox: sb, path: "/root/new" });
	assert.deepEqual(listed.items.map((e) => e.name), ["a.txt"]);

	let r = await json("run_command", { sandbox: sb, command: "cat /root/new/a.txt; echo oops >&2; exit 3" });
	assert.equal(r.stdout, "grüße\n");
	assert.equal(r.stderr, "oops\n");
	assert.equal(r.exit.code, 3);
	r = await json("run_command", { sandbox: sb, command: "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done", max_output_bytes: 2048 });
	assert.ok(r.stdout.startsWith("line 0\n") && r.stdout.endsWith("line 2999\n") && r.stdout.includes("bytes left out") && r.stdout.length < 3000);
	const slow = await call("run_command", { sandbox: sb, command: "sleep 60", timeout_s: 1 });
	assert.ok(slow.failed && /remedy/.test(slow.text), slow.text);

	// cancelled: the command is ended, and the next call is answered
	const stop = new AbortController();
	setTimeout(() => stop.abort(), 1500);
	await assert.rejects(call("run_command", { sandbox: sb, command: "sleep 1000" }, { signal: stop.signal }));
	await client.ping();
	const runs = async () => (await json("list_execs", { sandbox: sb })).items.some((x) => x.state === "running");
	for (let i = 0; i < 50 && (await runs()); i++) await new Promise((done) => setTimeout(done, 200));
	assert.ok(!(await runs()));

	const ex = (await json("exec_start", { sandbox: sb, command: "read x; echo got $x; sleep 1000", stdin: true })).exec;
	await call("exec_input", { exec: ex, text: "this\n" });
	let out = { stdout: "", next: 0 };
	for (let i = 0; i < 30 && !out.stdout.includes("got this"); i++) out = await json("exec_output", { exec: ex, wait_s: 2 });
	assert.equal(out.stdout, "got this\n");
	await call("exec_signal", { exec: ex, signal: "KILL" });
	for (let i = 0; i < 30 && !out.exit; i++) out = await json("exec_output", { exec: ex, from: out.next, wait_s: 2 });
	assert.equal(out.exit.reason, "signaled");

	// refusals are results with a remedy, never protocol errors
	const gone = await call("run_command", { sandbox: "no-such-box", command: "true" });
	assert.ok(gone.failed && /not_found/.test(gone.text), gone.text);
	const wrong = await call("read_file", { sandbox: sb, path: "/root", max_byte: 1 });
	assert.ok(wrong.failed && /max_bytes/.test(wrong.text), wrong.text);
	// calls at once are queued
	const many = await Promise.all(Array.from({ length: 5 }, (_, i) => json("run_command", { sandbox: sb, command: `echo ${i}` })));
	assert.deepEqual(many.map((m) => m.stdout), ["0\n", "1\n", "2\n", "3\n", "4\n"]);
	await assert.rejects(client.callTool({ name: "nonsense", arguments: {} }));
} finally {
	await call("end_sandbox", { sandbox: sb });
}
await client.close();
console.log("mcp ok");
