import { faultOf, NodeChooser, outcomeOf, SILENT_AFTER_MS } from '../../access/index.js';
import { readStream, UpstreamError } from '../../access/index.js';
import type { BlockDigest, NodeTrouble, StreamReader, Way } from '../../access/index.js';
import type { Identifier } from '../../flow/index.js';
import { Listeners, Pause, runTogether } from '../../runtime/index.js';
import type { ChainDependencies } from '../ports.js';

const STREAM = 'SubscribeBlockDigestsFromLatest';
const CALL = 'GetLatestBlockHeader';

/** How often nodes are polled while no stream is followed, and whether one of them streams by now is looked at. */
const POLL_MS = 1_000;
/** How often they are polled beside a stream. */
const FRESHNESS_POLL_MS = 2_000;
/** A stream that has not delivered a height this long after a poll has seen it is replaced: within ten seconds in all. */
const OWED_MS = 4_000;
/** A head this far above the index, and what its reporter and another node, if there is one, report for so long, was false. */
const DENIED = { heights: 20, forMs: 60_000 };
/** Heads whose ids are remembered. */
const MAX_IDS = 16;
/** Delay before a stream is reopened. */
const REOPEN_PAUSES = { minMs: 250, maxMs: 10_000 };

type Needed = 'nodes' | 'clock' | 'random' | 'logger' | 'metrics' | 'latestBlock';
export type HeadDependencies = Pick<ChainDependencies, Needed>;

type Parts = HeadDependencies & {
  readonly name: 'finalized' | 'sealed';
  /** A node reported the head, after none had for a while. */
  readonly onAnswerAgain: () => void;
};

/** The stream that is followed, and what it has delivered. */
interface HeadStream extends Way {
  readonly reader: StreamReader<BlockDigest>;
  readonly openedAtMs: number;
  /** The highest that it has delivered; -1: none yet. */
  height: number;
  /** The first height above it that a poll has seen, until the stream reaches it. */
  owed: { readonly height: number; readonly sinceMs: number } | undefined;
  /** It is abandoned, because it did not keep up, or may be of another chain. */
  isStale: boolean;
}

/**
 * Follows one head, which never falls while the node that told it is of our chain, by polls of all nodes in turn and, where
 * a node streams, by its stream, which is quicker. The polls show whether the stream keeps up: an open socket proves
 * nothing. One that delivers nothing, or does not reach the polled head in time, is replaced.
 */
export class HeadFollower {
  readonly #parts: Parts;
  readonly #risen = new Listeners<number>();
  readonly #chooser: NodeChooser;
  readonly #streamPause: Pause;
  readonly #pollPause: Pause;
  /** What was reported last of each height. */
  readonly #ids = new Map<number, Identifier>();
  #polls = 0;
  #stream: HeadStream | undefined;
  #height: number | undefined;
  /** The node that reported this height first. */
  reportedBy: string | undefined;
  #risenAtMs = -Infinity;
  /** By node: the head far below ours that it reported, while none reports ours. Bounded by the nodes. */
  readonly #denials = new Map<string | undefined, number>();
  #answeredAtMs = -Infinity;

  constructor(parts: Parts) {
    this.#parts = parts;
    const ways = { streamName: parts.name, stream: STREAM, call: CALL, pauses: REOPEN_PAUSES } as const;
    this.#chooser = new NodeChooser({ ...parts, ...ways });
    this.#streamPause = new Pause(parts);
    this.#pollPause = new Pause(parts);
  }

  get height(): number | undefined {
    return this.#height;
  }

  /** The id that any node reported of a recent head; `undefined`: none did. */
  idAt(height: number): Identifier | undefined {
    return this.#ids.get(height);
  }

  /** Calls back each time the head rises. Returns a function that unsubscribes. */
  onRise(callback: (height: number) => void): () => void {
    return this.#risen.add(callback);
  }

