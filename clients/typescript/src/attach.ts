// SPDX-License-Identifier: Apache-2.0
/**
 * Exec attach: a command's streams over a WebSocket, exact across lost connections.
 *
 * Written by hand. Binary messages of one type byte, eight bytes of offset (big endian) and a
 * payload; output is a log with byte offsets, so a new connection goes on from the last byte
 * that was processed, and input is kept until the guest says that the program took it.
 */

export type Kind = "stdout" | "stderr" | "pty";
export type Item = { kind: Kind; data: Uint8Array } | { kind: "gap"; from: number; to: number };
export interface ExitFact {
  reason: string;
  code: number | null;
  signal: string | null;
  [more: string]: unknown;
}

const KINDS: Record<number, Kind> = { 0x01: "stdout", 0x02: "stderr", 0x03: "pty" };
const STDIN = 0x10, STDIN_END = 0x11, SIZE = 0x12, SIGNAL = 0x13, ACK = 0x14;
const STARTED = 0x20, EXIT = 0x21, GAP = 0x22, ALIVE = 0x23, CLOSING = 0x24;
/** At most so much input is under way, so that acknowledgements never wait behind it. */
const STDIN_WINDOW = 262144;
const STDIN_FRAME = 32768;
const ACK_EVERY = 65536;
const SILENCE_MS = 45000;

export class AttachLost extends Error {}

/** What this file needs of a WebSocket: the browser's, Node's, or that of the package `ws`. */
interface Socket {
  binaryType: string;
  readyState: number;
  send(data: Uint8Array): void;
  close(): void;
  onopen: unknown;
  onmessage: unknown;
  onclose: unknown;
  onerror: unknown;
}
type SocketClass = new (url: string, protocols: string[]) => Socket;

export interface AttachOptions {
  from?: number;
  watch?: boolean;
  giveUpMs?: number;
  /** A WebSocket class; default `globalThis.WebSocket` (browsers, Node 22), else the package `ws`. */
  webSocket?: unknown;
}

async function defaultClass(): Promise<SocketClass> {
  const own = (globalThis as any).WebSocket;
  if (own) return own;
  // not a static import: browsers have no such package
  const name = "ws";
  return (await import(name)).WebSocket;
}

const text = new TextDecoder();
const bytes = new TextEncoder();

/** Iterate over it to get the output; it ends with the command, whose exit fact is in `exit`. */
export class Attach implements AsyncIterable<Item> {
  exit?: ExitFact;
  offset: number;
  reconnects = 0;
  private ws?: Socket;
  private pending: Uint8Array[] = [];
  private base = 0;
  private held = 0;
  private sent = -1;
  private ended = false;
  private endSent = false;
  private over = false;
  private acked = -1;
  private queue: Uint8Array[] = [];
  private closed = false;
  private wake: () => void = () => {};
  private room: (() => void)[] = [];
  private lastHeard = 0;

  constructor(private readonly url: string, private readonly token: string, private readonly options: AttachOptions = {}) {
    this.offset = options.from ?? 0;
  }

  /** Queue bytes for stdin; resolves when they are in the window. */
  async write(data: Uint8Array | string): Promise<void> {
    let left = typeof data === "string" ? bytes.encode(data) : data;
    while (left.length) {
      if (this.over) throw new AttachLost("the command is over");
      const room = STDIN_WINDOW - this.held;
      if (room <= 0) {
        await new Promise<void>((r) => this.room.push(r));
        continue;
      }
      this.pending.push(left.slice(0, room));
      this.held += Math.min(room, left.length);
      left = left.slice(room);
      this.pump();
    }
  }

  /** End of input, after everything written. */
  closeStdin(): void {
    this.ended = true;
    this.pump();
  }

  resize(cols: number, rows: number): void {
    this.frame(SIZE, 0, bytes.encode(JSON.stringify({ cols, rows })));
  }

  signal(name: string, scope: "tree" | "leader" = "tree"): void {
    this.frame(SIGNAL, 0, bytes.encode(JSON.stringify({ name, scope })));
  }

