import { decodeProvableBlock } from '../../flow/index.js';
import type { BlockDecoder, FinalizedBlock, Identifier } from '../../flow/index.js';
import type { Logger } from '../../observability/index.js';
import { BlockProver, type BlockForm, type Proving } from '../../proof/index.js';
import { RefusedBlockError } from '../UpstreamError.js';

/** `auto`: prove blocks where their data allow it; `required`: accept no other; `off`: trust the nodes. */
export type ProofMode = 'auto' | 'required' | 'off';

/** Heights for which the nodes that gave an unprovable block are remembered. */
const MAX_DOUBTED_HEIGHTS = 64;
/** Blocks whose seals are remembered: more than lie between the newest block and the newest proven final. */
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
  /** The nodes that gave an unprovable block of it. */
  readonly nodes: Set<string>;
}

const WHY: Readonly<Record<Unprovable['kind'], string>> = {
  unknown_form: 'its id is made in a way that this version does not know: an update may prove it',
  without_header: 'the nodes do not send the header that its id is made from',
};

/**
 * Proves every block that a node sends. A block that its id refutes is a lie. An unprovable one may be a lie too, from
 * a node that hides what would refute it: it is accepted only once no node that serves the height gives a better one.
 * The nodes that gave unprovable blocks are remembered per spork, until a block of it is proven.
 */
export class BlockProofs {
  readonly #parts: Parts;
  readonly #prover: BlockProver;
  /** Sporks whose blocks cannot be proven, by root height. Bounded by the sporks. */
  readonly #unprovable = new Map<number, UnprovableSpork>();
  /** By height: the nodes that gave an unprovable block. */
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

  /** The state of block proofs, for operators. */
  status() {
    const why = this.#lastUnprovable;
    return {
      /** The form of the last block that was proven. */
      form: this.#form,
      /** Why unproven blocks are accepted now; `undefined` while none is. */
      reason: why === undefined ? undefined : `the last block is not proven: ${WHY[why]}`,
    };
  }

  /** The blocks that the payload of a recent block seals; empty where unknown. */
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
        // A literal that begins with a spread takes 2 µs in Node.js 20: avoid one per block or collection.
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
    if (!this.#areNodesExhausted(height, node, known)) return refuse('other nodes may give a better one');
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
   * True when every node that can be asked for the height gave an unprovable block: at this height, or in its spork
   * since a block was last proven there. So a node that comes back is asked first.
   */
  #areNodesExhausted(height: number, node: string, known: UnprovableSpork | undefined): boolean {
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
