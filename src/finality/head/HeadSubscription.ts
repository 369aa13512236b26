import { answerOf, faultOf, NodeChooser, StreamReader, UpstreamError } from '../../access/index.js';
import { SILENT_AFTER_MS, STREAM_SILENT_MS } from '../../access/index.js';
import type { AccessMethod, AccessNode, BlockDigest, NodeTrouble, Way } from '../../access/index.js';
import { EdgeLog } from '../../observability/index.js';
import { every, Pause, runTogether, sleep } from '../../runtime/index.js';
import type { ChainDependencies, ReportedHead } from '../ports.js';

const STREAM = 'SubscribeBlockDigestsFromLatest';
const HEAD_CALL = 'GetLatestBlockHeader';

/** How often the freshness of the stream is checked. */
const WATCH_INTERVAL_MS = 1_000;
/** How often a node without streams is asked for its head. */
const POLL_INTERVAL_MS = 1_000;
/** How often some node is polled for its head while a stream is followed; also the deadline of that call. */
const FRESHNESS_POLL_MS = 2_000;
/** The polled height is no longer believed after this many consecutive sources that never reached it. */
const MAX_MISSES = 2;
/** After this time, a stream that has not delivered a height that a poll has seen counts as silent. */
const GRACE_MS = 2_000;
/** Delay before a stream is reopened. */
const REOPEN_PAUSES = { minMs: 250, maxMs: 10_000 };

/** The node that is being followed, by stream or by polling, and what it has delivered. */
interface HeadSource extends Way {
  readonly reader: StreamReader<BlockDigest>;
  /** It was abandoned because it did not keep up. */
  isStale: boolean;
  deliveredAtMs: number;
  /** The highest that it has delivered; -1: none yet. */
  height: number;
  /** The first height above this source that a poll has seen, until the source reaches it. */
  owed: { readonly height: number; readonly sinceMs: number } | undefined;
}

export type HeadName = 'finalized' | 'sealed';
export type HeadDependencies = Pick<ChainDependencies, 'nodes' | 'clock' | 'random' | 'logger' | 'metrics'>;

type Parts = HeadDependencies & {
  /** A node reported the head, after none had for a while. */
  readonly onAnswerAgain: () => void;
  /** A block that is at least finalized; not necessarily higher than the last. */
  readonly onHead: (head: ReportedHead) => void;
};

/**
 * Follows one head (finalized or sealed) by the digest stream of one node at a time, or by polling if no healthy node
 * streams. A slow poll of all nodes in turn shows whether the source keeps up: an open socket proves nothing. A source
 * that delivers nothing, or lags, while the polled head moves is replaced.
 */
export class HeadSubscription {
  readonly #stream: HeadName;
  readonly #deps: Parts;
  readonly #pause: Pause;
  readonly #chooser: NodeChooser;
  /** The highest height that a poll reported; -1: none is believed. */
  #polledHeight = -1;
  #misses = 0;
  #polls = 0;
  #source: HeadSource | undefined;
  /** The highest height that any source has delivered: a source works only if it delivers a higher one. */
  #best = -1;
  #deliveredAtMs: number;
  #answeredAtMs = -Infinity;
  /** The call of the lost source, from when the loss was logged until a source delivers again. */
  #lostBy: AccessMethod | undefined;
  readonly #edge: EdgeLog;

  constructor(stream: HeadName, parts: Parts) {
    this.#stream = stream;
    this.#deps = parts;
    this.#edge = new EdgeLog(parts);
    this.#pause = new Pause(parts);
    this.#chooser = new NodeChooser({ ...parts, stream: STREAM, call: HEAD_CALL, pauses: REOPEN_PAUSES });
    this.#deliveredAtMs = parts.clock.monotonic();
  }

