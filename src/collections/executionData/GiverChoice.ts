import type { AccessNode, NodeReadiness, NodeRotation } from '../../access/index.js';
import type { Logger } from '../../observability/index.js';
import { doublingMs, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { methodOf } from './BodyStream.js';
import type { BodyStream, StreamGivers } from './BodyStream.js';
import type { ExecutionDataTroubles } from './ExecutionDataTroubles.js';
import type { StreamState } from './StreamState.js';

/** While no node serves the height or offers execution data: when the pool is checked again. At a start, nodes come one by one. */
const NO_NODE_RETRY = { minMs: 25, maxMs: 1_000 };

export interface GiverChoiceDependencies {
  readonly nodes: StreamGivers;
  readonly rotation: NodeRotation;
  readonly troubles: ExecutionDataTroubles;
  readonly state: StreamState;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Chooses the node or peer whose stream to follow next. */
export class GiverChoice {
  readonly #stream: BodyStream;
  readonly #deps: GiverChoiceDependencies;
  /** Streams need neither a slot nor a rate-limit token: there is only one at a time. */
  readonly #ready: NodeReadiness;
  /** How often in a row no node could be asked. */
  #noneInARow = 0;

  constructor({ stream }: { readonly stream: BodyStream }, dependencies: GiverChoiceDependencies) {
    this.#stream = stream;
    this.#deps = dependencies;
    this.#ready = {
      isFree: () => true,
      delayMs: () => 0,
      healthOf: (node) => node.healthOf(methodOf(stream, node)),
    };
  }

  /** `undefined` after a pause when no node could be asked. Expected errors: the signal's abort reason. */
  async choose(height: number, signal: AbortSignal): Promise<AccessNode | undefined> {
    const { clock, logger, nodes, rotation, state, troubles } = this.#deps;
    const { givers, whyNone, words } = this.#stream;
    const nowMs = clock.monotonic();
    const all = givers(nodes, height);
    const offering = all.filter((node) => troubles.lacksUntilMs(node, height) <= nowMs);
    const choice = rotation.choose(offering, this.#ready);
    if (choice.node !== undefined) {
      this.#noneInARow = 0;
      return choice.node;
    }
    const retryMs = doublingMs(NO_NODE_RETRY, this.#noneInARow++);
    state.node = undefined;
    if (all.length === 0) {
      const why = whyNone?.(nodes);
      state.lastError = why ?? `no ${words.giver} serves the next height`;
      troubles.noNode(why);
      await sleep(clock, retryMs, signal);
      return undefined;
    }
    if (state.now !== 'unavailable') logger.info({ height }, `no ${words.giver} offers ${words.data}`);
    state.enter('unavailable');
    // Another node may become available before one of these may be asked again.
    const untilMs = all.map((node) => troubles.lacksUntilMs(node, height));
    const askAgainInMs = Math.min(...untilMs) - nowMs;
    await sleep(clock, Math.min(askAgainInMs, retryMs), signal);
    return undefined;
  }
}
