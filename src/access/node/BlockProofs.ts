import { decodeProvableBlock } from '../../flow/index.js';
import type { BlockDecoder, FinalizedBlock, Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { BlockProver, type BlockForm, type Proving } from '../../proof/index.js';
import { RefusedBlockError } from '../UpstreamError.js';

/** `auto`: prove blocks where their data allow it; `required`: take no other block; `off`: take them on the nodes' word. */
export type ProofMode = 'auto' | 'required' | 'off';

/** Heights for which is remembered which nodes gave a block that cannot be proven. */
const MAX_DOUBTED_HEIGHTS = 64;
/** Blocks whose seals are remembered: more than lie between the newest block and the newest one that is proven final. */
const MAX_SEALING_BLOCKS = 256;

interface Parts {
  readonly mode: Exclude<ProofMode, 'off'>;
  readonly chainId: string;
  /** The names of the nodes that can be asked for the block of a height now. */
  readonly servers: (height: number) => readonly string[];
  /** The root height of the spork that a height is in; `undefined` where it is not known. */
  readonly sporkRoot: (height: number) => number | undefined;
  readonly logger: Logger;
}

type Unprovable = Extract<Proving, { kind: 'unknown_form' | 'without_header' }>;

interface UnprovableSpork {
  why: Unprovable['kind'];
  /** Those that gave a block of it that cannot be proven. */
  readonly nodes: Set<string>;
}

const WHY: Readonly<Record<Unprovable['kind'], string>> = {
  unknown_form: 'its id is made in a way that this version does not know: an update may prove it',
  without_header: 'the nodes do not send the header that its id is made from',
};

/**
 * Proves every block that a node sends. One that its id refutes is a lie. One that cannot be proven may be a lie as well, of
 * a node that hides what would refute it: it is taken only when every node that has the height gives no better one. Who gave
 * none is remembered for its spork, until one is proven there.
 */
export class BlockProofs {
  readonly #parts: Parts;
  readonly #prover: BlockProver;
  /** Sporks whose blocks cannot be proven, by root height. Bounded by the sporks. */
  readonly #unprovable = new Map<number, UnprovableSpork>();
  /** Which nodes gave a block of a height that cannot be proven. */
  readonly #doubted = new Map<number, Set<string>>();
  /** The blocks that each block seals. */
  readonly #sealedBy = new Map<Identifier, readonly Identifier[]>();
  #form: BlockForm | undefined;
  #lastUnprovable: Unprovable['kind'] | undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#prover = new BlockProver({ chainId: parts.chainId });
  }

  /**
   * Decodes the full blocks of a node, or those of another indexer, each a `ProvableBlock`. Besides `WireError` it throws
   * `RefusedBlockError`.
   */
  decoderOf(node: string, isIndexer: boolean): BlockDecoder {
    return (message) => {
      if (!isIndexer) return this.#judge(this.#prover.prove(message), node);
      const { block, proof } = decodeProvableBlock(message);
      return this.#judge(this.#prover.proveStored(block, proof), node);
    };
  }

  /** What is known of the proofs of blocks, for people. */
  status() {
    const why = this.#lastUnprovable;
    return {
      /** The form of the last block that was proven. */
      form: this.#form,
      /** Why blocks are taken unproven now; `undefined` while none is. */
      reason: why === undefined ? undefined : `the last block is not proven: ${WHY[why]}`,
    };
  }

  /** The blocks whose seals are in the payload of a recent block; none where that is not known. */
  sealedBy(id: Identifier): readonly Identifier[] {
    return this.#sealedBy.get(id) ?? [];
  }

  #judge(proving: Proving, node: string): FinalizedBlock {
    switch (proving.kind) {
      case 'proven': {
        const { form, proof, sealedIds } = proving;
        const { id, parentId, height, collectionIds, encoded } = proving.block;
        this.#form = form;
        this.#lastUnprovable = undefined;
        this.#doubted.delete(height);
        if (this.#unprovable.size > 0) this.#unprovable.delete(this.#sporkOf(height));
        if (sealedIds !== undefined && sealedIds.length > 0) {
          this.#sealedBy.set(id, sealedIds);
          const [oldest = id] = this.#sealedBy.keys();
          if (this.#sealedBy.size > MAX_SEALING_BLOCKS) this.#sealedBy.delete(oldest);
        }
        // Node.js 20 takes 2 µs for a literal that begins with a spread: none is made for each block or collection.
        return { id, parentId, height, collectionIds, encoded, proof };
      }
      case 'refused': {
        const { detail, reason } = proving;
        throw new RefusedBlockError('forged', `the block does not fit its id: ${detail}`, reason);
      }
      default:
        return this.#unproven(proving, node);
    }
  }

  #unproven({ block, kind: why }: Unprovable, node: string): FinalizedBlock {
    const { height } = block;
    const refuse = (because: string): never => {
      const what = `block ${height} cannot be proven, and ${because}`;
      throw new RefusedBlockError('unproven', `${what}: ${WHY[why]}`);
    };
    if (this.#parts.mode === 'required') return refuse('proof.mode is required');
    const spork = this.#sporkOf(height);
    const known = this.#unprovable.get(spork);
    known?.nodes.add(node);
    if (!this.#isAllThereIs(height, node, known)) return refuse('other nodes may give a better one');
    if (known?.why !== why) {
      const nodes = known?.nodes ?? new Set(this.#doubted.get(height));
      this.#unprovable.set(spork, { why, nodes });
      const fields = { height, node, reason: WHY[why] };
      this.#parts.logger.warn(fields, 'blocks are taken on the word of the nodes');
    }
    this.#lastUnprovable = why;
    return block;
  }

  /**
   * True when every node that can be asked for the height gave a block that cannot be proven: of this height, or of its spork
   * since nothing there was proven. So one that comes back is asked first.
   */
  #isAllThereIs(height: number, node: string, known: UnprovableSpork | undefined): boolean {
    const nodes = this.#doubted.get(height) ?? new Set<string>();
    this.#doubted.set(height, nodes.add(node));
    const [oldest] = this.#doubted.keys();
    if (this.#doubted.size > MAX_DOUBTED_HEIGHTS && oldest !== undefined) this.#doubted.delete(oldest);
    const servers = this.#parts.servers(height);
    return servers.every((server) => nodes.has(server) || known?.nodes.has(server) === true);
  }

  #sporkOf(height: number): number {
    return this.#parts.sporkRoot(height) ?? 0;
  }
}