  /** Let go of the stream. The command runs on. */
  close(): void {
    this.over = true;
    this.drop();
    this.room.splice(0).forEach((r) => r());
    this.wake();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Item> {
    const ticker = setInterval(() => this.tick(), 100);
    try {
      while (!this.exit && !this.over) {
        await this.connect();
        yield* this.receive();
        if (!this.exit) this.reconnects++;
        this.drop();
      }
    } finally {
      clearInterval(ticker);
      this.close();
    }
  }

  private async *receive(): AsyncGenerator<Item> {
    while (!this.exit && !this.over) {
      const m = this.queue.shift();
      if (!m) {
        if (this.closed) return;
        await new Promise<void>((r) => (this.wake = r));
        continue;
      }
      const view = new DataView(m.buffer, m.byteOffset, m.byteLength);
      const type = view.getUint8(0), offset = Number(view.getBigUint64(1)), body = m.subarray(9);
      if (KINDS[type]) {
        yield { kind: KINDS[type], data: body };
        this.offset = offset + body.length;
        if (this.offset - this.acked >= ACK_EVERY) this.ack();
        continue;
      }
      const note = JSON.parse(text.decode(body));
      if (type === GAP) {
        yield { kind: "gap", from: note.from, to: note.to };
        this.offset = note.to;
      } else if (type === CLOSING) {
        if (!note.retry) throw new AttachLost(`the server closed the stream: ${note.reason}`);
        return;
      } else {
        this.note(type, note);
      }
    }
  }

  private note(type: number, note: any): void {
    if (type === EXIT) {
      this.ack();
      this.exit = note;
    }
    if ((type !== STARTED && type !== ALIVE) || typeof note.stdin_offset !== "number") return;
    while (this.base < note.stdin_offset && this.pending.length) {
      const n = Math.min(this.pending[0].length, note.stdin_offset - this.base);
      this.pending[0] = this.pending[0].subarray(n);
      if (!this.pending[0].length) this.pending.shift();
      this.base += n;
      this.held -= n;
    }
    if (type === STARTED) {
      this.sent = this.base;
      this.endSent = false;
      this.acked = -1;
    }
    this.room.splice(0).forEach((r) => r());
    this.pump();
  }

  /** Send what of the input is not on its way yet. */
  private pump(): void {
    if (!this.ws || this.sent < 0) return;
    let at = this.base;
    for (const part of this.pending) {
      for (let i = Math.max(0, this.sent - at); i < part.length; i += STDIN_FRAME) {
        const piece = part.subarray(i, Math.min(part.length, i + STDIN_FRAME));
        if (!this.frame(STDIN, at + i, piece)) return;
        this.sent = at + i + piece.length;
      }
      at += part.length;
    }
    if (this.ended && !this.endSent && this.sent === this.base + this.held) this.endSent = this.frame(STDIN_END, this.sent);
  }

  private tick(): void {
    if (this.ws && this.offset !== this.acked) this.ack();
    if (this.ws && Date.now() - this.lastHeard > SILENCE_MS) this.lose();
  }

  private ack(): void {
    if (!this.options.watch && this.frame(ACK, this.offset)) this.acked = this.offset;
  }

  private frame(type: number, offset: number, payload: Uint8Array = new Uint8Array(0)): boolean {
    if (!this.ws || this.ws.readyState !== 1) return false;
    const m = new Uint8Array(9 + payload.length), view = new DataView(m.buffer);
    view.setUint8(0, type);
    view.setBigUint64(1, BigInt(offset));
    m.set(payload, 9);
    this.ws.send(m);
    return true;
  }

  private lose(): void {
    this.closed = true;
    this.wake();
  }

  private drop(): void {
    const ws = this.ws;
    this.ws = undefined;
    this.sent = -1;
    this.queue = [];
    if (ws) {
      ws.onmessage = ws.onclose = null;
      ws.close();
    }
  }

  private async connect(): Promise<void> {
    const end = Date.now() + (this.options.giveUpMs ?? 60000);
    for (let pause = 50; ; pause = Math.min(pause * 2, 2000)) {
      if (await this.open()) return;
      if (Date.now() > end) throw new AttachLost("no connection");
      await new Promise((r) => setTimeout(r, pause));
    }
  }

  private async open(): Promise<boolean> {
    const Class = (this.options.webSocket as SocketClass | undefined) ?? (await defaultClass());
    const url = `${this.url.replace(/^http/, "ws")}?from=${this.offset}${this.options.watch ? "&watch=1" : ""}`;
    // the only place where a browser can put a token
    const ws = new Class(url, ["caisson.exec.v1", `bearer.${this.token}`]);
    ws.binaryType = "arraybuffer";
    return new Promise<boolean>((done) => {
      ws.onerror = () => {};
      ws.onclose = () => done(false);
      ws.onopen = () => {
        this.closed = false;
        this.ws = ws;
        this.lastHeard = Date.now();
        ws.onclose = () => this.lose();
        done(true);
      };
      ws.onmessage = (e: { data: ArrayBuffer }) => {
        this.lastHeard = Date.now();
        this.queue.push(new Uint8Array(e.data));
        this.wake();
      };
    });
  }
}
