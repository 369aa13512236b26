import { ChainGenerator } from '../../src/devnet/index.js';
import { decodeBlockMessage, type FinalizedBlock } from '../../src/flow/index.js';
import { BlockProver } from '../../src/proof/index.js';
import type { BlockEntry } from '../../src/storage/index.js';
import { blocksOf, entryOf } from './chainReference.js';

/** A chain whose blocks hash to their ids, as the daemon gets it from its nodes. */
export class HashedChain {
  readonly generator: ChainGenerator;

  constructor(options: { readonly rootHeight: number; readonly chainId?: string }) {
    // Nobody asks for what is signed, which takes longer than all the rest.
    this.generator = new ChainGenerator({ ...options, hashedIds: true, certificatesEvery: 0 });
  }

  /** The block with its proof, or on the node's word. */
  block(height: number, { isProven = true } = {}): FinalizedBlock {
    const { encoded, hashed } = this.generator.block(height);
    if (!isProven) return decodeBlockMessage(encoded);
    const message = Buffer.concat([encoded, hashed?.extras ?? Buffer.alloc(0)]);
    const proving = new BlockProver({ chainId: this.generator.chainId }).prove(message);
    if (proving.kind !== 'proven')
      throw new Error(`height ${height} is not proven: ${JSON.stringify(proving)}`);
    return { ...proving.block, proof: proving.proof };
  }

  entries(from: number, to: number, options?: { readonly isProven?: boolean }): BlockEntry[] {
    return blocksOf(this.generator, from, to).map((block) => ({
      ...entryOf(block),
      block: this.block(block.height, options),
    }));
  }
}
