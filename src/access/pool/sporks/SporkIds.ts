import { isUsable } from '../poolMember.js';
import type { PoolMember } from '../poolMember.js';

/** Sporks whose agreed id is remembered: far more than a daemon sees while it runs. */
const REMEMBERED_SPORKS_MAX = 64;

/**
 * The id of each spork, by its root, on which most of the usable nodes that name one agree. Remembered: when the only node
 * of a spork moves to another chain, its blocks may still be on their way into the store, and the recorded id must not
 * depend on that.
 */
export class SporkIds {
  readonly #members: () => readonly PoolMember[];
  readonly #agreed = new Map<number, string>();

  constructor({ members }: { readonly members: () => readonly PoolMember[] }) {
    this.#members = members;
  }

  /** The id named by a majority, or the last agreed id while no node names any; empty if there is none. */
  agreed(rootHeight: number): string {
    const told = this.#members()
      .filter((member) => isUsable(member) && member.identity?.sporkRootHeight === rootHeight)
      .map(({ identity }) => identity?.sporkId ?? '')
      .filter((sporkId) => sporkId !== '');
    if (told.length === 0) return this.#agreed.get(rootHeight) ?? '';
    return told.find((id) => 2 * told.filter((other) => other === id).length > told.length) ?? '';
  }

  /** Call it after every handshake of a usable node of the spork. */
  remember(rootHeight: number): void {
    const agreed = this.agreed(rootHeight);
    if (agreed === '') return;
    this.#agreed.delete(rootHeight);
    this.#agreed.set(rootHeight, agreed);
    const [oldest] = this.#agreed.keys();
    if (this.#agreed.size > REMEMBERED_SPORKS_MAX && oldest !== undefined) this.#agreed.delete(oldest);
  }
}