  /** Why this head is unknown; empty while any node reports it. */
  troubles(): readonly NodeTrouble[] {
    if (this.#deps.clock.monotonic() - this.#answeredAtMs < SILENT_AFTER_MS) return [];
    return this.#chooser.troubles.all();
  }

  source(): string | undefined {
    return this.#source?.node.name;
  }

  /** A node answers again: ends the current pause. */
  wake(): void {
    this.#pause.wake();
  }

  /** Milliseconds since the source last delivered a new height. */
  ageMs(): number {
    return this.#deps.clock.monotonic() - this.#deliveredAtMs;
  }

  /** Milliseconds since any node reported the head; `undefined` before the first report. */
  answerAgeMs(): number | undefined {
    return this.#answeredAtMs === -Infinity ? undefined : this.#deps.clock.monotonic() - this.#answeredAtMs;
  }

  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [(ended) => this.#follow(ended), (ended) => this.#poll(ended)]);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      const way = this.#chooser.choose(this.#deps.nodes.live(STREAM));
      if (way === undefined) {
        await this.#pause.sleep(this.#chooser.pauseMs(), signal);
        continue;
      }
      const reason = await this.#followNode(way, signal);
      if (reason === 'streams_again') continue;
      this.#deps.metrics.streamReopens.inc({ stream: this.#stream, reason });
      await this.#pause.sleep(this.#chooser.pauseMs(), signal);
    }
  }

