// SPDX-License-Identifier: Apache-2.0
/** HTTP below the generated calls: the platform's own `fetch`. */

/** A typed refusal: the members of the API's `error`. */
export class CaissonError extends Error {
  readonly code: string;
  readonly remedy?: string;
  readonly field?: string;
  constructor(readonly status: number, readonly error: Record<string, any>) {
    super(`${error.code}: ${error.message}` + (error.remedy ? ` (${error.remedy})` : ""));
    this.name = "CaissonError";
    this.code = error.code ?? "unknown";
    this.remedy = error.remedy;
    this.field = error.field;
  }
}

export interface CallOptions {
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Options {
  /** The control listener; CAISSON_URL, else http://127.0.0.1:7700. */
  url?: string;
  /** The data listener; CAISSON_DATA_URL, else http://127.0.0.1:7710. */
  dataUrl?: string;
  /** CAISSON_KEY. */
  key?: string;
}

type Query = Record<string, unknown> | undefined;

const RETRIES = 3;
const env: Record<string, string | undefined> = (globalThis as any).process?.env ?? {};

function randomKey(): string {
  const b = new Uint8Array(16);
  globalThis.crypto.getRandomValues(b);
  return Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
}

function target(base: string, path: string, query: Query): string {
  const pairs: string[] = [];
  for (const [k, v] of Object.entries(query ?? {})) {
    if (v === undefined || v === null) continue;
    for (const one of Array.isArray(v) ? v : [v]) {
      const text = typeof one === "boolean" ? (one ? "1" : "0") : String(one);
      pairs.push(`${k}=${encodeURIComponent(text)}`);
    }
  }
  return base + path + (pairs.length ? "?" + pairs.join("&") : "");
}

export class Transport {
  readonly url: string;
  readonly dataUrl: string;
  readonly key: string;

  constructor(options: Options = {}) {
    this.url = options.url ?? env.CAISSON_URL ?? "http://127.0.0.1:7700";
    this.dataUrl = options.dataUrl ?? env.CAISSON_DATA_URL ?? "http://127.0.0.1:7710";
    this.key = options.key ?? env.CAISSON_KEY ?? "";
  }

  /** One call. A changing one carries an Idempotency-Key and is repeated if its answer got lost. */
  protected async send(method: string, path: string, query: Query, body: unknown, data: boolean, options?: CallOptions, type = "application/json"): Promise<Response> {
    const headers: Record<string, string> = { Authorization: `Bearer ${this.key}`, ...options?.headers };
    if (method !== "GET" && method !== "HEAD") headers["Idempotency-Key"] ??= randomKey();
    if (body !== undefined) headers["Content-Type"] ??= type;
    const raw = body === undefined ? undefined : type === "application/json" ? JSON.stringify(body) : (body as BodyInit);
    const isSpent = raw instanceof ReadableStream;
    for (let attempt = 0; ; attempt++) {
      try {
        const init: RequestInit & { duplex?: string } = { method, headers, body: raw, signal: options?.signal };
        if (isSpent) init.duplex = "half";
        const answer = await fetch(target(data ? this.dataUrl : this.url, path, query), init);
        if (answer.status >= 400) throw await refusal(answer);
        return answer;
      } catch (e) {
        if (e instanceof CaissonError || isSpent || options?.signal?.aborted || attempt >= RETRIES - 1) throw e;
        await new Promise((r) => setTimeout(r, 100 * 4 ** attempt));
      }
    }
  }

  protected async json(method: string, path: string, query: Query, body: unknown, data: boolean, options?: CallOptions, type?: string): Promise<any> {
    const text = await (await this.send(method, path, query, body, data, options, type)).text();
    return text ? JSON.parse(text) : undefined;
  }

  protected async none(method: string, path: string, query: Query, body: unknown, data: boolean, options?: CallOptions, type?: string): Promise<void> {
    await this.json(method, path, query, body, data, options, type);
  }

  protected stream(method: string, path: string, query: Query, body: unknown, data: boolean, options?: CallOptions, type?: string): Promise<Response> {
    return this.send(method, path, query, body, data, options, type);
  }
}

async function refusal(answer: Response): Promise<CaissonError> {
  try {
    return new CaissonError(answer.status, ((await answer.json()) as any).error);
  } catch {
    return new CaissonError(answer.status, { code: "unknown", message: `HTTP ${answer.status}` });
  }
}
