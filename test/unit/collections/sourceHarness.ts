import { onTestFinished } from 'vitest';
import { UpstreamError } from '../../../src/access/index.js';
import type { AccessMethod, AccessNode, NodeFault, NodeHealth } from '../../../src/access/index.js';
import type { StreamOptions, UpstreamErrorKind } from '../../../src/access/index.js';
import { inOrderOfAsking, NodeHealthRecord } from '../../../src/access/selection/NodeHealthRecord.js';
import type { CallOptions, UnaryMethod } from '../../../src/access/types.js';
import { CollectionRequester, MissingCollectionQueue } from '../../../src/collections/index.js';
import type { CollectionRequesterDependencies } from '../../../src/collections/requester/CollectionRequester.js';
import type { CollectionRequesterOptions } from '../../../src/collections/requester/CollectionRequester.js';
import type { HeightRecord } from '../../../src/collections/heights/HeightRecord.js';
import type { WantedCollection } from '../../../src/collections/heights/WantedCollection.js';
import type { CollectionSink, ReceivedCollection } from '../../../src/collections/ports.js';
import { ZERO_ID } from '../../../src/flow/index.js';
import type { BlockExecutionData, FinalizedBlock, Identifier } from '../../../src/flow/index.js';
import { createMetrics } from '../../../src/observability/index.js';
import { abortReason, unlessAborted, type Clock } from '../../../src/runtime/index.js';
import { NodeInMemory, NodesInMemory, RecordingLogger } from '../../support/index.js';
import { makeBlock as storedBlock, seededCollection, transactionIdsOf } from '../../support/index.js';
import { transactionsOf, VirtualClock, windowOf } from '../../support/index.js';

export interface MadeCollection {
  readonly id: Identifier;
  readonly transactions: readonly Uint8Array[];
  readonly transactionIds: readonly Identifier[];
}

export function makeCollection(name: string, transactionCount = 2): MadeCollection {
  const made = seededCollection(name, transactionCount);
  return { id: made.id, transactions: transactionsOf(made), transactionIds: transactionIdsOf(made) };
}

export interface MadeBlock {
  readonly block: FinalizedBlock;
  /** Its true execution data, system chunk included. */
  readonly data: BlockExecutionData;
}

const SYSTEM_CHUNK = seededCollection('system chunk', 1);

export function makeBlock(height: number, collectionCount: number): MadeBlock {
  const collections = Array.from({ length: collectionCount }, (_, place) =>
    seededCollection(`collection ${place} of ${height}`, 2),
  );
  const { block } = storedBlock(height, ZERO_ID, collections);
  const chunks = [...collections, SYSTEM_CHUNK].map(transactionsOf);
  return { block, data: { height, blockId: block.id, chunks, byteLength: 1_000 } };
}

/** One unary call as the node sees it, pending until the test settles it or the caller aborts it. */
export interface FakeCall {
  readonly node: string;
  readonly method: UnaryMethod;
  readonly id: Identifier;
  readonly atMs: number;
  readonly timeoutMs: number | undefined;
  readonly isAborted: boolean;
  readonly isSettled: boolean;
  answer(value: unknown): void;
  fail(error: UpstreamErrorKind | Error): void;
}

type Sent = BlockExecutionData | Error | 'end';

/** One execution-data stream as the node sees it. */
export class FakeStream implements AsyncIterableIterator<BlockExecutionData> {
  readonly startHeight: number;
  /** The call by which it was opened. */
  readonly method: AccessMethod;
  pulls = 0;
  isClosed = false;
  isLeft = false;
  readonly #sent: Sent[] = [];
  #take: ((sent: Sent) => void) | undefined;

