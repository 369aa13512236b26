import { decodeBlockMessage, decodeProvableBlock, type FinalizedBlock } from '../../flow/index.js';
import { createMetrics } from '../../observability/index.js';
import { programVersion, type Clock } from '../../runtime/index.js';
import { grpcAccessNode } from '../node/grpcAccessNode.js';
import { askIdentity } from '../pool/identity/askIdentity.js';
import { foreignness, wordsOf, type Expectation } from '../pool/identity/nodeIdentity.js';
import { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import type { CallCredentials } from '../transport/ports.js';
import type { RpcClientOptions } from '../transport/rpcClient.js';
import { readStream, type StreamRead } from '../transport/streams/readStream.js';
import type { AccessMethod, AccessNode } from '../types.js';
import { outcomeOf, UpstreamError, type UpstreamErrorKind } from '../UpstreamError.js';

/** Limit of each call, and of the wait for a stream's first message. */
const LIMIT_MS = 4_000;
/** Blocks searched, from the head down, for one with a collection. */
const BLOCKS_LOOKED_AT = 8;

/** The result of one call. */
export interface CallSurvey {
  readonly method: AccessMethod;
  /** `quiet`: a stream that opened and sent nothing in time. */
  readonly outcome: 'served' | 'quiet' | UpstreamErrorKind;
  /** The error message of the call; `undefined` when it was served. */
  readonly said: string | undefined;
  readonly tookMs: number;
}

/** What one access node says about itself, and what it serves. */
export type NodeSurvey = Readonly<Awaited<ReturnType<typeof surveyNode>>>;

interface Options extends Pick<RpcClientOptions, 'endpoint' | 'maxMessageBytes'> {
  readonly expectation: Expectation;
  readonly asksExecutionData: boolean;
  /** Whether to request blocks in full form, which proofs need. */
  readonly asksFullBlocks: boolean;
  /**
   * Present for another indexer, whose blocks are requested from this height on. `mirrored`: it replaces the nodes, so
   * it is asked for everything that they would be, and for blocks with their proofs.
   */
  readonly peer?: { readonly fromHeight: number } | 'mirrored';
  readonly credentials: CallCredentials;
}

/**
 * Makes, once, every call to one node that the daemon makes. Takes a few times `LIMIT_MS` at most. No expected errors:
 * failures are part of the answer.
 */
export async function surveyNode(options: Options, dependencies: { readonly clock: Clock }) {
  const { credentials, endpoint, expectation, maxMessageBytes, peer } = options;
  const { clock } = dependencies;
  const isMirrored = peer === 'mirrored';
  const userAgent = `flow-collection-indexer/${programVersion} doctor`;
  const node = grpcAccessNode(
    { endpoint, maxMessageBytes, timeoutMs: LIMIT_MS, ratePerSecond: 0, userAgent },
    {
      clock,
      credentials,
      isProvable: isMirrored,
      proveBlock: isMirrored
        ? (message) => decodeBlockMessage(decodeProvableBlock(message).block)
        : options.asksFullBlocks
          ? decodeBlockMessage
          : undefined,
      healthRecord: new NodeHealthRecord({ clock }),
      metrics: createMetrics({ version: programVersion, node: process.version }),
    },
  );
  const calls: CallSurvey[] = [];
  const { signal } = new AbortController();
  /** `quiet`: the message for an answer without content. */
  const ask = async <T>(
    method: AccessMethod,
    answer: () => Promise<T>,
    quiet: (given: T) => string | undefined = () => undefined,
  ): Promise<T | undefined> => {
    const beganAtMs = clock.monotonic();
    const given = await outcomeOf(answer());
    const isError = given instanceof UpstreamError;
    const said = isError ? given.message : quiet(given);
    const outcome = isError ? given.kind : said === undefined ? 'served' : 'quiet';
    calls.push({ method, outcome, said, tookMs: clock.monotonic() - beganAtMs });
    return isError ? undefined : given;
  };
  /** Waits for the first message of a stream. */
  const follow = async (
    method: AccessMethod,
    open: (signal: AbortSignal) => AsyncIterable<unknown>,
  ): Promise<void> => {
    const messages = readStream({ open, signal, clock, limitMs: LIMIT_MS });
    const quiet = (read: StreamRead<unknown>): string | undefined => {
      if (read === 'silent') return 'it sent nothing in time';
      return read.done === true ? 'the node ended the stream' : undefined;
    };
    await ask(method, () => messages.read(), quiet).finally(() => messages.cancel());
  };
  const blockWithCollections = async (head: number): Promise<FinalizedBlock | undefined> => {
    for (let height = head; height > head - BLOCKS_LOOKED_AT && height >= 0; height -= 1) {
      const received = await ask('GetBlockByHeight', () => node.getBlockByHeight(height));
      if (received === undefined || received.block.collectionIds.length > 0) return received?.block;
    }
    return undefined;
  };
  /** Blocks, collections and streams. */
  const askData = async (head: number, sealed: number): Promise<void> => {
    const [id] = (await blockWithCollections(head))?.collectionIds ?? [];
    if (id !== undefined) {
      await ask('GetFullCollectionByID', () => node.getFullCollection(id));
      const transactions = await ask('GetCollectionByID', () => node.getCollectionTransactionIds(id));
      const [transaction] = transactions ?? [];
      if (transaction !== undefined) await ask('GetTransaction', () => node.getTransaction(transaction));
    }
    await Promise.all([
      follow('SubscribeBlockDigestsFromLatest', (signal) =>
        node.subscribeBlockDigests({ signal, sealed: false }),
      ),
      follow('SubscribeBlocksFromStartHeight', (signal) => node.subscribeBlocks(head, { signal })),
      options.asksExecutionData &&
        follow('SubscribeExecutionDataFromStartBlockHeight', (signal) =>
          executionDataOf(node, sealed, signal),
        ),
    ]);
  };

  try {
    const isIndexer = peer !== undefined;
    const handshake = { clock, timeoutMs: LIMIT_MS, isForeign: false, isIndexer };
    const identity = await ask('GetNetworkParameters', () =>
      askIdentity(node, expectation, signal, handshake),
    );
    const foreign = identity && foreignness(identity, expectation, { confirmed: false, hasSporks: true });
    // It sent an answer, or a refusal.
    const isReached = calls.some(({ outcome }) => outcome !== 'unavailable' && outcome !== 'deadline');
    const asksNode = isReached && (!isIndexer || isMirrored);
    const beganAtMs = clock.now();
    const head = asksNode
      ? await ask('GetLatestBlockHeader', () => node.getLatestBlockHeader(false))
      : undefined;
    const headAskedAtMs = (beganAtMs + clock.now()) / 2;
    const sealed = head && (await ask('GetLatestBlockHeader', () => node.getLatestBlockHeader(true)));
    // An index has no header of a block without a proof.
    const at = head?.height ?? (isMirrored ? identity?.lowestHeight : undefined);
    if (at !== undefined) await askData(at, sealed?.height ?? at);
    const from = peer === 'mirrored' ? at : peer?.fromHeight;
    if (isReached && from !== undefined)
      await follow('SubscribeIndexedBlocks', (signal) => node.subscribeIndexedBlocks(from, { signal }));
    const times = calls
      .filter(({ method, outcome }) => outcome === 'served' && method.startsWith('Get'))
      .map(({ tookMs }) => tookMs)
      .sort((left, right) => left - right);
    return {
      endpoint,
      isAnswering: isReached,
      identity,
      head,
      calls,
      /** How it differs from what is expected, in words that follow its name. */
      foreign: foreign && wordsOf(foreign, expectation),
      /** When the head was requested, by our clock: the middle of the call. */
      headAskedAtMs: head && headAskedAtMs,
      sealedHeight: sealed?.height,
      /** The median of the calls' times; `undefined` when none was served. */
      latencyMs: times[Math.floor(times.length / 2)],
    };
  } finally {
    node.client.close();
  }
}

/** Falls back to the deprecated call where the node does not support the current one. */
async function* executionDataOf(
  node: AccessNode,
  height: number,
  signal: AbortSignal,
): AsyncGenerator<unknown, void> {
  try {
    yield* node.subscribeExecutionData(height, { signal });
  } catch (error) {
    if (!(error instanceof UpstreamError) || error.kind !== 'unimplemented') throw error;
    yield* node.subscribeExecutionData(height, { signal });
  }
}
