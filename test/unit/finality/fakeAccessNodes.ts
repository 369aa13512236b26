import { createHash } from 'node:crypto';
import type { AccessMethod, BlockDigest, BlockHeader, ReceivedBlock } from '../../../src/access/index.js';
import type { UpstreamError, UpstreamErrorKind } from '../../../src/access/index.js';
import type { CallOptions, ReceivedEvidence } from '../../../src/access/types.js';
import { toIdentifier, type FinalizedBlock, type Identifier } from '../../../src/flow/index.js';
import { unlessAborted } from '../../../src/runtime/index.js';
import { NodeInMemory, NodesInMemory } from '../../support/nodesInMemory.js';

/** A chain of empty blocks by arithmetic: any height, no memory. A fork shares every block below its first own one. */
export class FakeChain {
  readonly #name: string;
  readonly #trunk: FakeChain | undefined;
  readonly #firstOwn: number;

  constructor(name = 'main', trunk?: FakeChain, firstOwn = 0) {
    this.#name = name;
    this.#trunk = trunk;
    this.#firstOwn = firstOwn;
  }

  fork(name: string, firstOwn: number): FakeChain {
    return new FakeChain(name, this, firstOwn);
  }

  idAt(height: number): Identifier {
    if (this.#trunk !== undefined && height < this.#firstOwn) return this.#trunk.idAt(height);
    return toIdentifier(createHash('sha256').update(`${this.#name}:${height}`).digest());
  }

  block(height: number): FinalizedBlock {
    const [id, parentId] = [this.idAt(height), this.idAt(height - 1)];
    return { id, parentId, height, collectionIds: [], encoded: new Uint8Array() };
  }
}

/** What a node does at one height instead of telling the truth; `end`: of a stream. */
type Answer = ReceivedBlock | UpstreamErrorKind | UpstreamError | 'hang' | 'end';

/** An access node in memory. Its public fields are the script; a test changes them at any time. */
export class FakeAccessNode extends NodeInMemory {
  chain: FakeChain;
  finalized = 0;
  sealed = 0;
  /** It answers below_root, and its streams refuse to start, below it. */
  root = 0;
  down = false;
  /** Streams stay open and deliver nothing more. */
  silent = false;
  refusesStreams: UpstreamErrorKind | undefined;
  /** Unlike the others: what it says of single heights, as long as the entry stands. */
  readonly odd = new Map<number, Answer>();
  /** The same by one way alone: a call, or the stream, of blocks. */
  says: (method: AccessMethod, height: number) => Answer | undefined = () => undefined;
  /** Heights for which it fails the next time it is asked, and only then. */
  readonly failsOnce = new Map<number, UpstreamErrorKind>();
  /** When set, it is asked for each GetLatestBlockHeader instead of the finalized head. */
  polledHead: (() => number) | undefined;

  snapshot: ((height: number) => object | UpstreamErrorKind) | undefined;

  evidence: ((height: number) => ReceivedEvidence | undefined) | undefined;

  readonly calls: { readonly method: AccessMethod; readonly height: number | undefined }[] = [];
  readonly taken: number[] = [];
  openStreams = 0;
  callsUnderWay = 0;
  mostCallsUnderWay = 0;
  readonly #waiting = new Set<() => void>();

  constructor(name: string, chain: FakeChain) {
    super(name);
    this.chain = chain;
  }

  /** Moves its heads and wakes its streams. The sealed head stays where it is unless named. */
  advance(finalized: number, sealed = this.sealed): void {
    this.finalized = finalized;
    this.sealed = sealed;
    this.poke();
  }

