// SPDX-License-Identifier: Apache-2.0
/** Caisson's native API: a method per call, and exec attach. */
import { Attach, type AttachOptions, type ExitFact } from "./attach.js";
import { Calls } from "./generated.js";
import { CaissonError } from "./transport.js";

export * from "./attach.js";
/** What the calls take and answer, by the names of the OpenAPI document. */
export type * as schemas from "./generated.js";
export * from "./transport.js";

export interface Result {
  stdout: Uint8Array;
  stderr: Uint8Array;
  exit: ExitFact;
}

function join(parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** All generated calls, and a few that are used together. */
export class Caisson extends Calls {
  /** A running sandbox's record. Throws if it is not running within 60 s. */
  async create(template: string, body: Record<string, unknown> = {}): Promise<any> {
    const a = await this.json("POST", "/v1/sandboxes", { wait_s: 60 }, { template, ...body }, false);
    if (a.sandbox.state !== "running") throw new CaissonError(202, a.operation.error ?? { code: "capacity", message: "the sandbox does not run yet" });
    return a.sandbox;
  }

  /** End it, from any state; twice is the same. */
  end(sandbox: string): Promise<any> {
    return this.json("DELETE", `/v1/sandboxes/${encodeURIComponent(sandbox)}`, { wait_s: 60 }, undefined, false);
  }

  /** Make an exec session and return its stream; iterating it starts the command. */
  async exec(sandbox: string, cmd: string[] | string, spec: Record<string, unknown> = {}, options?: AttachOptions): Promise<Attach> {
    const words = typeof cmd === "string" ? { shell: cmd } : { cmd };
    const record = await this.json("POST", `/v1/sandboxes/${encodeURIComponent(sandbox)}/execs`, undefined, { ...words, ...spec }, false);
    return this.attach(record, options);
  }

  /** The stream of an exec's record that holds `attach`. */
  attach(record: { id: string; attach: { token: string } }, options?: AttachOptions): Attach {
    return new Attach(`${this.dataUrl}/v1/execs/${record.id}/attach`, record.attach.token, options);
  }

  /** Run a command to its end. */
  async run(sandbox: string, cmd: string[] | string, stdin?: Uint8Array | string, spec: Record<string, unknown> = {}): Promise<Result> {
    const stream = await this.exec(sandbox, cmd, { stdin: stdin !== undefined, ...spec });
    if (stdin !== undefined) stream.write(stdin).then(() => stream.closeStdin(), () => {});
    const out: Uint8Array[] = [], err: Uint8Array[] = [];
    for await (const item of stream) {
      if (item.kind === "gap") continue;
      (item.kind === "stderr" ? err : out).push(item.data);
    }
    return { stdout: join(out), stderr: join(err), exit: stream.exit! };
  }
}
