import { BlockCollectionIndexer, heightExplainer, JobProcessor } from '../../../src/collections/index.js';
import { MissingCollectionQueue, type Source } from '../../../src/collections/index.js';
import type { ReceivedCollection } from '../../../src/collections/ports.js';
import type { FinalizedBlock, Identifier, VerifiedCollection } from '../../../src/flow/index.js';
import { createMetrics, silentLogger } from '../../../src/observability/index.js';
import type { Clock, Timer } from '../../../src/runtime/index.js';
import type { BlockEntry, CommitBatch, SporkRecord, StoreMeta } from '../../../src/storage/index.js';
import { applyCommit } from '../../../src/storage/records/book/applyCommit.js';
import { MemoryIndexStore, counted, windowOf } from '../../support/index.js';

export function id(name: string): Identifier {
  return Buffer.from(name.padEnd(32, '.')).toString('hex') as Identifier;
}

/** A block of a chain on which block `height` is called `b<height>`, unless it is given another name. */
export function block(height: number, ids: readonly string[], name = `b${height}`): FinalizedBlock {
  const [parentId, encoded] = [id(`b${height - 1}`), Buffer.from(name)];
  return { id: id(name), parentId, height, collectionIds: ids.map(id), encoded };
}

export function collection(name: string, bytes = 10): VerifiedCollection {
  const [encoded, transactionIds] = [new Uint8Array(bytes), new Uint8Array(32)];
  return { id: id(name), encoded, transactionIds, ranges: new Uint32Array(2) };
}

export function received(name: string, source: Source, receivedAtMs = 0, bytes = 10): ReceivedCollection {
  return { collection: collection(name, bytes), source, receivedAtMs };
}

/** A clock that moves by hand and has no timers: nothing that is tested here may need one. */
export class HandClock implements Clock {
  ms = 0;
  /** Where set, the turns of the event loop that are waited for come here. */
  heldTurns: (() => void)[] | undefined;
  now(): number {
    throw new Error('wall time must not matter');
  }
  monotonic(): number {
    return this.ms;
  }
  /** A turn of the event loop may be waited for, time may not. */
  setTimer(delayMs: number, callback: () => void): Timer {
    if (delayMs !== 0) throw new Error('no timer is needed');
    if (this.heldTurns === undefined) queueMicrotask(callback);
    else this.heldTurns.push(callback);
    return { cancel: () => undefined };
  }
}

/** A store whose commits are under way until the test says `finish` or `fail`; or, with `auto`, for one microtask. */
export class HandStore extends MemoryIndexStore {
  readonly batches: CommitBatch[] = [];
  readonly staged = new Set<BlockEntry>();
  auto = false;
  #meta: StoreMeta;
  #pending:
    { batch: CommitBatch; meta: StoreMeta; resolve: () => void; reject: (error: Error) => void } | undefined;