  poke(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  override async getLatestBlockHeader(sealed: boolean, _options?: CallOptions): Promise<BlockHeader> {
    this.#admit('GetLatestBlockHeader');
    const height = sealed ? this.sealed : (this.polledHead?.() ?? this.finalized);
    const { id, parentId } = this.chain.block(height);
    return { id, parentId, height, chainId: 'flow-localnet', timestampMs: undefined };
  }

  override async getBlockByHeight(height: number, options?: CallOptions): Promise<ReceivedBlock> {
    this.#admit('GetBlockByHeight', height);
    this.callsUnderWay += 1;
    this.mostCallsUnderWay = Math.max(this.mostCallsUnderWay, this.callsUnderWay);
    try {
      await Promise.resolve();
      const answer = await this.#answer('GetBlockByHeight', height, options?.signal);
      if (answer === 'end') throw new Error('a call has no end');
      return answer;
    } finally {
      this.callsUnderWay -= 1;
    }
  }

  override async getProtocolStateSnapshot(height: number): Promise<Uint8Array> {
    const method = 'GetProtocolStateSnapshotByHeight';
    this.#admit(method, height);
    await Promise.resolve();
    const snapshot = this.snapshot?.(height) ?? 'unimplemented';
    if (typeof snapshot === 'string') throw this.error(snapshot, method);
    return Buffer.from(JSON.stringify(snapshot));
  }

  override async getCommitteeEvidence(height: number): Promise<ReceivedEvidence> {
    const method = 'GetCommitteeEvidence';
    this.#admit(method, height);
    await Promise.resolve();
    const evidence = this.evidence?.(height);
    if (evidence === undefined) throw this.error('not_found', method);
    return evidence;
  }

  override async *subscribeBlocks(
    startHeight: number,
    options: { readonly signal: AbortSignal },
  ): AsyncGenerator<ReceivedBlock, void> {
    this.#admit('SubscribeBlocksFromStartHeight', startHeight);
    if (startHeight < this.root) throw this.error('invalid_argument', 'SubscribeBlocksFromStartHeight');
    if (startHeight > this.finalized) throw this.error('not_found', 'SubscribeBlocksFromStartHeight');
    this.openStreams += 1;
    try {
      for (let height = startHeight; ; height += 1) {
        await this.#until(() => height <= this.finalized, options.signal);
        const answer = await this.#answer('SubscribeBlocksFromStartHeight', height, options.signal);
        if (answer === 'end') return;
        this.taken.push(height);
        yield answer;
      }
    } finally {
      this.openStreams -= 1;
    }
  }

  override async *subscribeBlockDigests(options: {
    readonly signal: AbortSignal;
    readonly sealed: boolean;
  }): AsyncGenerator<BlockDigest, void> {
    this.#admit('SubscribeBlockDigestsFromLatest');
    this.openStreams += 1;
    try {
      // As real nodes do: "from latest" is from the latest sealed block, whatever status was asked for.
      for (let height = this.sealed; ; height += 1) {
        await this.#until(() => height <= (options.sealed ? this.sealed : this.finalized), options.signal);
        yield { id: this.chain.idAt(height), height };
      }
    } finally {
      this.openStreams -= 1;
    }
  }

  count(method: AccessMethod, height?: number): number {
    return this.calls.filter(
      (call) => call.method === method && (height === undefined || call.height === height),
    ).length;
  }

  #admit(method: AccessMethod, height?: number): void {
    this.calls.push({ method, height });
    if (this.down) throw this.error('unavailable', method);
    if (this.refusesStreams !== undefined && method.startsWith('Subscribe'))
      throw this.error(this.refusesStreams, method);
    if (this.unknown.has(method)) throw this.error('unimplemented', method);
  }

  async #answer(method: AccessMethod, height: number, signal?: AbortSignal): Promise<ReceivedBlock | 'end'> {
    const failure = this.failsOnce.get(height);
    this.failsOnce.delete(height);
    if (failure !== undefined) throw this.error(failure, method);
    const odd = (): Answer | undefined => this.says(method, height) ?? this.odd.get(height);
    if (odd() === 'hang') await this.#until(() => odd() !== 'hang', signal);
    else {
      const answer = odd();
      if (answer instanceof Error) throw answer;
      if (answer === 'end' || typeof answer === 'object') return answer;
      if (answer !== undefined && answer !== 'hang') throw this.error(answer, method);
    }
    if (height < this.root) throw this.error('below_root', method);
    if (height > this.finalized) throw this.error('not_found', method);
    return { block: this.chain.block(height), status: height <= this.sealed ? 'sealed' : 'finalized' };
  }

  /** Waits until the script allows it, the node is up and not silent. */
  async #until(condition: () => boolean, signal: AbortSignal | undefined): Promise<void> {
    return unlessAborted<Promise<void>>(signal, (settle) => {
      const look = (): void => {
        if (this.down) settle(Promise.reject(this.error('unavailable', 'SubscribeBlocksFromStartHeight')));
        else if (!this.silent && condition()) settle(Promise.resolve());
      };
      this.#waiting.add(look);
      look();
      return () => void this.#waiting.delete(look);
    });
  }
}

export class FakeAccessNodes extends NodesInMemory<FakeAccessNode> {
  override peers(): readonly FakeAccessNode[] {
    return this.all.filter(({ evidence }) => evidence !== undefined);
  }
}