  /** A node reported that a block of this height is of this kind. False when that is no news. */
  rise(height: number, node: string | undefined): boolean {
    if (this.#height !== undefined && height < this.#height) this.#denied(this.#height, height, node);
    else this.#denials.clear();
    if (height <= (this.#height ?? -1)) return false;
    this.#height = height;
    this.reportedBy = node;
    this.#risenAtMs = this.#parts.clock.monotonic();
    this.#risen.tell(height);
    return true;
  }

  /** A node is of another chain: where it reported the head, heads above this height, which is of ours, are news from now on. */
  fall(node: string | undefined, height: number | undefined): void {
    this.#ids.clear();
    if (this.#stream !== undefined && this.#stream.node.name === node) this.#leave(this.#stream);
    if (this.reportedBy !== node || this.#height === undefined) return;
    this.#height = height && Math.min(height, this.#height);
    this.wake();
  }

  #denied(ours: number, height: number, node: string | undefined): void {
    const known = Math.max(height, this.#parts.latestBlock()?.height ?? 0);
    if (known > ours - DENIED.heights) return;
    this.#denials.set(node, known);
    if ((this.advanceAgeMs() ?? 0) < DENIED.forMs || !this.#denials.has(this.reportedBy)) return;
    if (this.#denials.size < Math.min(2, this.#parts.nodes.live().length)) return;
    this.#parts.logger.warn({ height: ours, node: this.reportedBy }, 'a head that nobody reports was false');
    this.fall(this.reportedBy, Math.max(...this.#denials.values()));
  }

  /** Why this head is unknown; empty while any node reports it. */
  troubles(): readonly NodeTrouble[] {
    return (this.answerAgeMs() ?? Infinity) < SILENT_AFTER_MS ? [] : this.#chooser.troubles.all();
  }

  /** A node answers again: ends the pauses. */
  wake(): void {
    this.#streamPause.wake();
    this.#pollPause.wake();
  }

  /** Milliseconds since it last rose; `undefined` while unknown. On a quiet chain it grows while `answerAgeMs` does not. */
  advanceAgeMs(): number | undefined {
    return this.#ageOf(this.#risenAtMs);
  }

  /** Milliseconds since any node reported it, risen or not; `undefined` before the first report. */
  answerAgeMs(): number | undefined {
    return this.#ageOf(this.#answeredAtMs);
  }

  /** Resolves when the signal aborts. No expected errors. */
  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [(ended) => this.#follow(ended), (ended) => this.#poll(ended)]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      const way = this.#chooser.choose(this.#parts.nodes.live(STREAM));
      if (way === undefined || !this.#chooser.isStream(way)) {
        await this.#streamPause.sleep(POLL_MS, signal);
        continue;
      }
      const reason = await this.#followStream(way, signal);
      this.#parts.metrics.streamReopens.inc({ stream: this.#parts.name, reason });
      await this.#streamPause.sleep(this.#chooser.pauseMs(), signal);
    }
  }

  /** Resolves with the reason why this stream is no longer followed. Expected errors: the signal's abort reason. */
  async #followStream(way: Way, signal: AbortSignal): Promise<string> {
    const { node } = way;
    const { clock, name } = this.#parts;
    const reader = readStream({
      open: (ended) => node.subscribeBlockDigests({ signal: ended, sealed: name === 'sealed' }),
      signal,
      clock,
    });
    const openedAtMs = clock.monotonic();
    const stream: HeadStream = { ...way, reader, openedAtMs, height: -1, owed: undefined, isStale: false };
    this.#stream = stream;
    this.#chooser.asked(way);
    try {
      for (;;) {
        const read = await reader.read();
        if (read === 'silent' || read.done === true) break;
        this.#take(stream, read.value);
      }
      // The stream may have ended to make way for another one.
      const said = `${STREAM} at ${node.name}: the node ended the stream`;
      if (stream.height >= 0 || !this.#chooser.mayStream(node)) this.#chooser.avoid(way);
      else this.#chooser.blame(way, 'refused', 'failing', said);
      return 'ended';
    } catch (error) {
      if (stream.isStale) return 'stale';
      if (!(error instanceof UpstreamError)) throw error;
      this.#chooser.erred(way, error, faultOf(error.kind));
      return error.kind;
    } finally {
      reader.cancel();
      this.#stream = undefined;
    }
  }

  #take(stream: HeadStream, digest: BlockDigest): void {
    const { height } = digest;
    // It was on its way when the stream was left.
    if (stream.isStale) return;
    this.#answered(digest);
    if (height <= stream.height) return;
    if (stream.height < 0) this.#chooser.works(stream);
    stream.height = height;
    if (stream.owed !== undefined && height >= stream.owed.height) stream.owed = undefined;
    if (this.rise(height, stream.node.name)) this.#chooser.cameBy();
  }

  async #poll(signal: AbortSignal): Promise<void> {
    for (;;) {
      const height = await this.#askNext(signal);
      if (this.#stream !== undefined) this.#judge(this.#stream, height);
      await this.#pollPause.sleep(this.#stream === undefined ? POLL_MS : FRESHNESS_POLL_MS, signal);
    }
  }

  /** Takes the head that the next node tells, if it tells one. Expected errors: the signal's abort reason. */
  async #askNext(signal: AbortSignal): Promise<number | undefined> {
    const { nodes, name } = this.#parts;
    const live = nodes.live(CALL);
    const healthy = live.filter((node) => node.supports(CALL) && node.healthOf(CALL) === 'healthy');
    const asked = healthy.length > 0 ? healthy : live;
    const node = asked[this.#polls++ % asked.length];
    if (node === undefined) return undefined;
    const way = { node, method: CALL } as const;
    this.#chooser.asked(way);
    const timeoutMs = this.#chooser.patienceMs('call');
    const header = await outcomeOf(node.getLatestBlockHeader(name === 'sealed', { signal, timeoutMs }));
    if (header instanceof UpstreamError) {
      this.#chooser.erred(way, header, faultOf(header.kind));
      return undefined;
    }
    // It was found to be of another chain meanwhile.
    if (!nodes.live(CALL).includes(node)) return undefined;
    if (node.healthOf(CALL) !== 'healthy') nodes.succeeded(node, CALL);
    this.#answered(header);
    this.rise(header.height, node.name);
    return header.height;
  }

  /** Leaves a stream that does not keep up with what polls have seen. */
  #judge(stream: HeadStream, polledHeight = -1): void {
    const nowMs = this.#parts.clock.monotonic();
    if (polledHeight > stream.height) stream.owed ??= { height: polledHeight, sinceMs: nowMs };
    const { height, node, openedAtMs, owed } = stream;
    // Every stream begins with a head, even if no poll has seen a higher one.
    const isSilent = height < 0 && nowMs - openedAtMs >= this.#chooser.patienceMs('stream');
    if (!isSilent && (owed === undefined || nowMs - owed.sinceMs < OWED_MS)) return;
    const what = height < 0 ? 'no head came' : `stood at ${height} while ${owed?.height} was known`;
    this.#chooser.blame(stream, 'unreachable', 'stale', `${STREAM} at ${node.name}: ${what}`);
    this.#leave(stream);
  }

  #leave(stream: HeadStream): void {
    stream.isStale = true;
    stream.reader.cancel();
  }

  /** A node reported the head. After a silence, streams are tried again at once. */
  #answered({ height, id }: BlockDigest): void {
    this.#ids.set(height, id);
    const [oldest = height] = this.#ids.keys();
    if (this.#ids.size > MAX_IDS) this.#ids.delete(oldest);
    const wasSilent = this.troubles().length > 0;
    this.#answeredAtMs = this.#parts.clock.monotonic();
    this.#chooser.answered();
    this.#chooser.troubles.clear();
    if (!wasSilent) return;
    this.#parts.onAnswerAgain();
    this.#streamPause.wake();
  }

  #ageOf(atMs: number): number | undefined {
    return atMs === -Infinity ? undefined : this.#parts.clock.monotonic() - atMs;
  }
}
