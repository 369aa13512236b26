import { systemClock, type Clock, type Timer } from '../time/clock.js';
import type { Sink } from './openSink.js';
import { outputFault } from './outputError.js';

/** Bytes that wait for room; further lines are lost. One line may go beyond it. */
export const MAX_WAITING_BYTES = 1_048_576;
/** How often it is tried whether there is room again. */
const ROOM_PAUSE = { minMs: 1, maxMs: 100 };
/** How often it is tried whether an output works again that refused a line: a full disk, a reader that has gone. */
const REFUSED_PAUSE_MS = 1_000;
/** An output that has taken nothing for this long is in trouble. */
const STILL_AFTER_MS = 1_000;

/** Lines that an output did not take. */
export interface Loss {
  readonly lines: number;
  /** Wall clock: when the first was lost. */
  readonly sinceMs: number;
  /** Why, and what to do. */
  readonly reason: string;
}

interface LossListener {
  /** That many more are lost. */
  onLost?(lines: number): void;
  /** The output works again, as far as is known: write one line there that says what was lost. Default: in words. */
  say?(loss: Loss): void;
}

interface Waiting {
  readonly bytes: Uint8Array;
  /** Lost if this is. `undefined`: one line. */
  readonly says?: Loss | undefined;
  /** Part of it is written. */
  readonly isBegun?: boolean;
  readonly settle?: (error?: NodeJS.ErrnoException) => void;
}

/**
 * Standard output or standard error, which never blocks the thread. What does not go through at once waits, in memory:
 * without a bound, as the result of a command does, until `neverWait`.
 */
export class Output {
  readonly name: string;
  readonly #clock: Clock;
  readonly #dependencies: ConstructorParameters<typeof Output>[1];
  readonly #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #isWriting = false;
  /** Until the next try. */
  #isBlocked = false;
  #isPumping = false;
  #isClosed = false;
  #retry: Timer | undefined;
  #pauseMs = ROOM_PAUSE.minMs;
  /** Monotonic: since when something waits and nothing was taken. */
  #stillSinceMs: number | undefined;
  #listener: LossListener | undefined;
  #loss: Loss | undefined;
  /** The loss that the listener is saying. */
  #said: Loss | undefined;

  /** `onRefused`: an error that is not EAGAIN, of `write`, before `neverWait`. */
  constructor(
    name: string,
    dependencies: {
      readonly sink: Sink;
      readonly columns?: () => number | undefined;
      readonly clock?: Clock;
      readonly onRefused?: (error: NodeJS.ErrnoException) => void;
    },
  ) {
    this.name = name;
    this.#dependencies = dependencies;
    this.#clock = dependencies.clock ?? systemClock;
  }

  /** From now on at most MAX_WAITING_BYTES wait, and lines are lost rather than waited for. */
  neverWait(listener: LossListener = {}): void {
    this.#listener = listener;
  }

  /** Width of a terminal that tells it. */
  get columns(): number | undefined {
    return this.#dependencies.columns?.() || undefined;
  }

  /** `neverWait` was called. */
  get isBounded(): boolean {
    return this.#listener !== undefined;
  }

  /** Something waits to be written, or is lost. */
  get isBehind(): boolean {
    return this.#waiting.length > 0 || this.#loss !== undefined;
  }

  /** A write has been given to the system and has not come back. */
  get isWriting(): boolean {
    return this.#isWriting;
  }

  /** Why it takes nothing now, and how many lines are lost since it worked; `undefined` while it takes what it is given. */
  trouble(): { reason: string; ageSeconds: number; lostLines: number } | undefined {
    const loss = this.#loss ?? this.#waiting.find(({ says }) => says !== undefined)?.says;
    if (loss !== undefined) {
      const ageSeconds = Math.max(0, this.#clock.now() - loss.sinceMs) / 1_000;
      return { reason: loss.reason, ageSeconds, lostLines: loss.lines };
    }
    const ageMs = this.#clock.monotonic() - (this.#stillSinceMs ?? Infinity);
    if (ageMs < STILL_AFTER_MS) return undefined;
    return { reason: this.#stillReason(), ageSeconds: ageMs / 1_000, lostLines: 0 };
  }

  /** Writes whole lines. */
  write(text: string): void {
    if (this.#listener !== undefined && this.#said === undefined) {
      if (this.#loss === undefined && this.#waitingBytes >= MAX_WAITING_BYTES)
        this.#lose(0, this.#stillReason());
      if (this.#loss !== undefined) {
        this.#lose(1, this.#loss.reason);
        return;
      }
    }
    this.#push({ bytes: Buffer.from(text), says: this.#said });
  }

  /** Resolves when everything up to here is written, or lost. Rejects with the error of a refusal before `neverWait`. */
  put(bytes: Uint8Array = new Uint8Array()): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: NodeJS.ErrnoException): void =>
        error === undefined ? resolve() : reject(error);
      if (bytes.length === 0 && this.#waiting.length === 0) resolve();
      else this.#push({ bytes, settle });
    });
  }

