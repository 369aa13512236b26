import { UpstreamError, type AccessNode } from '../../access/index.js';
import { collectionIdOf, identifierBytes, InvalidCollectionError } from '../../flow/index.js';
import type { Identifier } from '../../flow/index.js';
import { AbortError, abortReason, childOf } from '../../runtime/index.js';
import type { CollectionWay } from '../ports.js';

/** Transactions of one collection requested at once; each takes a slot of the endpoint, the first uses the caller's. */
const MAX_PARALLEL_TRANSACTIONS = 8;

/**
 * How often to retry a transaction that the node's rate limit refused. The limit itself delays calls to the node;
 * restarting all transactions each time would never finish a large collection under a low limit.
 */
const MAX_RATE_LIMITED = 5;

export interface FetchOptions {
  /** The deadline of each call. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** The rate limit refused a transaction, which is requested again. */
  readonly onRefused: (error: UpstreamError) => void;
  /** Takes a further slot of the endpoint if one is free now. Returns its release. */
  readonly tryAcquireSlot: () => (() => void) | undefined;
}

/**
 * One attempt to get a collection's transactions from one node, as wire bytes in order: by `GetFullCollectionByID`, or by
 * the light collection and then each transaction. The caller holds one slot of the endpoint throughout. Verifies only the
 * list of a light collection, first. Expected errors: UpstreamError; InvalidCollectionError; the signal's abort reason.
 */
export async function fetchCollection(
  id: Identifier,
  node: AccessNode,
  way: CollectionWay,
  options: FetchOptions,
): Promise<readonly Uint8Array[]> {
  if (way === 'GetFullCollectionByID') return await node.getFullCollection(id, options);
  const transactionIds = await node.getCollectionTransactionIds(id, options);
  if (collectionIdOf(Buffer.concat(transactionIds.map(identifierBytes))) !== id) {
    throw new InvalidCollectionError('id_mismatch', 'the light collection does not hash to the id asked for');
  }
  return await fetchTransactions(transactionIds, node, options);
}

/** All or nothing: the first failure, rate limits aside, cancels the others, and is thrown once all have returned. */
async function fetchTransactions(
  ids: readonly Identifier[],
  node: AccessNode,
  { onRefused, signal, timeoutMs, tryAcquireSlot }: FetchOptions,
): Promise<readonly Uint8Array[]> {
  const child = childOf(signal);
  const bodies = new Array<Uint8Array>(ids.length);
  const queue = ids.entries();
  let failure: { readonly error: unknown } | undefined;
  /** Repeats a call that the rate limit refused, a few times, unless the node refuses all such calls. */
  const ask = async (id: Identifier): Promise<Uint8Array> => {
    for (let refusals = 0; ; refusals += 1) {
      try {
        return await node.getTransaction(id, { signal: child.signal, timeoutMs });
      } catch (error) {
        const isRefused = error instanceof UpstreamError && error.kind === 'rate_limited';
        const isUnhealthy = node.healthOf('GetTransaction') !== 'healthy';
        if (!isRefused || isUnhealthy || refusals >= MAX_RATE_LIMITED) throw error;
        onRefused(error);
      }
    }
  };
  const work = async (): Promise<void> => {
    for (const [place, id] of queue) {
      if (child.signal.aborted) return;
      try {
        bodies[place] = await ask(id);
      } catch (error) {
        failure ??= { error };
        child.abort(new AbortError('another transaction of the collection failed'));
        return;
      }
    }
  };

  const workers = [work()];
  while (workers.length < Math.min(MAX_PARALLEL_TRANSACTIONS, ids.length)) {
    const release = tryAcquireSlot();
    if (release === undefined) break;
    workers.push(work().finally(release));
  }
  await Promise.all(workers);
  child.abort();
  if (signal.aborted) throw abortReason(signal);
  if (failure !== undefined) throw failure.error;
  return bodies;
}