  constructor(sporks: readonly SporkRecord[] = []) {
    super();
    this.#meta = { schemaVersion: 1, chainId: 'flow-test', firstHeight: 1, createdBy: 'test', sporks };
    void this.initialise(this.#meta);
  }

  get underWay(): CommitBatch | undefined {
    return this.#pending?.batch;
  }

  override meta(): StoreMeta {
    return this.#meta;
  }

  override stage(entry: BlockEntry): void {
    this.staged.add(entry);
  }

  override async commit(batch: CommitBatch): Promise<void> {
    if (this.#pending !== undefined) throw new Error('two commits at once');
    for (const entry of this.staged) {
      if (batch.blocks.includes(entry) || this.hasHeight(entry.block.height)) continue;
      throw new Error(`height ${entry.block.height} was staged and is not in the next commit`);
    }
    this.staged.clear();
    const above = new Map(this.blocksAboveWatermark().map((head) => [head.height, head]));
    const [latestIndexedHeight, latestBlock] = [this.latestIndexedHeight(), this.latestBlock()];
    const before = { meta: this.#meta, latestIndexedHeight, latestBlock, above, damage: undefined };
    const { meta } = applyCommit(before, batch);
    return new Promise((resolve, reject) => {
      this.#pending = { batch, meta, resolve, reject };
      if (this.auto) queueMicrotask(() => this.finish());
    });
  }

  finish(): void {
    const pending = this.#pending!;
    this.#pending = undefined;
    void super.commit(pending.batch);
    this.#meta = pending.meta;
    this.batches.push(pending.batch);
    pending.resolve();
  }

  fail(error: Error): void {
    const pending = this.#pending!;
    this.#pending = undefined;
    pending.reject(error);
  }
}

/** A store that has committed at once. */
export function committing(sporks?: readonly SporkRecord[]): HandStore {
  return Object.assign(new HandStore(sporks), { auto: true });
}

export async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

/** Everything between the job consumer and the store, wired as the daemon wires it. */
export function meeting({
  store = new HandStore(),
  windowHeights = 8,
  ediOnly = false,
}: { readonly store?: HandStore; readonly windowHeights?: number; readonly ediOnly?: boolean } = {}) {
  const clock = new HandClock();
  const metrics = createMetrics({ version: 'test', node: 'test' });
  const head = { height: 1_000_000 };
  const window = windowOf(store, { heights: windowHeights, limitBytes: 1000, head: () => head.height });
  const indexer = new BlockCollectionIndexer(
    { groupMaxHeights: 100, groupMaxBytes: 1e6 },
    { store, window, clock, metrics, logger: silentLogger },
  );
  const mcq = new MissingCollectionQueue(window);

  const wanted = new Map<number, readonly Identifier[]>();
  const calls: string[] = [];
  const requests = {
    request(height: number) {
      const ids = mcq.missing(height).map((wanted) => wanted.id);
      // The rule "registered before asked": whoever is asked may answer within the call.
      for (const each of ids) {
        if (mcq.wanted(each)?.heights.some((record) => record.height === height) !== true)
          throw new Error('asked before it was registered');
      }
      if (height > window.limit()) throw new Error('asked above the window');
      calls.push(`request ${height}`);
      wanted.set(height, ids);
    },
    cancel(ids: readonly Identifier[]) {
      const [height = -1] = [...wanted].find(([, its]) => its.every((each) => ids.includes(each))) ?? [];
      if (wanted.delete(height)) calls.push(`cancel ${height}`);
    },
    heldBackNodes: [] as { readonly node: string; readonly untilMs: number }[],
    heldBack: () => requests.heldBackNodes,
  };
  const fatal: unknown[] = [];
  const trouble = { executionData: undefined as string | undefined };
  const processor = new JobProcessor({
    ...{ mcq, indexer, window, clock, metrics, logger: silentLogger },
    ...(ediOnly ? {} : { requests }),
    onFatal: (error) => fatal.push(error),
  });

  const explainer = heightExplainer({
    ...{ mcq, window, clock },
    ...(ediOnly ? {} : { requests }),
    executionDataReason: () => trouble.executionData,
    peerReason: () => undefined,
  });

  const done: number[] = [];
  /** Hands a block out as the job consumer does. */
  const run = (each: FinalizedBlock): void =>
    processor.run({ id: String(each.height), height: each.height, block: each }, () => {
      // Never before it is durable, never while its height is still held open.
      if (!window.isIndexed(each.height)) throw new Error(`done before ${each.height} is durable`);
      if (mcq.get(each.height) !== undefined) throw new Error(`done while ${each.height} is held`);
      done.push(each.height);
    });
  const edi = (height: number, names: readonly string[]): void =>
    processor.onReceivedCollectionsForBlock(
      height,
      names.map((name) => received(name, 'edi', clock.ms)),
    );
  const answer = (name: string): void => processor.onCollection(received(name, 'requester', clock.ms));

  return {
    ...{ clock, store, metrics, indexer, mcq, head, window, wanted, calls, fatal, trouble, requests },
    ...{ processor, explainer },
    ...{ done, run, edi, answer },
    count: (name: string, labels?: Record<string, string>) => counted(metrics, name, labels),
  };
}
