import { faultOf, troubleOf, UpstreamError } from '../../access/index.js';
import type {
  AccessMethod,
  AccessNode,
  AccessNodes,
  NodeFault,
  NodeRotation,
  TroubleKind,
} from '../../access/index.js';
import { InvalidCollectionError } from '../../flow/index.js';
import type { Logger, Metrics } from '../../observability/index.js';
import { backoffMs } from '../../runtime/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { BlockWindow } from '../ports.js';
import { FaultReporter } from '../sources/FaultReporter.js';
import type { Fault } from '../sources/FaultReporter.js';
import { usedMethod } from './BodyStream.js';
import type { BodyStream } from './BodyStream.js';
import type { ExecutionDataTroubles } from './ExecutionDataTroubles.js';

/** Longest pause after a node refused a stream for lack of capacity: other clients would take the next free one. */
const REFUSED_MAX_MS = 2_000;
/** Consecutive heights after which a stream counts as working: one that breaks after each height does not. */
const HEIGHTS_BEFORE_PRAISE = 3;
/** After this many streams in a row that delivered nothing for a due height, the node's call counts as failing. */
const FRUITLESS_STREAMS = 2;

/** Why we give up a stream. */
export type StreamFaultReason =
  /** The node ended it. */
  | 'ended'
  /** Due data does not arrive. */
  | 'silent'
  /** Nothing ever arrived, although the height at which it was opened is due. */
  | 'absent'
  /** Data arrives more slowly than the chain grows. */
  | 'lagging'
  /** Its next heights are already durable: reopening above them is cheaper. */
  | 'skip_ahead'
  /** The node does not serve the heights that follow (the edge of a spork). */
  | 'moved'
  /** A height came out of order. */
  | 'malformed';

const NODE_FAULTS: Record<StreamFaultReason, NodeFault | undefined> = {
  ended: undefined,
  silent: 'stale',
  absent: 'stale',
  lagging: 'stale',
  skip_ahead: undefined,
  moved: undefined,
  malformed: 'lied',
};

/** `undefined`: we left the stream, and the data is available. */
const TROUBLES: Record<StreamFaultReason, TroubleKind | undefined> = {
  ended: 'refused',
  silent: 'unreachable',
  absent: 'unreachable',
  lagging: 'unreachable',
  skip_ahead: undefined,
  moved: undefined,
  malformed: 'invalid',
};

/** Thrown and caught within the execution-data indexer: give up this stream and open another. */
export class StreamFault extends Error {
  override readonly name = 'StreamFault';
  readonly reason: StreamFaultReason;

  constructor(reason: StreamFaultReason, message: string) {
    super(message);
    this.reason = reason;
  }
}

/** How a stream ended. */
export interface StreamEnd extends Fault {
  /** The reason label of `stream_reopens_total`. */
  readonly reason: string;
  /** The stream contradicts the block's guarantees, or has another block: either side may be false. See `BlockWindow`. */
  readonly contradicts?: 'guarantees' | 'block';
  /** Why the data is missing; `undefined` when we left the stream for reasons of our own. */
  readonly kind: TroubleKind | undefined;
  /** What went wrong, without the kind of error. */
  readonly said: string;
  /** The call, if the error names it. */
  readonly method?: AccessMethod;
  /** The node has nothing below this height. */
  readonly prunedBelow?: number;
}

/** An opened stream. */
export interface OpenedStream {
  readonly node: AccessNode;
  readonly method: AccessMethod;
  readonly height: number;
}

/** See `ExecutionDataIndexerOptions`. */
interface Limits {
  readonly stream: BodyStream;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  readonly probeMs: number;
}

interface Parts {
  readonly nodes: Pick<AccessNodes, 'succeeded' | 'report'>;
  readonly rotation: NodeRotation;
  readonly troubles: ExecutionDataTroubles;
  readonly window: Pick<BlockWindow, 'isCertain'>;
  /** The highest height that is due; `undefined` while unknown. */
  dueHeight(): number | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: Pick<Metrics, 'invalidCollections' | 'streamReopens'>;
}

/** Draws the consequences of how streams go and end: which node is credited or blamed, and the pause before the next. */
export class StreamEndings {
  readonly #limits: Limits;
  readonly #parts: Parts;
  readonly #reporter: FaultReporter;
  /** Verified messages of the current stream. */
  #verified = 0;
  /** Consecutive streams of the same node that delivered nothing for the same height. */
  #fruitless = { node: '', height: 0, count: 0 };
  #isRefused = false;

  constructor(limits: Limits, parts: Parts) {
    this.#limits = limits;
    this.#parts = parts;
    this.#reporter = new FaultReporter({ source: limits.stream.source }, parts);
  }

  opened(): void {
    this.#verified = 0;
  }

