import { reportFailure, UpstreamError } from '../../access/index.js';
import type { AccessNodes, NodeTroubles } from '../../access/index.js';
import { sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { ReportedHead } from '../ports.js';

export const HEAD_CALL = 'GetLatestBlockHeader';

/** The polled height is no longer believed after this many consecutive sources that never reached it. */
const MAX_MISSES = 2;

/** How often some node is polled for its head while a stream is followed; also the deadline of that call. */
const FRESHNESS_POLL_MS = 2_000;

export interface HeadPollOptions {
  readonly stream: 'finalized' | 'sealed';
}

export interface HeadPollDependencies {
  readonly nodes: AccessNodes;
  readonly clock: Clock;
  /** What went wrong with the polls since a node last reported the head. */
  readonly troubles: NodeTroubles;
  /** A node reported the head. */
  readonly onAnswer: () => void;
  readonly onHead: (head: ReportedHead) => void;
}

/** Asks the nodes in turn, slowly, for their head, and knows the highest reported one. */
export class HeadPoll {
  readonly #options: HeadPollOptions;
  readonly #deps: HeadPollDependencies;
  #height = -1;
  #misses = 0;
  #polls = 0;

  constructor(options: HeadPollOptions, dependencies: HeadPollDependencies) {
    this.#options = options;
    this.#deps = dependencies;
  }

  /** The highest reported height; -1: none is believed. */
  get height(): number {
    return this.#height;
  }

  /** A source was abandoned before it reached the height. */
  missed(): void {
    this.#misses += 1;
    if (this.#misses >= MAX_MISSES) this.#believe(-1);
  }

  /** Expected errors: the signal's abort reason. */
  async run(signal: AbortSignal): Promise<void> {
    const { nodes, clock, troubles } = this.#deps;
    for (;;) {
      await sleep(clock, FRESHNESS_POLL_MS, signal);
      const live = nodes.live(HEAD_CALL);
      const healthy = live.filter((candidate) => candidate.healthOf(HEAD_CALL) === 'healthy');
      const asked = healthy.length > 0 ? healthy : live;
      const node = asked[this.#polls++ % asked.length];
      if (node === undefined) continue;
      troubles.asked(node.name, HEAD_CALL);
      try {
        const { height, id } = await node.getLatestBlockHeader(this.#options.stream === 'sealed', {
          signal,
          timeoutMs: FRESHNESS_POLL_MS,
        });
        this.#deps.onAnswer();
        if (node.healthOf(HEAD_CALL) !== 'healthy') nodes.succeeded(node, HEAD_CALL);
        if (height > this.#height) this.#believe(height);
        this.#deps.onHead({ height, id, node: node.name });
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        troubles.failed(error);
        reportFailure(nodes, node, error);
      }
    }
  }

  #believe(height: number): void {
    this.#height = height;
    this.#misses = 0;
  }
}
