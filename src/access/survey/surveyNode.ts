import { decodeBlockMessage, decodeProvableBlock } from '../../flow/index.js';
import type { BlockExecutionData, FinalizedBlock } from '../../flow/index.js';
import { createMetrics } from '../../observability/index.js';
import { isAbort, programVersion } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { GrpcAccessNode } from '../node/GrpcAccessNode.js';
import { NodeHealthRecord } from '../selection/NodeHealthRecord.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { CallCredentials } from '../transport/ports.js';
import type { AccessMethod, BlockHeader, NodeVersionInfo } from '../types.js';
import { UpstreamError } from '../UpstreamError.js';
import type { UpstreamErrorKind } from '../UpstreamError.js';
import { isIP } from 'node:net';
import { connect } from 'node:tls';

/** Blocks from the head down that are searched for one with a collection. */
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
export interface NodeSurvey {
  readonly endpoint: Endpoint;
  readonly isAnswering: boolean;
  /** `tls` for a node that does not answer because it speaks TLS and was asked without. */
  readonly speaks: 'tls' | undefined;
  readonly chainId: string | undefined;
  readonly version: NodeVersionInfo | undefined;
  readonly head: BlockHeader | undefined;
  /** The time of the call for the head, by our clock: its middle. */
  readonly headAskedAtMs: number | undefined;
  readonly sealedHeight: number | undefined;
  readonly calls: readonly CallSurvey[];
  /** The median of the calls' times; `undefined` when none was served. */
  readonly latencyMs: number | undefined;
}

interface Options {
  readonly endpoint: Endpoint;
  readonly maxMessageBytes: number;
  /** Limit of each call, and of the wait for a stream's first message. */
  readonly timeoutMs: number;
  readonly asksExecutionData: boolean;
  /**
   * Present for another indexer, which is asked for its blocks from this height on. `mirrored`: instead of nodes, so for
   * everything that these are asked for, and for blocks with their proofs.
   */
  readonly peer?: { readonly fromHeight: number } | 'mirrored';
  readonly credentials: CallCredentials;
}

/**
 * Makes, once, every call to one node that the daemon makes. Takes a few times `timeoutMs` at most. No expected errors:
 * failures are part of the answer.
 */
export async function surveyNode(
  options: Options,
  dependencies: { readonly clock: Clock },
): Promise<NodeSurvey> {
  const { credentials, endpoint, maxMessageBytes, timeoutMs } = options;
  const { clock } = dependencies;
  const isMirrored = options.peer === 'mirrored';
  const node = new GrpcAccessNode(
    {
      endpoint,
      maxMessageBytes,
      timeoutMs,
      ratePerSecond: 0,
      userAgent: `flow-collection-indexer/${programVersion()} doctor`,
    },
    {
      clock,
      credentials,
      isProvable: isMirrored,
      proveBlock: isMirrored
        ? (message) => decodeBlockMessage(decodeProvableBlock(message).block)
        : undefined,
      healthRecord: new NodeHealthRecord({ clock }),
      metrics: createMetrics({ version: programVersion(), node: process.version }),
    },
  );
  try {
    return await new Survey(node, options, clock).run();
  } finally {
    node.close();
  }
}

class Survey {
  readonly #node: GrpcAccessNode;
  readonly #options: Options;
  readonly #clock: Clock;
  readonly #calls: CallSurvey[] = [];

  constructor(node: GrpcAccessNode, options: Options, clock: Clock) {
    this.#node = node;
    this.#options = options;
    this.#clock = clock;
  }

