// SPDX-License-Identifier: Apache-2.0
// Part of ./build, run by the new root's own node: fetch the newest npm
// tarball of a major version, and check it against the registry's integrity
// value. curl carries the bytes, because it knows proxies.
"use strict";
const { execFileSync } = require("child_process");
const { createHash } = require("crypto");
const fs = require("fs");

const dir = process.env.DIR || "/tmp/caisson-npm";
const registry = process.env.REGISTRY.replace(/\/+$/, "");
const host = registry.replace(/^https?:/, "");

function curl(url, out) {
	const args = ["-fsSL", "-H",
		"Accept: application/vnd.npm.install-v1+json, */*", "--retry", "3", "--max-time", "120", "-o", out];
	if (fs.statSync(`${dir}/ca.crt`).size > 0)
		args.push("--cacert", `${dir}/ca.crt`);
	let config = "";
	for (const line of fs.readFileSync(`${dir}/npmrc`, "utf8").split("\n")) {
		const m = /^\s*(\/\/.*?)\/?:(_authToken|_auth)\s*=\s*(\S+)/.exec(line);
		if (!m || !host.startsWith(m[1]) || !url.startsWith(registry))
			continue;
		const kind = m[2] === "_auth" ? "Basic" : "Bearer";
		const value = m[3].replace(/^"|"$/g, "")
			.replace(/\$\{(\w+)\}/g, (_, k) => process.env[k] || "");
		config = `header = "Authorization: ${kind} ${value}"\n`;
	}
	// by standard input: a token on a command line is everybody's
	execFileSync("curl", [...args, "-K", "-", url], { input: config });
}

// Some mirrors answer for no tag but "latest": look at the list of versions.
curl(`${registry}/npm`, `${dir}/npm.json`);
const all = JSON.parse(fs.readFileSync(`${dir}/npm.json`, "utf8")).versions;
const version = Object.keys(all)
	.filter((v) => /^\d+\.\d+\.\d+$/.test(v))
	.map((v) => v.split(".").map(Number))
	.filter((v) => v[0] === Number(process.env.MAJOR))
	.sort((a, b) => b[1] - a[1] || b[2] - a[2])[0];
if (!version) {
	console.error(`${registry} has no npm ${process.env.MAJOR}`);
	process.exit(1);
}
const meta = all[version.join(".")];
curl(meta.dist.tarball, `${dir}/npm.tgz`);
const [kind, want] = meta.dist.integrity.split(" ")[0].split(/-(.*)/s);
const got = createHash(kind).update(fs.readFileSync(`${dir}/npm.tgz`))
	.digest("base64");
if (got !== want) {
	console.error(`npm ${meta.version}: ${kind} of the tarball is wrong`);
	process.exit(1);
}
console.log(meta.version);
