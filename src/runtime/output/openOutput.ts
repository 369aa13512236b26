import { systemClock, type Clock, type Timer } from '../time/clock.js';
import type { Sink } from './openSink.js';
import { outputFault } from './outputError.js';

/** Bytes that may wait for room; further lines are lost. One line may exceed it. */
export const MAX_WAITING_BYTES = 1_048_576;
/** Pauses between attempts to write to a full output. */
const ROOM_PAUSE = { minMs: 1, maxMs: 100 };
/** Pause between attempts to write to an output that refused a line: a full disk, a reader that has exited. */
const REFUSED_PAUSE_MS = 1_000;
/** An output that has accepted nothing for this long is in trouble. */
const STILL_AFTER_MS = 1_000;

/** Lines that an output did not accept. */
export interface Loss {
  readonly lines: number;
  /** Wall clock: when the first was lost. */
  readonly sinceMs: number;
  /** Why, and what to do. */
  readonly reason: string;
}

interface LossListener {
  /** Called with the number of further lines lost. */
  onLost?(lines: number): void;
  /** Called when the output seems to work again: write one line there that says what was lost. Default: in words. */
  say?(loss: Loss): void;
}

interface Waiting {
  readonly bytes: Uint8Array;
  /** Lost if this is. `undefined`: one line. */
  readonly says?: Loss | undefined;
  /** It is partly written. */
  readonly isBegun?: boolean;
  readonly settle?: (error?: NodeJS.ErrnoException) => void;
}

export type Output = ReturnType<typeof openOutput>;

/**
 * Standard output or standard error, which never blocks the thread. What cannot be written at once waits in memory: without a
 * bound, as a command's result needs, until `neverWait`. `onRefused`: receives an error of `write` other than EAGAIN before that.
 */