  constructor(startHeight: number, method: AccessMethod, signal: AbortSignal) {
    this.startHeight = startHeight;
    this.method = method;
    signal.addEventListener('abort', () => {
      this.isClosed = true;
      this.#take?.(abortReason(signal));
    });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(...items: Sent[]): void {
    this.#sent.push(...items);
    const take = this.#take;
    if (take === undefined || this.#sent.length === 0) return;
    this.#take = undefined;
    take(this.#sent.shift()!);
  }

  async next(): Promise<IteratorResult<BlockExecutionData>> {
    this.pulls += 1;
    const item = this.#sent.shift() ?? (await new Promise<Sent>((resolve) => (this.#take = resolve)));
    this.#take = undefined;
    if (item instanceof Error) throw item;
    return item === 'end' ? { done: true, value: undefined } : { done: false, value: item };
  }

  return(): Promise<IteratorResult<BlockExecutionData>> {
    this.isClosed = this.isLeft = true;
    return Promise.resolve({ done: true, value: undefined });
  }
}

const STREAM = 'SubscribeExecutionDataFromStartBlockHeight';
const OTHER_STREAM = 'SubscribeExecutionData';

/** A node whose calls are pending until the test settles them, and whose streams it plays. */
export class FakeNode extends NodeInMemory {
  readonly calls: FakeCall[] = [];
  readonly streams: FakeStream[] = [];
  /** Until when calls are held back, by the test's own clock. */
  readonly heldBackUntilMs = new Map<AccessMethod, number>();
  readonly failing = new Set<AccessMethod>();
  /** Settles a call at once; what it leaves alone stays pending. */
  onCall: (call: FakeCall) => void = () => undefined;
  onStream: (stream: FakeStream) => void = () => undefined;
  readonly #clock: Pick<Clock, 'monotonic'>;

  constructor(name: string, clock: Pick<Clock, 'monotonic'>) {
    super(name);
    this.#clock = clock;
  }

  get pending(): FakeCall[] {
    return this.calls.filter((call) => !call.isSettled);
  }

  get stream(): FakeStream {
    const stream = this.streams.at(-1);
    if (stream === undefined) throw new Error('no stream was opened');
    return stream;
  }

  override healthOf(method: AccessMethod): NodeHealth {
    return this.failing.has(method) ? 'failing' : this.health;
  }

  override delayMs(method: AccessMethod): number {
    return Math.max(0, (this.heldBackUntilMs.get(method) ?? 0) - this.#clock.monotonic());
  }

  override getFullCollection(id: Identifier, options?: CallOptions): Promise<readonly Uint8Array[]> {
    return this.#call('GetFullCollectionByID', id, options);
  }

  override getCollectionTransactionIds(
    id: Identifier,
    options?: CallOptions,
  ): Promise<readonly Identifier[]> {
    return this.#call('GetCollectionByID', id, options);
  }

  override getTransaction(id: Identifier, options?: CallOptions): Promise<Uint8Array> {
    return this.#call('GetTransaction', id, options);
  }

  override subscribeExecutionData(startHeight: number, { signal }: StreamOptions): FakeStream {
    const isOther = !this.supports(STREAM) && this.supports(OTHER_STREAM);
    const stream = new FakeStream(startHeight, isOther ? OTHER_STREAM : STREAM, signal);
    this.streams.push(stream);
    this.onStream(stream);
    return stream;
  }

  override subscribeIndexedBlocks(startHeight: number, options: StreamOptions): FakeStream {
    return this.subscribeExecutionData(startHeight, options);
  }

  #call<T>(method: UnaryMethod, id: Identifier, { signal, timeoutMs }: CallOptions = {}): Promise<T> {
    const isAborted = signal?.aborted === true;
    let settle: (value: unknown) => void = () => undefined;
    const call = {
      ...{ node: this.name, method, id, atMs: this.#clock.monotonic(), timeoutMs },
      ...{ isAborted, isSettled: isAborted },
      answer: (value: unknown) => settle(value),
      fail: (error: UpstreamErrorKind | Error) => {
        if (!call.isSettled)
          settle(Promise.reject(error instanceof Error ? error : this.error(error, method)));
      },
    };
    const promise = unlessAborted<unknown>(signal, (end) => {
      settle = end;
      return () => Object.assign(call, { isSettled: true, isAborted: signal?.aborted === true });
    });
    this.calls.push(call);
    // A node that does not know a call is not asked by it again, as the pool has it.
    promise.catch((error: unknown) => {
      if (error instanceof UpstreamError && error.kind === 'unimplemented') this.unknown.add(method);
    });
    if (!call.isSettled) this.onCall(call);
    return promise as Promise<T>;
  }
}

/** The way that a call gives way to, as the pool has it. */
const OTHER_WAY: Partial<Record<AccessMethod, AccessMethod>> = {
  GetFullCollectionByID: 'GetCollectionByID',
  [STREAM]: OTHER_STREAM,
};

/** Nodes whose calls rest, and whose order changes, by the pool's own record of their health. */
export class RecordedNodes extends NodesInMemory<FakeNode> {
  readonly #records = new Map<AccessNode, NodeHealthRecord>();

  constructor(clock: Clock, ...list: readonly FakeNode[]) {
    super(list);
    for (const node of list) {
      const healthRecord = new NodeHealthRecord({ clock });
      healthRecord.identity = 'usable';
      this.#records.set(node, healthRecord);
      const knows = node.supports.bind(node);
      node.healthOf = (method) => healthRecord.healthOf(method);
      node.supports = (method) => {
        const other = OTHER_WAY[method];
        if (!knows(method)) return false;
        return other === undefined || !knows(other) || !healthRecord.isBetterAskedBy(other, method);
      };
    }
  }

  override forHeight(): readonly FakeNode[] {
    return this.#ordered('GetFullCollectionByID');
  }

  override forExecutionData(): readonly FakeNode[] {
    return this.#ordered(STREAM);
  }

  override succeeded(node: AccessNode, method: AccessMethod): void {
    super.succeeded(node, method);
    this.#records.get(node)?.succeeded(method);
  }

  override report(node: AccessNode, fault: NodeFault, detail: string, method: AccessMethod): void {
    super.report(node, fault, detail, method);
    this.#records.get(node)?.report(fault, detail, method);
  }

  #ordered(method: AccessMethod): readonly FakeNode[] {
    const candidates = this.all.map((node) => {
      const healthRecord = this.#records.get(node)!;
      return { node, healthRecord, client: { inFlight: node.pending.length, heldBack: false } };
    });
    return inOrderOfAsking(candidates, method).map(({ node }) => node);
  }
}

export const methodsOf = (told: readonly { readonly method: AccessMethod }[]): AccessMethod[] =>
  told.map(({ method }) => method);

class KeepingSink implements CollectionSink {
  readonly received: ReceivedCollection[] = [];
  readonly blocks: { readonly height: number; readonly ids: readonly Identifier[] }[] = [];
  onReceived: (received: ReceivedCollection) => void = () => undefined;

  get ids(): Identifier[] {
    return this.received.map(({ collection }) => collection.id);
  }

  onCollection(received: ReceivedCollection): void {
    this.received.push(received);
    this.onReceived(received);
  }

  onReceivedCollectionsForBlock(height: number, collections: readonly ReceivedCollection[]): void {
    this.blocks.push({ height, ids: collections.map(({ collection }) => collection.id) });
  }
}

/**
 * A requester over a queue of its own: told which ids a height lacks, and that it lacks none of them any more, as the processor
 * tells it. A height that has all is durable at once. It stops with its test.
 */
export class HeightsRequester extends CollectionRequester {
  readonly #mcq: MissingCollectionQueue;
  /** Calls may outlive the height that they were sent for, which may come again here. */
  readonly #requests = new Map<number, HeightRecord['requests']>();

  /** What a test leaves out is as in most of them: every pause the shortest, nothing held back, no bug expected. */
  constructor(
    options: Partial<CollectionRequesterOptions>,
    {
      sink = new KeepingSink(),
      ...dependencies
    }: Pick<CollectionRequesterDependencies, 'nodes' | 'clock' | 'window'> &
      Partial<CollectionRequesterDependencies>,
  ) {
    const mcq = new MissingCollectionQueue(windowOf(Infinity, { heights: 10_000 }));
    const pauses = { timeoutMs: 10_000, backoffMinMs: 250, backoffMaxMs: 10_000, holdBackMs: 0 };
    super(
      { concurrency: 4, workersPerHeight: 8, ...pauses, ...options },
      {
        ...{
          random: { next: () => 0 },
          logger: new RecordingLogger(),
          metrics: createMetrics({ version: 'test', node: 'test' }),
        },
        onFatal: (error) => {
          throw error;
        },
        ...dependencies,
        mcq,
        sink: {
          onCollection: (received) => {
            const completed = mcq.onReceivedCollection(received) ?? [];
            sink.onCollection(received);
            for (const { height, block } of completed) this.#complete(height, block.collectionIds);
          },
        },
      },
    );
    this.#mcq = mcq;
    onTestFinished(() => this.stop());
  }

  /** What was tried for an id. */
  trail(id: Identifier): WantedCollection | undefined {
    return this.#mcq.wanted(id);
  }

  override request(height: number, ids: readonly Identifier[] = []): this {
    const before = this.#mcq.missing(height).map(({ id }) => id);
    const wanted = { ...makeBlock(height, 0).block, collectionIds: [...before, ...ids] };
    if (this.#mcq.replaceBlock(wanted) === undefined && ids.length > 0) {
      const record = this.#mcq.enqueueMissingCollections(wanted, 0, () => undefined);
      record.requests = this.#requests.get(height);
    }
    super.request(height);
    return this;
  }

  cancelAt(height: number): void {
    const before = this.#mcq.missing(height).map(({ id }) => id);
    if (before.length > 0) {
      this.#mcq.replaceBlock(makeBlock(height, 0).block);
      this.#complete(height, before);
    } else super.cancel([]);
  }

  #complete(height: number, ids: readonly Identifier[]): void {
    super.cancel(ids);
    const record = this.#mcq.get(height)!;
    this.#requests.set(height, record.requests);
    this.#mcq.onIndexedForBlock(record);
  }
}

/** One that sends whatever it may at once, to nodes whose health is kept. */
export function asking(
  parts: Pick<CollectionRequesterDependencies, 'clock' | 'sink' | 'window'>,
  ...list: readonly FakeNode[]
): HeightsRequester {
  const nodes = new RecordedNodes(parts.clock, ...list);
  return new HeightsRequester({ concurrency: 32, workersPerHeight: 32 }, { nodes, ...parts });
}

/** What a test of a source begins with: two nodes in virtual time, a window, and nothing received. */
export function sources(indexed = 0, head = 1_000) {
  const clock = new VirtualClock();
  const ends = { indexed, head };
  const durable = new Set<number>();
  const window = windowOf(
    { latestIndexedHeight: () => ends.indexed, hasHeight: (height) => durable.has(height) },
    { heights: 1_000, limitBytes: Infinity, head: () => ends.head },
  );
  let waiting = 0;
  const changed = window.changed.bind(window);
  window.changed = (signal) => {
    waiting += 1;
    return changed(signal).finally(() => (waiting -= 1));
  };
  return {
    ...{ clock, ends, durable, window, waiters: () => waiting },
    headMoves: () => {
      ends.head += 1;
      window.notify();
    },
    sink: new KeepingSink(),
    logger: new RecordingLogger(),
    metrics: createMetrics({ version: 'test', node: 'test' }),
    a: new FakeNode('a:9000', clock),
    b: new FakeNode('b:9000', clock),
    fatal: [] as unknown[],
  };
}

/** Answers for these collections as a good node would. */
export function honestOf(...collections: readonly MadeCollection[]): (call: FakeCall) => void {
  return (call) => {
    for (const { id, transactions, transactionIds } of collections) {
      if (call.id === id) call.answer(call.method === 'GetCollectionByID' ? transactionIds : transactions);
      const place = transactionIds.indexOf(call.id);
      if (place !== -1) call.answer(transactions[place]);
    }
  };
}

export const failing =
  (kind: UpstreamErrorKind) =>
  (call: FakeCall): void =>
    call.fail(kind);

export const FAILURES = [
  ...(['not_yet', 'not_found', 'invalid_argument', 'failed_precondition'] as const),
  ...(['unavailable', 'malformed', 'too_large', 'internal'] as const),
];