  /** Resolves with the reason why this node is no longer followed. Expected errors: the signal's abort reason. */
  async #followNode(way: Way, signal: AbortSignal): Promise<string> {
    const { node } = way;
    const streams = this.#chooser.isStream(way);
    const sealed = this.#stream === 'sealed';
    const { clock } = this.#deps;
    const open = (ended: AbortSignal): AsyncIterable<BlockDigest> =>
      streams ? node.subscribeBlockDigests({ signal: ended, sealed }) : this.#pollNode(node, ended);
    const reader = new StreamReader({ open, signal, clock });
    const deliveredAtMs = clock.monotonic();
    const source: HeadSource = { ...way, reader, isStale: false, deliveredAtMs, height: -1, owed: undefined };
    this.#source = source;
    const watch = every(clock, WATCH_INTERVAL_MS, () => this.#judge(source));
    this.#chooser.asked(way);
    try {
      for (;;) {
        const read = await reader.read();
        if (read !== 'silent' && read.done !== true) {
          this.#delivered(source, read.value);
          continue;
        }
        if (!streams) return 'streams_again';
        const said = `${STREAM} at ${node.name}: the node ended the stream`;
        // The stream may have ended to make way for another one.
        if (source.height >= 0 || !this.#chooser.mayStream(node)) this.#chooser.avoid(way);
        else this.#blame(source, 'refused', said);
        return 'ended';
      }
    } catch (error) {
      if (source.isStale) return 'stale';
      if (!(error instanceof UpstreamError)) throw error;
      this.#chooser.erred(way, error, faultOf(error.kind));
      if (error.kind === 'unimplemented' && streams) return error.kind;
      this.#lost(source, { kind: error.kind, error: error.message });
      return error.kind;
    } finally {
      watch.cancel();
      reader.cancel();
      this.#source = undefined;
    }
  }

  /** Ends when the node may have a stream for us again. */
  async *#pollNode(node: AccessNode, signal: AbortSignal): AsyncGenerator<BlockDigest, void> {
    while (!this.#chooser.mayStream(node)) {
      const timeoutMs = this.#chooser.patienceMs('call');
      yield await node.getLatestBlockHeader(this.#stream === 'sealed', { signal, timeoutMs });
      await sleep(this.#deps.clock, POLL_INTERVAL_MS, signal);
    }
  }

  /** Asks the nodes in turn, slowly, for their head, and knows the highest reported one. Expected errors: the signal's abort reason. */
  async #poll(signal: AbortSignal): Promise<void> {
    const { nodes, clock, onHead } = this.#deps;
    for (;;) {
      await sleep(clock, FRESHNESS_POLL_MS, signal);
      const live = nodes.live(HEAD_CALL);
      const healthy = live.filter((candidate) => candidate.healthOf(HEAD_CALL) === 'healthy');
      const asked = healthy.length > 0 ? healthy : live;
      const node = asked[this.#polls++ % asked.length];
      if (node === undefined) continue;
      this.#chooser.asked({ node, method: HEAD_CALL });
      const options = { signal, timeoutMs: FRESHNESS_POLL_MS };
      const call = node.getLatestBlockHeader(this.#stream === 'sealed', options);
      const head = await answerOf(nodes, node, call);
      if (head instanceof UpstreamError) {
        this.#chooser.troubles.failed(head);
        continue;
      }
      this.#answered();
      if (node.healthOf(HEAD_CALL) !== 'healthy') nodes.succeeded(node, HEAD_CALL);
      if (head.height > this.#polledHeight) this.#believe(head.height);
      onHead({ height: head.height, id: head.id, node: node.name });
    }
  }

  #believe(height: number): void {
    this.#polledHeight = height;
    this.#misses = 0;
  }

  #delivered(source: HeadSource, { height, id }: BlockDigest): void {
    this.#answered();
    this.#chooser.answered();
    if (height <= source.height) return;
    if (source.height < 0) this.#chooser.works(source);
    this.#deliveredAtMs = this.#deps.clock.monotonic();
    source.height = height;
    source.deliveredAtMs = this.#deliveredAtMs;
    if (source.owed !== undefined && height >= source.owed.height) source.owed = undefined;
    if (height > this.#best) {
      this.#best = height;
      this.#chooser.cameBy();
    }
    if (this.#lostBy === source.method || (this.#lostBy !== undefined && source.method === STREAM)) {
      this.#lostBy = undefined;
      this.#edge.back({ stream: this.#stream, node: source.node.name }, 'head stream is back');
    }
    this.#deps.onHead({ height, id, node: source.node.name });
  }

  /** A node reported the head: ends the pause of the poll. */
  #answered(): void {
    const wasSilent = this.troubles().length > 0;
    this.#answeredAtMs = this.#deps.clock.monotonic();
    this.#chooser.troubles.clear();
    if (!wasSilent) return;
    this.#deps.onAnswerAgain();
    this.#pause.wake();
  }

  #judge(source: HeadSource): void {
    const lag = this.#lagOf(source);
    if (lag === undefined) return;
    source.isStale = true;
    this.#blame(source, 'unreachable', `${source.method} at ${source.node.name}: ${lag}`);
    source.reader.cancel();
    if (source.owed === undefined) return;
    this.#misses += 1;
    if (this.#misses >= MAX_MISSES) this.#believe(-1);
  }

  /** Why to replace the source; `undefined` while it keeps up with the polled height. */
  #lagOf(source: HeadSource): string | undefined {
    const nowMs = this.#deps.clock.monotonic();
    if (this.#polledHeight > source.height) source.owed ??= { height: this.#polledHeight, sinceMs: nowMs };
    const silentMs = nowMs - source.deliveredAtMs;
    if (source.owed === undefined) {
      // Every stream begins with a head, even if no poll has seen a higher one.
      if (source.height >= 0 || !this.#chooser.isStream(source)) return undefined;
      if (silentMs < this.#chooser.patienceMs('stream')) return undefined;
      return `no head for ${Math.round(silentMs / 1_000)} s`;
    }
    const owedMs = nowMs - source.owed.sinceMs;
    const isSilent = silentMs >= STREAM_SILENT_MS && owedMs >= GRACE_MS;
    if (!isSilent && owedMs < STREAM_SILENT_MS) return undefined;
    return `its ${this.#stream} head stood at ${source.height} while ${source.owed.height} was known`;
  }

  /** The source delivered nothing, or too little: counts this against the call, and reports it. */
  #blame(source: HeadSource, kind: 'refused' | 'unreachable', said: string): void {
    this.#chooser.blame(source, kind, kind === 'refused' ? 'failing' : 'stale', said);
    this.#lost(source, { kind: kind === 'refused' ? 'ended' : 'stale', error: said });
  }

  #lost({ node, method }: HeadSource, fields: { readonly kind: string; readonly error: string }): void {
    const message = 'head stream lost, reconnecting';
    const all = { stream: this.#stream, node: node.name, ...fields };
    if (this.#lostBy === undefined) this.#edge.lost(all, message);
    else this.#deps.logger.debug(all, message);
    this.#lostBy ??= method;
  }
}
