import { UpstreamError, worseOf, type AccessNode, type Choice, type NodeHealth } from '../../access/index.js';
import type { CollectionRequesterDependencies } from './CollectionRequester.js';
import { RunningAverage } from '../../runtime/index.js';
import type { EndpointSlots, SlotUse } from './endpointSlots.js';
import type { CollectionWay } from '../ports.js';
import type { WantedCollection } from '../heights/WantedCollection.js';

const FULL = 'GetFullCollectionByID';
const LIGHT = 'GetCollectionByID';

/** After this time without an answer a call is abandoned for another call or node, if there is one. */
const PATIENCE_MS = 4_000;
/** A node that is slow but answers gets this multiple of the slowest of its recent answers. */
const PATIENCE_MULTIPLE = 2;
/** The slowest answer decays by this factor with every answer. */
const SLOWEST_FADES = 0.95;
/** While no node serves a height, how often the pool is checked again. */
const NO_NODE_RETRY_MS = 1_000;
/**
 * A new collection is requested from the nodes that are expected to answer within this much of the quickest. A slower
 * node is asked only once the request has lasted as long as it is slower: the quick ones may have it before.
 */
const QUICK_WITHIN_MS = 30;
/** A shorter delay is ordinary pacing by a rate limit; a longer one is reported. */
const HELD_BACK_MS = 100;

/** Weight of one collection in the average time until a node has them. It starts at 0: the first one decides nothing. */
const ARRIVAL = { weight: 1 / 64, initial: 0 };
/** A collection that was not there in time is assumed to take twice that time plus this. */
const GUESS_MS = 50;
/** A longer time was an outage, or a late request: it says nothing about how long the next collection will take. */
const USUAL_MAX_MS = 2_000;

/** Which node to ask, by which call, and for how long; or how long until one may be asked. */
export type CollectionChoice =
  | { readonly node: AccessNode; readonly way: CollectionWay; readonly timeoutMs: number }
  | Extract<Choice, { node: undefined }>;

type Parts = Pick<CollectionRequesterDependencies, 'nodes' | 'clock'> & { readonly slots: EndpointSlots };

/** One node that was ever asked. */
interface AskedNode {
  /** The ways that failed since they last worked. */
  readonly doubted: Set<CollectionWay>;
  /** Calls for full collections under way. */
  fullCalls: number;
  /** How long after a new block the node has its collections. */
  readonly usualMs: RunningAverage;
}

/**
 * Chooses the node and the call for each collection, and waits until the node is likely to have it. Prefers the full
 * collection; `supports` says when that call is penalized. A way that failed is retried with a single call at a time while
 * the other way works. Bounded by the number of nodes. `longestMs`: the deadline of a call that has no alternative.
 */
