import type { AccessMethod, Giver } from '../../access/index.js';
import type { FinalizedBlock, Identifier } from '../../flow/index.js';

/** Different lists remembered per node and height: a node that gives more has lied already. */
const MAX_LISTS_PER_NODE = 4;

/** A block and who gave it. */
export interface GivenBlock {
  readonly block: FinalizedBlock;
  readonly giver: Giver;
}

/**
 * What nodes said about the guarantees of one disputed block. Bounded by the nodes, and MAX_LISTS_PER_NODE for each.
 */
export class GuaranteeVotes {
  readonly blockId: Identifier;
  /** The current guarantees. */
  #list: string;
  /** Per node: each list that it gave, and by which call. */
  readonly #said = new Map<string, Map<string, AccessMethod>>();
  /** A block for each list, and who gave it first. */
  readonly #blocks = new Map<string, GivenBlock>();
  /** How often each list was tried. */
  readonly #tried = new Map<string, number>();

  constructor({ id, collectionIds }: FinalizedBlock) {
    this.blockId = id;
    this.#list = listOf({ collectionIds });
    this.#tried.set(this.#list, 1);
  }

  note(given: readonly GivenBlock[]): void {
    for (const { block, giver } of given) {
      const lists = this.#said.get(giver.name) ?? new Map<string, AccessMethod>();
      const list = listOf(block);
      if (lists.size >= MAX_LISTS_PER_NODE || lists.has(list)) continue;
      this.#said.set(giver.name, lists.set(list, giver.method));
      if (!this.#blocks.has(list)) this.#blocks.set(list, { block, giver });
    }
  }

  makeCurrent(block: FinalizedBlock): void {
    this.#list = listOf(block);
    this.#tried.set(this.#list, (this.#tried.get(this.#list) ?? 0) + 1);
  }

  isCurrent(block: FinalizedBlock): boolean {
    return listOf(block) === this.#list;
  }

  /**
   * The list, other than the current one, with the most votes, if it has at least as many as the current one; of several,
   * the least tried. A node has one vote for each list that it gives now; the giver of the current block also votes for
   * that.
   */
  rival(given: readonly GivenBlock[], giver: Giver): GivenBlock | undefined {
    const votes = new Map<string, Set<string>>([[this.#list, new Set([giver.name])]]);
    // If a single node gave several lists, by stream and by call, each of them gets its turn.
    for (const list of this.#said.get(giver.name)?.keys() ?? []) votes.set(list, new Set([giver.name]));
    for (const { block, giver: by } of given) {
      const list = listOf(block);
      votes.set(list, (votes.get(list) ?? new Set()).add(by.name));
    }
    const needed = votes.get(this.#list)?.size ?? 1;
    const rivals = [...votes].filter(([list, { size }]) => list !== this.#list && size >= needed);
    const tried = (list: string): number => this.#tried.get(list) ?? 0;
    rivals.sort(([a, { size: forA }], [b, { size: forB }]) => forB - forA || tried(a) - tried(b));
    const [best] = rivals;
    return best === undefined ? undefined : this.#blocks.get(best[0]);
  }

  /** Nodes that gave another list than the current one, which is proven. An empty list proves nothing. */
  liars(): readonly Giver[] {
    if (this.#list === '') return [];
    return [...this.#said].flatMap(([name, lists]) => {
      const lie = [...lists].find(([list]) => list !== this.#list);
      return lie === undefined ? [] : { name, method: lie[1] };
    });
  }
}

function listOf({ collectionIds }: Pick<FinalizedBlock, 'collectionIds'>): string {
  return collectionIds.join();
}
