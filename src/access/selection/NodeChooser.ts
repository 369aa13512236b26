import { edgeLog, type EdgeLog, type Logger } from '../../observability/index.js';
import type { Clock, Random } from '../../runtime/index.js';
import type { AccessMethod, AccessNode, AccessNodes, NodeFault } from '../types.js';
import type { StreamMethod, UnaryMethod } from '../types.js';
import type { UpstreamError } from '../UpstreamError.js';
import { Attempts } from './Attempts.js';
import { CallHealth } from './NodeHealthRecord.js';
import { NodeTroubles, troubleOf, type TroubleKind } from './NodeTroubles.js';

/** A stream whose next message is overdue for this long is opened again. */
const STREAM_SILENT_MS = 5_000;
/** Deadline of the small calls that everything waits for, so that another node or call is tried soon. */
const PATIENCE_MS = 4_000;
/** The deadline when no node answered in that time: the nodes may be slow. */
const LONG_PATIENCE_MS = 8_000;
/** Consecutive silences before nodes get more time. */
const SILENCES_BEFORE_PATIENCE = 2;

/** A node to ask, and by which call. */
export interface Way {
  readonly node: AccessNode;
  readonly method: AccessMethod;
}

interface Parts {
  /** What is read, for the log. */
  readonly streamName: string;
  readonly stream: StreamMethod;
  /** The unary call with the same information. */
  readonly call: UnaryMethod;
  /** The pause between two unsuccessful attempts. */
  readonly pauses: { readonly minMs: number; readonly maxMs: number };
  /** Where it is reported whether calls work. */
  readonly nodes: Pick<AccessNodes, 'report' | 'succeeded'>;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
}

/**
 * For data that is read endlessly: chooses the next node, and which of two equivalent calls to use there, sets the pause
 * between attempts, and keeps the one record of what went wrong since data last arrived. Of nodes of the same health it
 * prefers those that stream; the order is otherwise that of `Attempts`. After two failed streams in a row, at any nodes,
 * single calls are used for a while; when a single call fails then, streams are tried again.
 */
export class NodeChooser {
  /** What went wrong since the caller last cleared it, because data arrived. */
  readonly troubles: NodeTroubles;
  readonly #parts: Parts;
  readonly #attempts = new Attempts();
  /** The stream's health at all nodes together. */
  readonly #streams: CallHealth;
  /** Nodes for which only single calls are used, and until when. */
  readonly #callsUntilMs = new Map<string, number>();
  /** How many nodes there were to choose from. */
  #candidates = 1;
  /** Consecutive times that nothing arrived in time. */
  #silences = 0;
  /** The last failed stream since one worked, for the log. */
  #failedStream: object | undefined;
  readonly #edge: EdgeLog;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#streams = new CallHealth(parts);
    this.#edge = edgeLog(parts);
    this.troubles = new NodeTroubles(parts);
  }

  isStream({ method }: Way): boolean {
    return method === this.#parts.stream;
  }

  /** True while this node should be asked by stream. */
  mayStream(node: AccessNode): boolean {
    if (this.#streams.state === 'set_aside' || !node.supports(this.#parts.stream)) return false;
    return this.#parts.clock.monotonic() >= (this.#callsUntilMs.get(node.name) ?? -Infinity);
  }

  /** `undefined` when there are no nodes. `mayStream`: which of them may be asked by stream. */
  choose(
    bestFirst: readonly AccessNode[],
    mayStream = (node: AccessNode): boolean => this.mayStream(node),
  ): Way | undefined {
    const { stream, call } = this.#parts;
    const streaming = new Set(bestFirst.filter((node) => mayStream(node)));
    const methodAt = (node: AccessNode): AccessMethod => (streaming.has(node) ? stream : call);
    this.#candidates = Math.max(1, bestFirst.length);
    const streamsFirst = [...new Set([...streaming, ...bestFirst])];
    const { node } = this.#attempts.choose(streamsFirst, (each) => each.healthOf(methodAt(each)));
    if (node === undefined) {
      this.#attempts.failed();
      return undefined;
    }
    const method = methodAt(node);
    if (method === call && this.#failedStream !== undefined)
      this.#edge.lost(this.#failedStream, 'streams fail, using single calls instead');
    return { node, method };
  }

  /** The pause before the next attempt. */
  pauseMs(): number {
    const { pauses, random } = this.#parts;
    return this.#attempts.pauseMs(pauses, random, this.#candidates);
  }

  /** How long to wait for the next message of a stream, or the answer to a call: longer where nodes may be slow. */
  patienceMs(of: 'stream' | 'call'): number {
    const shortMs = of === 'stream' ? STREAM_SILENT_MS : PATIENCE_MS;
    return this.#silences < SILENCES_BEFORE_PATIENCE ? shortMs : LONG_PATIENCE_MS;
  }

  /** The node is asked after the others; this does not count against its call. */
  avoid({ node }: Way): void {
    this.#attempts.failed(node);
  }

  /** Like `avoid`, but without lengthening the pause: the requested data will be there in a moment. */
  skip({ node }: Way): void {
    this.#attempts.declined(node);
  }

  /** The node has no free stream, or a slow one: uses single calls there for this long. */
  callInstead(node: string, durationMs: number): void {
    this.#callsUntilMs.set(node, this.#parts.clock.monotonic() + durationMs);
  }

  /**
   * The call failed with an error of the node. `fault`: what counts against the call; `undefined`: nothing, and the node is
   * only asked after the others.
   */
  erred(way: Way, error: UpstreamError, fault: NodeFault | undefined): void {
    // A node too old for the stream is asked by single calls: that holds nothing up.
    if (error.kind === 'unimplemented' && this.isStream(way)) this.avoid(way);
    else this.blame(way, troubleOf(error.kind), fault, error.message);
  }

  /** Nothing arrived, or too little: records this as the cause of the delay, and counts it like `erred`. */
  blame(way: Way, kind: TroubleKind, fault: NodeFault | undefined, said: string): void {
    this.troubles.note(way.node.name, way.method, kind, said);
    if (fault === 'stale') this.#silences += 1;
    if (fault === undefined) {
      this.avoid(way);
      return;
    }
    this.failed(way, said);
    this.#parts.nodes.report(way.node, fault, said, way.method);
  }

  /** The call failed and delivered nothing. */
  failed(way: Way, said: string): void {
    this.avoid(way);
    if (!this.isStream(way)) {
      this.#streams.endPenalty();
      return;
    }
    this.#failedStream = { stream: this.#parts.streamName, node: way.node.name, reason: said };
    this.#streams.report('failing', said);
  }

  /** Something arrived, new or not. */
  answered(): void {
    this.#silences = 0;
  }

  /** Something new arrived: nodes that failed before may be asked again. */
  progressed(): void {
    this.answered();
    this.#attempts.succeeded();
  }

  /** The call works at this node. */
  works(way: Way): void {
    const { node, method } = way;
    this.#parts.nodes.succeeded(node, method);
    if (!this.isStream(way)) return;
    this.#streams.succeeded();
    this.#failedStream = undefined;
    this.#edge.back({ stream: this.#parts.streamName, node: node.name }, 'a stream works again');
  }
}
