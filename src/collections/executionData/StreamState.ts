import { NodeTroubles, SILENT_AFTER_MS, streamPace } from '../../access/index.js';
import type { AccessMethod, AccessNode, NodeTrouble } from '../../access/index.js';
import { RunningAverage } from '../../runtime/index.js';
import type { ExecutionDataForecast } from '../ports.js';
import type { StreamWords } from './BodyStream.js';
import type { ExecutionDataIndexerDependencies } from './ExecutionDataIndexer.js';
import type { ExecutionDataIndexerOptions } from './ExecutionDataIndexer.js';
import { givenUp, type StreamEnd } from './streamEnd.js';

/** How long to believe the lowest height that a node named: its operator may add history. */
const PRUNED_MS = 600_000;
/** A head that has not moved for this long is reported as the cause. */
const HEAD_STILL_MS = 10_000;
/** A new stream that delivers nothing is abandoned sooner than one that has delivered. */
const OPENING_SILENCE_MS = 4_000;
/** By this factor the time that a message took counts less with each next message. */
const TOOK_FADES = 0.9;
/** Longest tolerated silence: a large message on a slow line takes that long. Nodes drop readers idle for half of it. */
const MAX_SILENCE_MS = 60_000;
/** Checks per silence: a fault goes unnoticed for at most a quarter of the silence. */
const LOOKS_PER_SILENCE = 4;

export type ExecutionDataState =
  /** Not running. */
  | 'off'
  /** Being opened, or pausing between two attempts. */
  | 'connecting'
  /** Delivering, or waiting for the next block to be due. */
  | 'streaming'
  /** Paused by us: it is ahead of the window or of the blocks handed out, or the byte budget is used up. */
  | 'waiting_window'
  /** No source offers the stream, or not for the next height. */
  | 'unavailable';

/** A node that does not offer the stream, or not for heights that low. */
interface Lack {
  readonly sinceMs: number;
  readonly untilMs: number;
  /** The lowest height that the node has. */
  readonly below: number;
  readonly said: string;
  readonly count: number;
}

type Parts = Pick<
  Required<ExecutionDataIndexerOptions>,
  'stream' | 'silenceMs' | 'lookaheadHeights' | 'freshMs'
> &
  Pick<ExecutionDataIndexerDependencies, 'window' | 'dueHeight' | 'clock'>;

/**
 * The state of a stream: where it is, at which node, since when; whether it delivers what is due, not merely whether it
 * is open; what to expect from it, by its last sign of life and its pace; and why the next height is missing: which nodes
 * do not have or offer it, and what the other nodes answered. Bounded by the number of nodes.
 *
 * Heights up to the sealed or finalized head are due. A quiet chain is not a fault, nor is a stream that we do not read.
 * (A stream slower than block production looks alive: subsquid/squid-sdk PR 549.)
 */