  async run(): Promise<NodeSurvey> {
    const node = this.#node;
    const { endpoint, peer } = this.#options;
    const parameters = await this.#ask('GetNetworkParameters', () => node.getNetworkParameters());
    const isReached = parameters !== undefined || !this.#isUnreachable();
    const asksNode = isReached && (peer === undefined || peer === 'mirrored');
    const version = asksNode
      ? await this.#ask('GetNodeVersionInfo', () => node.getNodeVersionInfo())
      : undefined;
    const beganAtMs = this.#clock.now();
    const head = asksNode
      ? await this.#ask('GetLatestBlockHeader', () => node.getLatestBlockHeader(false))
      : undefined;
    const headAskedAtMs = (beganAtMs + this.#clock.now()) / 2;
    const sealed = head && (await this.#ask('GetLatestBlockHeader', () => node.getLatestBlockHeader(true)));
    // An index has no header of a block without a proof.
    const at = head?.height ?? (peer === 'mirrored' ? version?.nodeRootHeight : undefined);
    if (at !== undefined) await this.#askData(at, sealed?.height ?? at);
    const from = peer === 'mirrored' ? at : peer?.fromHeight;
    if (isReached && from !== undefined) {
      await this.#open('SubscribeIndexedBlocks', (signal) => node.subscribeIndexedBlocks(from, { signal }));
    }
    return {
      endpoint,
      isAnswering: isReached,
      version,
      head,
      calls: this.#calls,
      speaks: isReached ? undefined : await this.#spokenInstead(),
      chainId: parameters?.chainId ?? (head?.chainId === '' ? undefined : head?.chainId),
      headAskedAtMs: head && headAskedAtMs,
      sealedHeight: sealed?.height,
      latencyMs: this.#latencyMs(),
    };
  }

  /** Blocks, collections and streams. */
  async #askData(head: number, sealed: number): Promise<void> {
    const node = this.#node;
    const block = await this.#blockWithCollections(head);
    const [id] = block?.collectionIds ?? [];
    if (id !== undefined) {
      await this.#ask('GetFullCollectionByID', () => node.getFullCollection(id));
      const transactions = await this.#ask('GetCollectionByID', () => node.getCollectionTransactionIds(id));
      const [transaction] = transactions ?? [];
      if (transaction !== undefined)
        await this.#ask('GetTransaction', () => node.getTransaction(transaction));
    }
    const feed = (signal: AbortSignal): AsyncIterable<BlockExecutionData> =>
      node.subscribeExecutionData(sealed, { signal });
    await Promise.all([
      this.#open('SubscribeBlockDigestsFromLatest', (signal) =>
        node.subscribeBlockDigests({ signal, sealed: false }),
      ),
      this.#open('SubscribeBlocksFromStartHeight', (signal) => node.subscribeBlocks(head, { signal })),
      ...(this.#options.asksExecutionData
        ? [this.#open('SubscribeExecutionDataFromStartBlockHeight', feed)]
        : []),
    ]);
  }

  async #blockWithCollections(head: number): Promise<FinalizedBlock | undefined> {
    const lowest = Math.max(0, head - BLOCKS_LOOKED_AT + 1);
    for (let height = head; height >= lowest; height -= 1) {
      const received = await this.#ask('GetBlockByHeight', () => this.#node.getBlockByHeight(height));
      if (received === undefined || received.block.collectionIds.length > 0) return received?.block;
    }
    return undefined;
  }

  async #ask<T>(method: AccessMethod, ask: () => Promise<T>): Promise<T | undefined> {
    const beganAtMs = this.#clock.monotonic();
    try {
      const answer = await ask();
      this.#note(method, 'served', undefined, beganAtMs);
      return answer;
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      this.#note(method, error.kind, error.message, beganAtMs);
      return undefined;
    }
  }

  /** Waits for the first message of a stream. */
  async #open(method: AccessMethod, open: (signal: AbortSignal) => AsyncIterable<unknown>): Promise<void> {
    const limit = new AbortController();
    const timer = this.#clock.setTimer(this.#options.timeoutMs, () => limit.abort());
    const beganAtMs = this.#clock.monotonic();
    try {
      let outcome: CallSurvey['outcome'] = 'quiet';
      for await (const _message of open(limit.signal)) {
        outcome = 'served';
        break;
      }
      this.#note(method, outcome, outcome === 'quiet' ? 'the node ended the stream' : undefined, beganAtMs);
    } catch (error) {
      if (error instanceof UpstreamError) this.#note(method, error.kind, error.message, beganAtMs);
      else if (limit.signal.aborted || isAbort(error))
        this.#note(method, 'quiet', 'it sent nothing in time', beganAtMs);
      else throw error;
    } finally {
      timer.cancel();
      limit.abort();
    }
  }

  #note(
    method: AccessMethod,
    outcome: CallSurvey['outcome'],
    said: string | undefined,
    beganAtMs: number,
  ): void {
    this.#calls.push({ method, outcome, said, tookMs: this.#clock.monotonic() - beganAtMs });
  }

  /** True while the node has sent neither an answer nor a refusal. */
  #isUnreachable(): boolean {
    return this.#calls.every(({ outcome }) => outcome === 'unavailable' || outcome === 'deadline');
  }

  async #spokenInstead(): Promise<'tls' | undefined> {
    const { endpoint, timeoutMs } = this.#options;
    if (endpoint.tls) return undefined;
    return (await probeTls(endpoint, { timeoutMs, clock: this.#clock })) ? 'tls' : undefined;
  }

  #latencyMs(): number | undefined {
    const times = this.#calls
      .filter(({ method, outcome }) => outcome === 'served' && method.startsWith('Get'))
      .map(({ tookMs }) => tookMs)
      .sort((left, right) => left - right);
    return times[Math.floor(times.length / 2)];
  }
}

/** True when something at this address speaks TLS, whatever its certificate; false when nothing answers in time. */
function probeTls(
  { host, port }: Endpoint,
  { timeoutMs, clock }: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<boolean> {
  return new Promise((resolve) => {
    const names = isIP(host) === 0 ? { servername: host } : {};
    // Only the protocol matters here: nothing is sent, and the connection ends at once.
    const socket = connect({ host, port, ALPNProtocols: ['h2'], rejectUnauthorized: false, ...names });
    const settle = (speaks: boolean): void => {
      timer.cancel();
      socket.destroy();
      resolve(speaks);
    };
    const timer = clock.setTimer(timeoutMs, () => settle(false));
    socket.once('secureConnect', () => settle(true)).once('error', () => settle(false));
  });
}
