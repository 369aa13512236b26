import { isExpectedEnd, StreamReader } from '../../access/index.js';
import type { AccessNode, AccessNodes } from '../../access/index.js';
import { asError, childOf, runTogether, sleep } from '../../runtime/index.js';
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

/**
 * Follows the heads of other nodes than the one that the head is taken from. Whichever has a block first says so, and the
 * next confirms it, without a call and without waiting for a slow one. Dispensable: where a node grants few streams these
 * end first, and nothing that goes wrong with them counts against a node. Resolves when the signal aborts. No expected
 * errors.
 */
export function followWitnesses(
  {
    nodes,
    clock,
    source,
    onHead,
  }: {
    /** At the rank of history. */
    readonly nodes: Pick<AccessNodes, 'live'>;
    readonly clock: Clock;
    /** The node that the head is taken from. */
    readonly source: () => string | undefined;
    /** A node reported a head. */
    readonly onHead: (head: ReportedHead) => void;
  },
  signal: AbortSignal,
): Promise<void> {
  /** The streams open now; each function ends one. */
  const open = new Map<string, () => void>();
  /** Until when nodes are left alone. Bounded by the number of nodes. */
  const restsUntilMs = new Map<string, number>();

  const follow = async (node: AccessNode, ended: AbortSignal): Promise<void> => {
    const { name } = node;
    const heads = new StreamReader({
      limitMs: SILENT_MS,
      open: (over) => node.subscribeBlockDigests({ signal: over, sealed: false }),
      signal: ended,
      clock,
    });
    open.set(name, () => heads.cancel());
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
      open.delete(name);
      restsUntilMs.set(name, clock.monotonic() + REST_MS);
    }
  };

  const look = (main: string): readonly AccessNode[] => {
    open.get(main)?.();
    const nowMs = clock.monotonic();
    return nodes
      .live(STREAM)
      .filter((node) => node.name !== main && node.healthOf(STREAM) === 'healthy' && node.supports(STREAM))
      .filter(({ name }) => !open.has(name) && nowMs >= (restsUntilMs.get(name) ?? -Infinity));
  };

  const watch = async (ended: AbortSignal): Promise<void> => {
    const scope = childOf(ended);
    try {
      for (;;) {
        const main = source();
        for (const node of main === undefined ? [] : look(main))
          if (open.size < MAX_WITNESSES)
            follow(node, scope.signal).catch((error: unknown) => scope.abort(asError(error)));
        await sleep(clock, LOOK_EVERY_MS, scope.signal);
      }
    } finally {
      scope.abort();
    }
  };
  return runTogether(signal, [watch]);
}