export function collectionNodes(longestMs: number, { clock, nodes, slots }: Parts) {
  const asked = new Map<string, AskedNode>();
  let slowestMs = 0;

  const askedNode = (name: string): AskedNode => {
    let node = asked.get(name);
    if (node === undefined) {
      node = { doubted: new Set(), fullCalls: 0, usualMs: new RunningAverage(ARRIVAL) };
      asked.set(name, node);
    }
    return node;
  };
  /** Nodes that support one of the calls; if none does, all of them: they may have been upgraded. */
  const serving = (height: number): readonly AccessNode[] => {
    const all = nodes.forHeight(height, FULL);
    const able = all.filter((node) => waysOf(node).length > 0);
    return able.length > 0 ? able : all;
  };
  /** `deniedBy`: the call by which this node keeps denying the collection. */
  const preferred = (node: AccessNode, deniedBy?: CollectionWay): CollectionWay => {
    if (!node.supports(FULL)) return LIGHT;
    // It failed recently, one such call is testing whether it works again, and the light one works.
    const { doubted, fullCalls = 0 } = asked.get(node.name) ?? {};
    const isBeingTried = fullCalls > 0 && doubted?.has(FULL) === true && !doubted.has(LIGHT);
    if (deniedBy === undefined && !isBeingTried) return FULL;
    return deniedBy !== LIGHT && node.supports(LIGHT) ? LIGHT : FULL;
  };
  const wayTo = (node: AccessNode, wanted: WantedCollection): CollectionWay =>
    preferred(node, wanted.lastingDenial(node.name, clock.monotonic()));
  /** How long until this node usually has the collections of a new block; 0 once it has failed, and while unknown. */
  const untilDueMs = ({ name }: AccessNode, { newSinceMs, failures }: WantedCollection): number => {
    if (newSinceMs === undefined || failures?.has(name) === true) return 0;
    return Math.max(0, newSinceMs + (asked.get(name)?.usualMs.value ?? 0) - clock.monotonic());
  };
  /** The nodes to ask now, and those of worse health, which have their own turns. */
  const quick = (all: readonly AccessNode[], wanted: WantedCollection): readonly AccessNode[] => {
    const { firstAskedAtMs, newSinceMs } = wanted;
    if (newSinceMs === undefined || all.length === 1) return all;
    const nowMs = clock.monotonic();
    const answersInMs = (node: AccessNode): number => (node.latencyMs ?? 0) + untilDueMs(node, wanted);
    const isHealthy = (node: AccessNode): boolean => healthOf(node, wayTo(node, wanted)) === 'healthy';
    const leastMs = Math.min(...all.filter(isHealthy).map(answersInMs));
    const mostMs = leastMs + QUICK_WITHIN_MS + nowMs - (firstAskedAtMs ?? nowMs);
    return all.filter((node) => !isHealthy(node) || answersInMs(node) <= mostMs);
  };
  /**
   * The node lacked the collection at the first of these times after its block was known, and had it at the second:
   * observes the middle. So a node that was asked too late is asked earlier next time.
   */
  const observeArrival = (name: string, lackedMs: number, hadMs: number): void => {
    if (hadMs <= USUAL_MAX_MS) askedNode(name).usualMs.observe((lackedMs + hadMs) / 2);
  };
  const failed = (node: AccessNode, way: CollectionWay): void => void askedNode(node.name).doubted.add(way);

  return {
    failed,
    choose: (height: number, wanted: WantedCollection, use: SlotUse): CollectionChoice => {
      const all = serving(height);
      if (all.length === 0) return { node: undefined, retryInMs: NO_NODE_RETRY_MS };
      const health = (node: AccessNode): NodeHealth => healthOf(node, wayTo(node, wanted));
      const waitMs = (node: AccessNode): number =>
        slots.isFree(node.name, use)
          ? Math.max(delayMs(node, wayTo(node, wanted)), untilDueMs(node, wanted))
          : Infinity;
      const choice = wanted.tries.choose(quick(all, wanted), health, waitMs);
      if (choice.node === undefined) return choice;
      // A call that is not used because it failed for this collection counts as well.
      const triedAt = ({ name }: AccessNode) => wanted.failures?.get(name)?.ways ?? [];
      const ways = all.reduce((sum, node) => sum + new Set([...waysOf(node), ...triedAt(node)]).size, 0);
      const patienceMs = Math.max(PATIENCE_MS, PATIENCE_MULTIPLE * slowestMs);
      const mayOthersAnswer = ways - 1 - wanted.silences > 0;
      const timeoutMs = mayOthersAnswer ? Math.min(longestMs, patienceMs) : longestMs;
      return { node: choice.node, way: wayTo(choice.node, wanted), timeoutMs };
    },
    /** True while some node has not been asked by every call it supports. */
    isUntried: ({ heights: [record], failures }: WantedCollection): boolean =>
      serving(record?.height ?? 0).some((node) => {
        const tried = failures?.get(node.name)?.ways;
        return waysOf(node).some((way) => tried?.has(way) !== true);
      }),
    /** True where the node supports only the other call by now. */
    hasOther: (node: AccessNode, way: CollectionWay): boolean =>
      !node.supports(way) && waysOf(node).length > 0,
    /** Nodes whose rate limit is used up, and until when (monotonic milliseconds). */
    heldBack: (height: number): readonly { readonly node: string; readonly untilMs: number }[] =>
      serving(height).flatMap((node) => {
        const forMs = delayMs(node, preferred(node));
        return forMs < HELD_BACK_MS ? [] : { node: node.name, untilMs: clock.monotonic() + forMs };
      }),
    sent: (node: AccessNode, way: CollectionWay): void => {
      if (way === FULL) askedNode(node.name).fullCalls += 1;
    },
    /** Call it before the slot of the call is released. `error`: why it was not answered. */
    returned: (node: AccessNode, way: CollectionWay, sentAtMs: number, error?: unknown): void => {
      const nowMs = clock.monotonic();
      if (way === FULL) askedNode(node.name).fullCalls -= 1;
      if (error === undefined) slowestMs = Math.max(nowMs - sentAtMs, slowestMs * SLOWEST_FADES);
      const isLate = error instanceof UpstreamError && error.kind === 'deadline';
      if (isLate || error === undefined) slots.returned(node.name, sentAtMs, isLate ? undefined : nowMs);
    },
    /** The node delivered the collection, verified: it had that of a new block when asked, and the others did not. */
    gave: (wanted: WantedCollection, node: AccessNode, way: CollectionWay): void => {
      const { failures, newSinceMs, sentAtMs } = wanted;
      const denial = wanted.lastingDenial(node.name, clock.monotonic());
      if (denial !== undefined && denial !== way) {
        failed(node, denial);
        nodes.report(node, 'failing', `${denial} denies a collection that ${way} gives`, denial);
      }
      asked.get(node.name)?.doubted.delete(way);
      if (newSinceMs === undefined) return;
      observeArrival(node.name, failures?.get(node.name)?.lackedMs ?? 0, sentAtMs - newSinceMs);
      for (const [name, { isDenial, lackedMs }] of failures ?? [])
        if (name !== node.name && isDenial) observeArrival(name, lackedMs, 2 * lackedMs + GUESS_MS);
    },
  };
}

function waysOf(node: AccessNode): CollectionWay[] {
  return ([FULL, LIGHT] as const).filter((way) => node.supports(way));
}

/** A light collection is useless until its transactions arrive. */
function healthOf(node: AccessNode, way: CollectionWay): NodeHealth {
  const health = node.healthOf(way);
  return way === LIGHT ? worseOf(health, node.healthOf('GetTransaction')) : health;
}

/** While transactions are held back, not just paced, nothing that needs them is started. */
function delayMs(node: AccessNode, way: CollectionWay): number {
  const forMs = node.delayMs(way);
  if (way !== LIGHT) return forMs;
  const transactionsMs = node.delayMs('GetTransaction');
  return transactionsMs < HELD_BACK_MS ? forMs : Math.max(forMs, transactionsMs);
}
