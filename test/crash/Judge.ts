import { cpSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ChainGenerator } from '../../src/devnet/index.js';
import { silentLogger } from '../../src/observability/index.js';
import { verifyStore, type LevelIndexStore } from '../../src/storage/index.js';
import { demand } from '../support/campaign.js';
import { chainEntries, storePath, withStore, digestOf } from '../support/index.js';
import { proveStore } from '../support/provenStore.js';
import type { Witness } from './Witness.js';

const CHAIN_ID = 'flow-localnet';
export const FIRST_HEIGHT = 1;
export const LAST_HEIGHT = 160;

export interface Doubts {
  readonly mayLie?: boolean;
  readonly mayBeUnproven?: boolean;
}

export interface Found {
  readonly watermark: number | undefined;
  readonly isDurable: (height: number) => boolean;
}

const NOTHING: Found = { watermark: undefined, isDurable: () => false };

/** Knows the store of a run in which nothing went wrong, and holds every other store against it. */
export class Judge {
  readonly #entries = new Map<string, Buffer>();
  readonly #digest: string;

  private constructor(digest: string) {
    this.#digest = digest;
  }

  static async from(dataDir: string, chain: ChainGenerator): Promise<Judge> {
    const heights = { firstHeight: FIRST_HEIGHT, latestHeight: LAST_HEIGHT };
    await proveStore(dataDir, { ...heights, chainAt: () => chain });
    return withStore(storePath(dataDir), async (store) => {
      const judge = new Judge(await digestOf({ entries: () => chainEntries(store) }));
      for await (const [key, value] of chainEntries(store)) judge.#entries.set(hex(key), Buffer.from(value));
      return judge;
    });
  }

  /**
   * Looks at what a crash left: it is sound, differs in nothing from the faultless run, and nothing reported is lost. Throws `Verdict`.
   * `mayLie`: blocks of a liar may stand above the watermark. `mayBeUnproven`: blocks may lack proofs where the store says so.
   */
  async examine(dataDir: string, witness: Witness, doubts: Doubts = {}): Promise<Found> {
    const { mayLie = false } = doubts;
    const found = await this.#look(dataDir, doubts);
    if (witness.watermark === undefined) return found;
    const { watermark } = found;
    demand(watermark !== undefined, `watermark ${witness.watermark} was reported, and there is no store`);
    const lost = `watermark ${witness.watermark} was reported, the store is at ${watermark}`;
    demand(watermark >= witness.watermark, lost);
    for (const height of mayLie ? [] : witness.heights)
      demand(found.isDurable(height), `height ${height} was reported durable, and is lost`);
    return found;
  }

  /** The store is the one of the run without faults, byte for byte. Expected errors: `Verdict`. */
  async prove(dataDir: string): Promise<void> {
    await verify(storePath(dataDir));
    const digest = await withStore(storePath(dataDir), (store) =>
      digestOf({ entries: () => chainEntries(store) }),
    );
    demand(digest === this.#digest, 'the store differs from that of a run without faults');
    demand(!existsSync(join(dataDir, 'daemon.json')), 'the daemon record was left behind');
  }

  async #look(dataDir: string, { mayLie = false, mayBeUnproven = false }: Doubts): Promise<Found> {
    if (!existsSync(join(storePath(dataDir), 'CURRENT'))) return NOTHING;
    const copies = mkdtempSync(join(tmpdir(), 'fci-crashed-'));
    try {
      const [opened, verified] = [join(copies, 'opened'), join(copies, 'verified')];
      for (const copy of [opened, verified]) cpSync(storePath(dataDir), copy, { recursive: true });
      return await withStore(opened, async (store) => {
        if (store.meta() === undefined) return NOTHING;
        await verify(verified);
        if (mayBeUnproven) await this.#compareUnproven(store);
        else if (!mayLie) await this.#compare(store);
        const watermark = store.latestIndexedHeight();
        const above = new Set(store.blocksAboveWatermark().map(({ height }) => height));
        return { watermark, isDurable: (height) => height <= watermark || above.has(height) };
      });
    } finally {
      rmSync(copies, { recursive: true, force: true });
    }
  }

  /** Proven is every height, or unproven by the store's own word: where it is neither, a record was lost. */
  async #compareUnproven(store: LevelIndexStore): Promise<void> {
    for (let height = FIRST_HEIGHT; height <= LAST_HEIGHT; height += 1) {
      const isUnproven = store.unproven().some(({ from, to }) => from <= height && height <= to);
      const isProven = (await store.blockByHeight(height))?.block.proof !== undefined;
      const wrong = `block ${height} has ${isProven ? 'a' : 'no'} proof, and says otherwise`;
      demand(isProven !== isUnproven, wrong);
    }
  }

  /** Every record is the right one, but the watermark and, while there is no block, the version. What must be there `verify` says. */
  async #compare(store: LevelIndexStore): Promise<void> {
    const wrong: string[] = [];
    for await (const [key, value] of chainEntries(store)) {
      if (this.#entries.get(hex(key))?.equals(value) !== true) wrong.push(hex(key));
    }
    const height = store.latestIndexedHeight();
    const mayDiffer = height === LAST_HEIGHT ? 0 : height < FIRST_HEIGHT ? 2 : 1;
    demand(wrong.length <= mayDiffer, `wrong records under the keys ${wrong.join(', ')}`);
  }
}

async function verify(path: string): Promise<void> {
  const report = await verifyStore({ path, chainId: CHAIN_ID }, { logger: silentLogger });
  const [damage] = report.damages;
  demand(damage === undefined, `verify finds ${report.damageCount} damages, first: ${damage?.message ?? ''}`);
}

const hex = (key: Uint8Array): string => Buffer.from(key).toString('hex');