export class StreamState implements ExecutionDataForecast {
  now: ExecutionDataState = 'off';
  /** The next height. When a stream is about to be opened, it is above the watermark. */
  next = 0;
  /** The node that is followed or opened, and the call. */
  node: AccessNode | undefined;
  method: AccessMethod;
  readonly #parts: Parts;
  readonly #words: StreamWords;
  #lastMessage: { readonly height: number; readonly atMs: number } | undefined;
  /** Since when a read of the next message has been pending; `undefined` while we do not read. */
  #pullingSinceMs: number | undefined;
  /** Since when that read has been pending for a due message. */
  #dueSinceMs: number | undefined;
  /** While the open stream has delivered nothing: whether a height was due when it was opened. Then `false`. */
  #isOpening: boolean | undefined;
  #pace = streamPace();
  /** The silence after which a new stream is abandoned: longer where messages take long, or one was later than that. */
  #silenceMs = 0;
  /** The longest that a message was due before it arrived; older ones count less. */
  #tookMs = 0;
  #aliveAtMs: number | undefined;
  /** Milliseconds per height while data was due. */
  readonly #heightMs = new RunningAverage({ weight: 1 / 16 });
  /** How streams failed at the height `#failedAt`. */
  readonly #failures: NodeTroubles;
  #failedAt: number | undefined;
  readonly #lacks = new Map<string, Lack>();
  /** Why no source can be asked; `undefined` once one is. */
  #none: string | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#words = parts.stream.words;
    this.method = parts.stream.method;
    this.#bear(0);
    this.#failures = new NodeTroubles(parts);
  }

  /** We have not read for a while: ground lost meanwhile is not the stream's fault. */
  rested(): void {
    this.alive();
    this.#pace.rest();
  }

  /** The next height arrived from this node, and was handed in. */
  arrived(node: AccessNode, atMs: number): void {
    const { clock } = this.#parts;
    const since = this.#pullingSinceMs;
    // The first message takes as long as the stream to open, which says nothing of its pace.
    if (since !== undefined && since === this.#dueSinceMs && this.#isOpening === false)
      this.#heightMs.observe(clock.monotonic() - since);
    this.#tookMs = Math.max(atMs - (this.#dueSinceMs ?? atMs), this.#tookMs * TOOK_FADES);
    this.#bear(2 * this.#tookMs);
    this.#pullingSinceMs = this.#dueSinceMs = undefined;
    this.#isOpening = false;
    this.#lastMessage = { height: this.next, atMs };
    this.next += 1;
    this.alive();
    this.#failures.clear();
    this.#lacks.delete(node.name);
  }

  /** The stream opened without error, delivered, or is read again after we paused it. */
  alive(): void {
    this.#aliveAtMs = this.#parts.clock.monotonic();
  }

  /** A stream is opened. Returns how many milliseconds a read may take before the stream is checked. */
  opened(): number {
    this.#isOpening = this.#none = undefined;
    this.#pace = streamPace();
    return Math.ceil(Math.min(OPENING_SILENCE_MS, this.#parts.silenceMs) / LOOKS_PER_SILENCE);
  }

  closed(): void {
    this.#pullingSinceMs = this.#dueSinceMs = this.#aliveAtMs = undefined;
  }

  /** A read of the next message begins. */
  pulling(): void {
    const isDue = this.#isDue();
    this.#pullingSinceMs = this.#parts.clock.monotonic();
    this.#dueSinceMs = isDue ? this.#pullingSinceMs : undefined;
    this.#isOpening ??= isDue;
  }

  /** A stream that we pause does not go stale. */
  expects(height: number, withinMs: number): boolean {
    const { clock, freshMs, lookaheadHeights } = this.#parts;
    const ahead = height - this.next;
    if (height > (this.#parts.dueHeight() ?? -Infinity) || ahead < 0 || ahead >= lookaheadHeights)
      return false;
    if (this.#aliveAtMs === undefined) return false;
    const isPausedByUs = this.now === 'waiting_window';
    if (!isPausedByUs && clock.monotonic() - this.#aliveAtMs > freshMs) return false;
    return (ahead + 1) * (this.#heightMs.value ?? 0) <= withinMs;
  }

  /** Until when this node is not asked for the next height; -Infinity when it may be asked. */
  lacksUntilMs(node: AccessNode): number {
    const lack = this.#lacks.get(node.name);
    return lack === undefined || this.next >= lack.below ? -Infinity : lack.untilMs;
  }

  /** The node does not offer the stream, for the reason given; it is asked again after `forMs`. */
  offersNone(node: AccessNode, words: string, forMs: number): void {
    this.#lack(node, Infinity, `${node.name} does not offer ${this.#words.data}: ${words}`, forMs);
  }

  /** Returns how many streams of this node have failed in a row to give the next height, if that is due. */
  ended(node: AccessNode, method: AccessMethod, end: StreamEnd): number {
    if (this.next !== this.#failedAt) this.#failures.clear();
    else if (end.reason === 'absent' || end.reason === 'silent') this.#bear(2 * this.#silenceMs);
    this.#failedAt = this.next;
    if (end.prunedBelow !== undefined && end.prunedBelow > this.next) {
      const said = `${node.name} has no ${this.#words.data} below ${end.prunedBelow}`;
      this.#lack(node, end.prunedBelow, said, PRUNED_MS);
      return 0;
    }
    if (end.kind === undefined) return 0;
    const said = end.text.includes(node.name) ? end.text : `${method} at ${node.name}: ${end.text}`;
    this.#failures.note(node.name, method, end.kind, said);
    const failed = this.#failures.all().find((trouble) => trouble.node === node.name);
    return this.#isDue() ? (failed?.count ?? 0) : 0;
  }

  /** No source can be asked; `why`, if known. */
  noNode(why: string | undefined): void {
    const { source } = this.#words;
    this.node = undefined;
    this.#none =
      why === undefined ? `no ${source} serves the next height` : `no ${source} can be asked: ${why}`;
  }

  /** `height` and `ageSeconds`: of the last message of any stream. */
  status() {
    const { height = null, atMs } = this.#lastMessage ?? {};
    return {
      state: this.now,
      endpoint: this.node?.name ?? null,
      nextHeight: this.#missing(),
      height,
      ageSeconds: atMs === undefined ? null : (this.#parts.clock.monotonic() - atMs) / 1_000,
      reason: this.trouble() ?? null,
    };
  }

  /** Per node: why the next height is missing; empty while we wait for room, or for the height to be due. */
  troubles(): readonly NodeTrouble[] {
    if (this.now === 'off') return [];
    const { method } = this;
    const missing = this.#missing();
    const troubles: NodeTrouble[] = [...this.#lacks].flatMap(([name, { below, said, count, sinceMs }]) =>
      missing >= below ? [] : { node: name, method, kind: 'refused' as const, said, count, sinceMs },
    );
    if (this.#failedAt === missing) troubles.push(...this.#failures.all());
    const node = this.node?.name;
    const sinceMs = this.#dueSinceMs;
    const isSilent = sinceMs !== undefined && (this.lateMs() ?? 0) >= SILENT_AFTER_MS;
    if (isSilent && node !== undefined && !troubles.some((trouble) => trouble.node === node)) {
      const said = `${method} at ${node}: nothing yet for height ${missing}, which is ${this.#words.due}`;
      troubles.push({ node, method, kind: 'unreachable', said, count: 0, sinceMs });
    }
    return troubles;
  }

  /** How much longer a pending message has been due than it may take on this line; `undefined` while none is due. */
  lateMs(): number | undefined {
    const sinceMs = this.#isDue() ? this.#dueSinceMs : undefined;
    if (sinceMs === undefined) return undefined;
    return this.#parts.clock.monotonic() - sinceMs - 2 * this.#tookMs;
  }

  /** Why nothing arrives, in one sentence; `undefined` while all is well. */
  trouble(): string | undefined {
    const { data, due, fix, source, stream } = this.#words;
    if (this.now === 'off') return `the ${stream} is not followed`;
    const missing = this.#missing();
    const lacks = [...this.#lacks.values()].filter(({ below }) => missing < below && below < Infinity);
    const none = this.now === 'unavailable' ? `no ${source} offers ${data}${fix}` : this.#none;
    if (lacks.length > 0) return lacks.map(({ said }) => said).join(', ');
    if (none !== undefined) return none;
    const failures = this.#failures.all().map(({ said }) => said);
    if (failures.length > 0) return `the ${stream} does not deliver: ${failures.join(', ')}`;
    const nowMs = this.#parts.clock.monotonic();
    const earlyMs = this.#isDue() ? 0 : nowMs - (this.#pullingSinceMs ?? nowMs);
    if (earlyMs >= HEAD_STILL_MS) {
      const dueHeight = this.#parts.dueHeight();
      const head = `the ${due} head`;
      const current = dueHeight === undefined ? `no node reports ${head}` : `${head} is at ${dueHeight}`;
      return `waiting for height ${missing} to be ${due} for ${Math.floor(earlyMs / 1_000)} s: ${current}`;
    }
    return undefined;
  }

  #isDue(): boolean {
    return (this.#parts.dueHeight() ?? -Infinity) >= this.next;
  }

  /** What is wrong while the reader waits for a message that is late. */
  silence(): StreamEnd | undefined {
    const nowMs = this.#parts.clock.monotonic();
    this.#dueSinceMs = this.#isDue() ? (this.#dueSinceMs ?? nowMs) : undefined;
    const { due, missing } = this.#words;
    const isOpening = this.#isOpening === true;
    const limitMs = isOpening ? this.#silenceMs : Math.max(this.#silenceMs, this.#parts.silenceMs);
    if (nowMs - (this.#dueSinceMs ?? nowMs) < limitMs) return undefined;
    const said = `nothing came within ${Math.round(limitMs / 1_000)} s, although the height is ${due}`;
    return isOpening
      ? givenUp('absent', `${said}; ${missing}, or the line is slow`)
      : givenUp('silent', said);
  }

  /** Call it at each message as well. */
  slowness(): StreamEnd | undefined {
    const { clock, dueHeight } = this.#parts;
    const said = this.#pace.fault(this.next, dueHeight() ?? -1, clock.monotonic());
    return said === undefined ? undefined : givenUp('lagging', said);
  }

  #bear(silenceMs: number): void {
    const leastMs = Math.min(OPENING_SILENCE_MS, this.#parts.silenceMs);
    this.#silenceMs = Math.min(Math.max(silenceMs, leastMs), MAX_SILENCE_MS);
  }

  /** The next height that is not durable. */
  #missing(): number {
    return Math.max(this.next, this.#parts.window.latestIndexedHeight() + 1);
  }

  #lack(node: AccessNode, below: number, said: string, forMs: number): void {
    const nowMs = this.#parts.clock.monotonic();
    const { sinceMs, count } = this.#lacks.get(node.name) ?? { sinceMs: nowMs, count: 0 };
    this.#lacks.set(node.name, { below, said, sinceMs, count: count + 1, untilMs: nowMs + forMs });
  }
}