export function openOutput(
  name: string,
  {
    sink,
    columns,
    clock = systemClock,
    onRefused,
  }: {
    readonly sink: Sink;
    readonly columns?: () => number | undefined;
    readonly clock?: Clock;
    readonly onRefused?: (error: NodeJS.ErrnoException) => void;
  },
) {
  const waiting: Waiting[] = [];
  let waitingBytes = 0;
  let [isWriting, isPumping, isClosed] = [false, false, false];
  /** Until the next attempt. */
  let isBlocked = false;
  let retry: Timer | undefined;
  let roomMs = ROOM_PAUSE.minMs;
  /** Monotonic: since when something has waited and nothing was accepted. */
  let stillSinceMs: number | undefined;
  let listener: LossListener | undefined;
  let loss: Loss | undefined;
  /** The loss that the listener is reporting. */
  let said: Loss | undefined;

  /** Nothing was refused, but nothing was completed either. */
  const stillReason = (): string =>
    isWriting
      ? 'it does not answer. Look at the disk or the terminal behind it'
      : outputFault(Object.assign(new Error(), { code: 'EAGAIN' }));
  const lose = (lines: number, reason: string): void => {
    const before = loss ?? { lines: 0, sinceMs: clock.now() };
    loss = { ...before, lines: before.lines + lines, reason };
    if (lines > 0) listener?.onLost?.(lines);
  };
  const push = (entry: Waiting): void => {
    waiting.push(entry);
    waitingBytes += entry.bytes.length;
    pump();
  };
  const write = (text: string): void => {
    if (listener !== undefined && said === undefined) {
      if (loss === undefined && waitingBytes >= MAX_WAITING_BYTES) lose(0, stillReason());
      if (loss !== undefined) {
        lose(1, loss.reason);
        return;
      }
    }
    push({ bytes: Buffer.from(text), says: said });
  };
  const say = (lost: Loss): void => {
    const { lines, sinceMs, reason } = lost;
    [loss, said] = [undefined, lost];
    const count = lines === 1 ? '1 line was' : `${lines} lines were`;
    if (listener?.say !== undefined) listener.say(lost);
    else write(`${count} lost here since ${new Date(sinceMs).toISOString()}: ${reason}.\n`);
    said = undefined;
  };
  const tryLater = (pauseMs: number): void => {
    isBlocked = true;
    if (isClosed) return;
    retry = clock.setTimer(pauseMs, () => {
      isBlocked = false;
      pump();
    });
  };
  const wrote = (written: number): void => {
    let left = written;
    waitingBytes -= written;
    stillSinceMs = undefined;
    roomMs = ROOM_PAUSE.minMs;
    let [head] = waiting;
    for (; head !== undefined && left >= head.bytes.length; [head] = waiting) {
      left -= head.bytes.length;
      waiting.shift();
      head.settle?.();
    }
    if (head !== undefined && left > 0)
      waiting[0] = { ...head, bytes: head.bytes.subarray(left), isBegun: true };
  };
  const refuse = (error: NodeJS.ErrnoException): void => {
    // The rest of a partly written line is kept: otherwise the next line would continue it.
    const refused = waiting.splice(listener !== undefined && waiting[0]?.isBegun === true ? 1 : 0);
    waitingBytes = waiting[0]?.bytes.length ?? 0;
    const isWaitedFor = refused.some(({ settle }) => settle !== undefined);
    for (const { settle } of refused) settle?.(listener === undefined ? error : undefined);
    if (listener === undefined) {
      stillSinceMs = undefined;
      if (!isWaitedFor) onRefused?.(error);
      return;
    }
    let lines = 0;
    for (const { says, settle } of refused)
      if (says !== undefined) loss = { ...says, lines: says.lines + (loss?.lines ?? 0) };
      else if (settle === undefined) lines += 1;
    lose(lines, outputFault(error));
    tryLater(REFUSED_PAUSE_MS);
  };
  /** Writes the next lines, as many as are worth writing at once. */
  const writeChunk = (): void => {
    const chunk: Uint8Array[] = [];
    let bytes = 0;
    for (const next of waiting) {
      bytes += next.bytes.length;
      if (chunk.length > 0 && bytes > sink.chunkBytes) break;
      chunk.push(next.bytes);
    }
    isWriting = true;
    stillSinceMs ??= clock.monotonic();
    sink.write(chunk, (error, written) => {
      isWriting = false;
      const isFull = error === null ? written === 0 && waitingBytes > 0 : error.code === 'EAGAIN';
      if (isFull) {
        tryLater(roomMs);
        roomMs = Math.min(2 * roomMs, ROOM_PAUSE.maxMs);
      } else if (error === null) wrote(written);
      else refuse(error);
      pump();
    });
  };
  const pump = (): void => {
    if (isPumping) return;
    isPumping = true;
    while (!isWriting && !isBlocked && (waiting.length > 0 || loss !== undefined))
      if (waiting.length > 0) writeChunk();
      else if (loss !== undefined) say(loss);
    isPumping = false;
  };

  return {
    get name(): string {
      return name;
    },
    /** From now on at most MAX_WAITING_BYTES wait, and lines are lost rather than waited for. */
    neverWait: (given: LossListener = {}): void => void (listener = given),
    /** Width of the terminal, if it reports one. */
    get columns(): number | undefined {
      return columns?.() || undefined;
    },
    /** `neverWait` was called. */
    isBounded: (): boolean => listener !== undefined,
    /** Something waits to be written, or is lost. */
    get isBehind(): boolean {
      return waiting.length > 0 || loss !== undefined;
    },
    /** A write has been handed to the system and has not returned. */
    isWriting: (): boolean => isWriting,
    /** Why it accepts nothing now, and how many lines were lost since it worked; `undefined` while it works. */
    trouble: (): { reason: string; ageSeconds: number; lostLines: number } | undefined => {
      const lost = loss ?? waiting.find(({ says }) => says !== undefined)?.says;
      if (lost !== undefined) {
        const { lines: lostLines, reason, sinceMs } = lost;
        return { reason, ageSeconds: Math.max(0, clock.now() - sinceMs) / 1_000, lostLines };
      }
      const ageMs = clock.monotonic() - (stillSinceMs ?? Infinity);
      if (ageMs < STILL_AFTER_MS) return undefined;
      return { reason: stillReason(), ageSeconds: ageMs / 1_000, lostLines: 0 };
    },
    /** Writes whole lines. */
    write: (text: string): void => write(text),
    /** Resolves when everything up to here is written, or lost. Rejects with the error of a refusal before `neverWait`. */
    put: (bytes: Uint8Array = new Uint8Array()): Promise<void> =>
      new Promise((resolve, reject) => {
        const settle = (error?: NodeJS.ErrnoException): void =>
          error === undefined ? resolve() : reject(error);
        if (bytes.length === 0 && waiting.length === 0) resolve();
        else push({ bytes, settle });
      }),
    /** Stops trying, and drops what still waits. */
    close: (): void => {
      isClosed = true;
      retry?.cancel();
    },
  };
}