  /** Stops trying: what waits is given up. */
  close(): void {
    this.#isClosed = true;
    this.#retry?.cancel();
  }

  #push(entry: Waiting): void {
    this.#waiting.push(entry);
    this.#waitingBytes += entry.bytes.length;
    this.#pump();
  }

  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    while (!this.#isWriting && !this.#isBlocked) {
      if (this.#waiting.length > 0) this.#writeChunk();
      else if (this.#loss !== undefined) this.#say(this.#loss);
      else break;
    }
    this.#isPumping = false;
  }

  /** The next lines, as many as are worth writing at once. */
  #writeChunk(): void {
    const { sink } = this.#dependencies;
    const chunk: Uint8Array[] = [];
    let bytes = 0;
    for (const next of this.#waiting) {
      bytes += next.bytes.length;
      if (chunk.length > 0 && bytes > sink.chunkBytes) break;
      chunk.push(next.bytes);
    }
    this.#isWriting = true;
    this.#stillSinceMs ??= this.#clock.monotonic();
    sink.write(chunk, (error, written) => {
      this.#isWriting = false;
      const isFull = error === null ? written === 0 && this.#waitingBytes > 0 : error.code === 'EAGAIN';
      if (isFull) {
        this.#later(this.#pauseMs);
        this.#pauseMs = Math.min(2 * this.#pauseMs, ROOM_PAUSE.maxMs);
      } else if (error === null) this.#wrote(written);
      else this.#refuse(error);
    });
  }

  #wrote(written: number): void {
    let left = written;
    this.#waitingBytes -= written;
    let head = this.#waiting[0];
    for (; head !== undefined && left >= head.bytes.length; head = this.#waiting[0]) {
      left -= head.bytes.length;
      this.#waiting.shift();
      head.settle?.();
    }
    if (head !== undefined && left > 0)
      this.#waiting[0] = { ...head, bytes: head.bytes.subarray(left), isBegun: true };
    this.#stillSinceMs = undefined;
    this.#pauseMs = ROOM_PAUSE.minMs;
    this.#pump();
  }

  #say(loss: Loss): void {
    const { lines, sinceMs, reason } = loss;
    this.#loss = undefined;
    this.#said = loss;
    const count = lines === 1 ? '1 line was' : `${lines} lines were`;
    if (this.#listener?.say !== undefined) this.#listener.say(loss);
    else this.write(`${count} lost here since ${new Date(sinceMs).toISOString()}: ${reason}.\n`);
    this.#said = undefined;
  }

  #refuse(error: NodeJS.ErrnoException): void {
    const refused = this.#waiting.splice(0);
    if (this.#listener === undefined) {
      this.#waitingBytes = 0;
      this.#stillSinceMs = undefined;
      for (const { settle } of refused) settle?.(error);
      if (refused.every(({ settle }) => settle === undefined)) this.#dependencies.onRefused?.(error);
      return;
    }
    // The rest of a line that was begun is not given up: the next line would continue it.
    const begun = refused[0]?.isBegun === true ? refused.splice(0, 1) : [];
    this.#waiting.push(...begun);
    this.#waitingBytes = begun[0]?.bytes.length ?? 0;
    let lines = 0;
    for (const { says, settle } of refused) {
      settle?.();
      if (says !== undefined) this.#loss = { ...says, lines: says.lines + (this.#loss?.lines ?? 0) };
      else if (settle === undefined) lines += 1;
    }
    this.#lose(lines, outputFault(error));
    this.#later(REFUSED_PAUSE_MS);
  }

  #lose(lines: number, reason: string): void {
    const before = this.#loss ?? { lines: 0, sinceMs: this.#clock.now() };
    this.#loss = { ...before, lines: before.lines + lines, reason };
    if (lines > 0) this.#listener?.onLost?.(lines);
  }

  #later(pauseMs: number): void {
    this.#isBlocked = true;
    if (this.#isClosed) return;
    this.#retry = this.#clock.setTimer(pauseMs, () => {
      this.#isBlocked = false;
      this.#pump();
    });
  }

  /** Nothing was refused; nothing comes back either. */
  #stillReason(): string {
    return this.#isWriting
      ? 'it does not answer. Look at the disk or the terminal behind it'
      : outputFault(Object.assign(new Error(), { code: 'EAGAIN' }));
  }
}
