// SPDX-License-Identifier: Apache-2.0
/** A sandbox, a file, a command with input, and the end. */
import { Caisson } from "../dist/index.js";

const c = new Caisson();
const sb = await c.create("base", { labels: { example: "first" } });
try {
  await c.writeFile(sb.id, "print(sum(map(int, open(0))))\n", { path: "/tmp/sum.py" });
  const input = Array.from({ length: 1000 }, (_, i) => `${i}\n`).join("");
  const result = await c.run(sb.id, ["python3", "/tmp/sum.py"], input);
  console.log("sum", new TextDecoder().decode(result.stdout).trim(), "exit", result.exit.code);
} finally {
  console.log("ended", (await c.end(sb.id)).sandbox.state);
}
