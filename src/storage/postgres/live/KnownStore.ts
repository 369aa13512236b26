import { ok as assert } from 'node:assert/strict';
import type { AccountCoverage } from '../../port/AccountIndex.js';
import type { BlockHead, HeightRange, SporkRecord, StoreMeta } from '../../port/stored.js';
import { bothSporks } from '../../records/book/changeBook.js';
import { SCHEMA_VERSION } from '../../records/schema.js';
import type { Loaded } from '../reading/loadStore.js';
import { BlockLine } from '../writing/BlockLine.js';
import type { LineWriting } from '../writing/BlockLine.js';
import type { Published } from '../writing/changeRows.js';

export interface KnownStoreDependencies extends LineWriting {
  /** Receives the plans and open ranges; those that are left out have not changed. */
  readonly onBook: (facts: Partial<Pick<Loaded, 'open' | 'plans'>>) => void;
}

/** What this process knows of the store, without asking the database. */
export class KnownStore {
  readonly #chainId: string;
  readonly #deps: KnownStoreDependencies;
  #createdBy = '';
  #published: readonly HeightRange[] = [];
  #firstHeight = 0;
  #sporks: readonly SporkRecord[] = [];
  #isDamaged = false;
  #rewinds = 0;
  #line: BlockLine | undefined;

  constructor({ chainId }: { readonly chainId: string }, dependencies: KnownStoreDependencies) {
    this.#chainId = chainId;
    this.#deps = dependencies;
  }

  /** The line of the live range; `undefined` for a store that was never initialised. */
  get line(): BlockLine | undefined {
    return this.#line;
  }

  /** The ranges below the live one, ascending. */
  get published(): readonly HeightRange[] {
    return this.#published;
  }

  /** The live range, which may be empty. */
  get live(): HeightRange {
    return { from: this.#firstHeight, to: this.latestIndexedHeight() };
  }

  /** The block at the watermark is unreadable. */
  get isDamaged(): boolean {
    return this.#isDamaged;
  }

  /** The block at the watermark. */
  get latestBlock(): BlockHead | undefined {
    return this.#line?.state.latestBlock;
  }

  /** Like `IndexReader.rewinds`. */
  get rewinds(): number {
    return this.#rewinds;
  }

  coverage(): readonly HeightRange[] {
    const { live } = this;
    return this.#line === undefined || live.to < live.from ? this.#published : [...this.#published, live];
  }

  latestIndexedHeight(): number {
    return this.#line?.state.latestIndexedHeight ?? 0;
  }

  accountCoverage(): AccountCoverage {
    if (this.#line === undefined) return { from: 0, to: -1, missingHeights: 0 };
    return { ...this.live, missingHeights: 0 };
  }

  meta(): StoreMeta | undefined {
    if (this.#line === undefined) return undefined;
    return {
      schemaVersion: SCHEMA_VERSION,
      chainId: this.#chainId,
      firstHeight: this.#firstHeight,
      createdBy: this.#createdBy,
      sporks: this.#sporks,
    };
  }

  initialised(): StoreMeta {
    const meta = this.meta();
    assert(meta !== undefined, 'the store is not initialised');
    return meta;
  }

  /** Takes over everything that was read from the database. */
  load({ createdBy, coverage, sporks, open, plans, latestBlock, above, isDamaged, isRewound }: Loaded): void {
    this.#createdBy = createdBy;
    this.#isDamaged = isDamaged;
    if (isRewound) this.#rewinds += 1;
    const live = coverage.at(-1);
    this.#published = coverage.slice(0, -1);
    this.#sporks = sporks;
    this.#deps.onBook({ open, plans });
    if (live === undefined) return;
    this.#firstHeight = live.from;
    const state = { latestIndexedHeight: live.to, latestBlock, above };
    if (this.#line !== undefined) this.#line.change(state);
    else this.#line = new BlockLine(state, this.#lineParts());
  }

  /** Takes over what others did, in the leader: it knows the end of the live range, and its sporks, better. */
  join({ coverage, sporks, open, plans }: Loaded): void {
    const live = coverage.at(-1);
    if (live === undefined) return;
    this.#published = coverage.slice(0, -1);
    this.#firstHeight = live.from;
    this.addSporks(sporks);
    this.#deps.onBook({ open, plans });
  }

  /** A range of this process has become part of the coverage. */
  publish({ coverage, sporks, plans }: Published): void {
    this.#published = coverage.slice(0, -1);
    this.#firstHeight = coverage.at(-1)?.from ?? this.#firstHeight;
    this.addSporks(sporks);
    this.#deps.onBook({ plans });
  }

  addSporks(sporks: readonly SporkRecord[]): void {
    this.#sporks = bothSporks(this.#sporks, sporks);
  }

  /** Forgets staged blocks, and a write that failed. */
  renew(): void {
    if (this.#line !== undefined) this.#line = new BlockLine(this.#line.state, this.#lineParts());
  }

  #lineParts(): LineWriting & { readonly meta: () => StoreMeta } {
    const { fence, partitions, scripts } = this.#deps;
    return { fence, partitions, scripts, meta: () => this.initialised() };
  }
}
