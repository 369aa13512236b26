import { ChainGenerator } from '../../../src/devnet/index.js';
import type { ChainOptions, GeneratedCollection } from '../../../src/devnet/index.js';
import { decodeBlockMessage } from '../../../src/flow/index.js';
import type { VerifiedCollection } from '../../../src/flow/index.js';
import type { BlockEntry } from '../../../src/storage/index.js';

/** Every simulated chain that is stored by a bench begins here; the block below has no parent to be checked against. */
export const FIRST_HEIGHT = 1;
export const CHAIN_ID = 'flow-localnet';

/** Blocks of a simulated chain as they reach the indexer: linked, with verified collections. */
export class BlockMaker {
  readonly #generator: ChainGenerator;

  constructor(options: ChainOptions) {
    this.#generator = new ChainGenerator({ chainId: CHAIN_ID, ...options });
  }

  at(height: number): BlockEntry {
    const { encoded, collections } = this.#generator.block(height);
    return { block: decodeBlockMessage(encoded), collections: collections.map(verified) };
  }

  /** `count` blocks from the first height on. */
  first(count: number): BlockEntry[] {
    return Array.from({ length: count }, (_, index) => this.at(FIRST_HEIGHT + index));
  }
}

/** The generator's ids are real hashes, made with what would verify them: hashing again would only take time. */
function verified({ id, transactionIds, transactions, encoded }: GeneratedCollection): VerifiedCollection {
  const ranges = new Uint32Array(2 * transactions.length);
  let at = 0;
  for (const [index, { length }] of transactions.entries()) {
    at += 1 + varintBytes(length);
    ranges[2 * index] = at;
    ranges[2 * index + 1] = length;
    at += length;
  }
  return { id, encoded, transactionIds, ranges };
}

function varintBytes(value: number): number {
  return Math.max(1, Math.ceil((32 - Math.clz32(value)) / 7));
}

/** Bytes of the collections as a node sends them. */
export function payloadBytes({ collections }: BlockEntry): number {
  return collections.reduce((sum, { encoded }) => sum + encoded.length, 0);
}
