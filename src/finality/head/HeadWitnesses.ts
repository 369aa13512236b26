import { isExpectedEnd, StreamReader } from '../../access/index.js';
import type { AccessNode, AccessNodes } from '../../access/index.js';
import { childOf, runTogether, sleep } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import type { ReportedHead } from '../ports.js';

const STREAM = 'SubscribeBlockDigestsFromLatest';

/** Nodes followed beside the one that the head is taken from: one more message per block from each, and no call. */
const MAX_WITNESSES = 2;
/** How often it is checked whom to follow. */
const LOOK_EVERY_MS = 1_000;
/** A node whose stream ended is left alone for this long. */
const REST_MS = 30_000;
/** A stream without a head for this long is opened again. */
const SILENT_MS = 60_000;

export interface HeadWitnessesDependencies {
  readonly nodes: Pick<AccessNodes, 'live'>;
  readonly clock: Clock;
  /** The node that the head is taken from. */
  readonly source: () => string | undefined;
  /** A node reported a head. */
  readonly onHead: (head: ReportedHead) => void;
}

/**
 * Follows the heads of other nodes than the one that the head is taken from. Whichever has a block first says so, and the
 * next confirms it, without a call and without waiting for a slow one. Dispensable: where a node grants few streams these
 * end first, and nothing that goes wrong with them counts against a node.
 */
export class HeadWitnesses {
  readonly #deps: HeadWitnessesDependencies;
  /** The streams open now; each function ends one. */
  readonly #open = new Map<string, () => void>();
  /** Until when nodes are left alone. Bounded by the number of nodes. */
  readonly #restsUntilMs = new Map<string, number>();

  constructor(dependencies: HeadWitnessesDependencies) {
    this.#deps = dependencies;
  }

  /** Resolves when the signal aborts. No expected errors. */
  run(signal: AbortSignal): Promise<void> {
    return runTogether(signal, [(ended) => this.#watch(ended)]);
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const failed = childOf(signal);
    try {
      for (;;) {
        this.#look(failed);
        await sleep(this.#deps.clock, LOOK_EVERY_MS, failed.signal);
      }
    } finally {
      failed.abort();
    }
  }

  #look(scope: AbortController): void {
    const { clock, nodes, source } = this.#deps;
    const main = source();
    if (main === undefined) return;
    this.#open.get(main)?.();
    const nowMs = clock.monotonic();
    const others = nodes
      .live(STREAM)
      .filter((node) => node.name !== main && node.healthOf(STREAM) === 'healthy' && node.supports(STREAM))
      .filter(({ name }) => this.#open.has(name) || nowMs >= (this.#restsUntilMs.get(name) ?? -Infinity));
    for (const node of others) {
      if (this.#open.size >= MAX_WITNESSES) return;
      if (!this.#open.has(node.name)) this.#follow(node, scope).catch((error: unknown) => scope.abort(error));
    }
  }

  async #follow(node: AccessNode, scope: AbortController): Promise<void> {
    const { clock, onHead } = this.#deps;
    const { name } = node;
    const heads = new StreamReader({
      limitMs: SILENT_MS,
      open: (signal) => node.subscribeBlockDigests({ signal, sealed: false, rank: 'history' }),
      signal: scope.signal,
      clock,
    });
    this.#open.set(name, () => heads.cancel());
    try {
      for (;;) {
        const read = await heads.read();
        if (read === 'silent' || read.done === true) return;
        onHead({ height: read.value.height, id: read.value.id, node: name });
      }
    } catch (error) {
      if (!isExpectedEnd(error)) throw error;
    } finally {
      heads.cancel();
      this.#open.delete(name);
      this.#restsUntilMs.set(name, clock.monotonic() + REST_MS);
    }
  }
}