  came(node: AccessNode, opened: AccessMethod, isVerified: boolean): void {
    const { rotation, troubles } = this.#parts;
    this.#isRefused = false;
    troubles.came(node);
    if (!isVerified) return;
    rotation.succeeded();
    this.#verified += 1;
    if (this.#verified >= HEIGHTS_BEFORE_PRAISE)
      this.#reporter.succeeded(node, usedMethod(this.#limits.stream, node, opened));
  }

  /** The node does not support the call. */
  offersNone({ node, method }: OpenedStream, said: string): void {
    // A missing fallback says nothing about the call itself.
    if (method !== this.#limits.stream.fallback)
      this.#parts.troubles.offersNone(node, said, this.#limits.probeMs);
  }

  /** Returns the pause before the next stream. `next` is the height that is now missing. */
  ended({ node, method: opened, height }: OpenedStream, end: StreamEnd, next: number): number {
    const { clock, logger, metrics, random, rotation, troubles, window } = this.#parts;
    const { label, words } = this.#limits.stream;
    const method = end.method ?? usedMethod(this.#limits.stream, node, opened);
    metrics.streamReopens.inc({ stream: label, reason: end.reason });
    troubles.ended(node, method, next, end);
    const isLie = end.contradicts !== undefined && window.isCertain(next, end.contradicts);
    const fault = isLie ? 'lied' : (end.fault ?? this.#faultOf(node, end, next, next === height));
    this.#reporter.report(node, method, { ...end, fault }, next, { reason: end.reason });
    if (troubles.lacksUntilMs(node, next) > clock.monotonic()) return 0;
    const isBusy = end.reason === 'rate_limited';
    const isRefused = isBusy || end.reason === 'unauthenticated';
    if (isRefused && !this.#isRefused) {
      logger.warn({ node: node.name, error: end.said }, `${words.giver} refused the ${words.stream}`);
    }
    this.#isRefused = isRefused;
    rotation.failed(node);
    const { backoffMinMs: minMs, backoffMaxMs } = this.#limits;
    const maxMs = isBusy ? Math.min(backoffMaxMs, Math.max(minMs, REFUSED_MAX_MS)) : backoffMaxMs;
    return backoffMs({ minMs, maxMs }, rotation.failures - 1, random);
  }

  /**
   * Some endings are not faults by themselves (a refused start near the tip, data that does not match). They become
   * faults of the call when it keeps withholding the same due height, so that the other call is tried. A refusal for lack
   * of streams counts too: the other call may have free ones.
   */
  #faultOf(
    node: AccessNode,
    { kind }: StreamEnd,
    height: number,
    isFruitless: boolean,
  ): NodeFault | undefined {
    const isSame = this.#fruitless.node === node.name && this.#fruitless.height === height;
    const count = isFruitless ? (isSame ? this.#fruitless.count : 0) + 1 : 0;
    this.#fruitless = { node: node.name, height, count };
    const isDue = height <= (this.#parts.dueHeight() ?? -Infinity);
    return isDue && count >= FRUITLESS_STREAMS && kind !== undefined ? 'failing' : undefined;
  }
}

/** The errors of flow-go, and of another indexer, for heights below the first that the node has. */
const PRUNED = /(?:lower than (?:the )?lowest|below the first) indexed height (\d+)/i;

/** Classifies the error that ended a stream; `undefined` if it is unexpected. */
export function judgeStreamEnd(error: unknown): StreamEnd | undefined {
  if (error instanceof StreamFault) {
    const { reason, message } = error;
    const refused = reason === 'malformed' ? reason : undefined;
    const text = `${reason}: ${message}`;
    return { reason, text, refused, fault: NODE_FAULTS[reason], kind: TROUBLES[reason], said: message };
  }
  if (error instanceof InvalidCollectionError) {
    const { reason, message } = error;
    const said = `${reason}: ${message}`;
    const refusal = { reason: 'invalid', text: said, refused: reason, kind: 'invalid' as const, said };
    if (reason === 'malformed') return { ...refusal, fault: 'lied' };
    const contradicts = reason === 'wrong_block' ? 'block' : 'guarantees';
    return { ...refusal, fault: undefined, contradicts };
  }
  if (error instanceof UpstreamError) {
    const { kind, message, method } = error;
    const refused = kind === 'malformed' || kind === 'too_large' ? kind : undefined;
    // We set no deadline: the node, or a proxy before it, ended the stream.
    const named = Number(PRUNED.exec(message)?.[1] ?? error.lowestHeight);
    return {
      reason: kind,
      text: message,
      refused,
      fault: kind === 'deadline' ? 'failing' : faultOf(kind),
      kind: troubleOf(kind),
      said: message,
      method,
      ...(Number.isSafeInteger(named) ? { prunedBelow: named } : {}),
    };
  }
  return undefined;
}
