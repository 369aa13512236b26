import type { Identifier } from '../../flow/index.js';
import { KeyedHeap } from './KeyedHeap.js';
import type { CollectionWay } from './CollectionWays.js';
import { NodeRotation } from '../../access/index.js';
import type { NodeFailures } from '../ports.js';

/** What came of asking one node for one collection, and what follows from it for the next call. */
export interface NodeRecord extends NodeFailures {
  /** The ways that failed. */
  readonly ways: ReadonlySet<CollectionWay>;
  /** It said that it has no such collection: not a failure of the node. */
  readonly isDenial: boolean;
  /** The way by which it keeps saying so; once that has lasted. */
  readonly deniedBy: CollectionWay | undefined;
  /** When it said so last: milliseconds after the block was known. */
  readonly lackedMs: number;
}

/** One collection id that at least one height wants. */
export interface WantedCollection {
  readonly id: Identifier;
  /** Ascending; the first one is the height that the id is asked for. */
  readonly heights: number[];
  readonly rotation: NodeRotation;
  attempts: number;
  /** Attempts that were answered with "no such collection", or "not yet". */
  notFound: number;
  lastNode: string | undefined;
  lastWay: CollectionWay | undefined;
  lastError: string | undefined;
  /** Monotonic milliseconds of the first call. */
  firstAskedAtMs: number | undefined;
  /** Wall-clock milliseconds of the last call. */
  lastAskedAt: number | undefined;
  /** Monotonic milliseconds at which the last call left. */
  sentAtMs: number;
  /** Monotonic milliseconds at which the last call failed. */
  failedAtMs: number;
  /** Monotonic milliseconds at which its block, a new one, was known; `undefined` for blocks of old. */
  newSinceMs: number | undefined;
  /** Attempts that asked too early for a collection of a new block. */
  earlyAttempts: number;
  /** Calls that were not answered. */
  silences: number;
  /** By node; nothing before the first failure. Bounded by the number of nodes. */
  failures: Map<string, NodeRecord> | undefined;
}

/** One height and its ids. */
interface WantingHeight {
  readonly ids: Set<Identifier>;
  /** Those that may be asked for now; an id stands at its lowest height only. */
  readonly askable: Set<Identifier>;
  held: boolean;
  /** Set by the first hold: no hold of this height lasts longer. */
  holdEndsAtMs: number | undefined;
}

export interface WantedCollectionsOptions {
  /** Calls under way at once for one height. */
  readonly workersPerHeight: number;
}

/**
 * Who wants what, and what may be asked for next: ids by height, heights in order. Every step is O(log n) in the number
 * of heights; the window bounds what is held. It knows nothing of nodes, calls or time.
 */
export class WantedCollections {
  readonly #workersPerHeight: number;
  readonly #wanted = new Map<Identifier, WantedCollection>();
  readonly #heights = new Map<number, WantingHeight>();
  /** Every height that wants something. */
  readonly #wanting = new KeyedHeap<number>();
  /** Heights with an id to ask for and a worker to spare. */
  readonly #askable = new KeyedHeap<number>();
  /** Calls under way by id, with the height each was sent for; outlives the wish when that is withdrawn. */
  readonly #underWay = new Map<Identifier, number>();
  readonly #workers = new Map<number, number>();

  constructor(options: WantedCollectionsOptions) {
    this.#workersPerHeight = options.workersPerHeight;
  }

  get(id: Identifier): WantedCollection | undefined {
    return this.#wanted.get(id);
  }

  /** The ids that a height still wants. */
  idsOf(height: number): Iterable<Identifier> {
    return this.#heights.get(height)?.ids ?? [];
  }

  /** About how many collections are wanted from the lowest height through this one. */
  countThrough(height: number): number {
    const heights = this.#heights.size;
    if (heights === 0) return 0;
    const through = Math.min(heights, height - (this.#wanting.peek() ?? height) + 1);
    return (this.#wanted.size / heights) * through;
  }

  lowestHeight(): number | undefined {
    return this.#wanting.peek();
  }

  /** The lowest height that may ask now. */
  nextHeight(): number | undefined {
    return this.#askable.peek();
  }

  /** The next id to ask for at this height, oldest wish first. */
  nextAt(height: number): WantedCollection | undefined {
    for (const id of this.#heights.get(height)?.askable ?? []) return this.#wanted.get(id);
    return undefined;
  }

  /** True when the height was not here before. */
  add(height: number, ids: readonly Identifier[]): boolean {
    if (ids.length === 0) return false;
    const known = this.#heights.get(height);
    const entry = known ?? newHeight();
    if (known === undefined) {
      this.#heights.set(height, entry);
      this.#wanting.set(height, height);
    }
    for (const id of ids) {
      if (entry.ids.has(id)) continue;
      entry.ids.add(id);
      this.#want(height, entry, id);
    }
    this.#refresh(height);
    return known === undefined;
  }

  /** Keeps the height from asking until `release`. Answers when it may be held no longer: what its first hold was given. */
  hold(height: number, endsAtMs: number): number {
    const entry = this.#heights.get(height);
    if (entry === undefined) throw new Error(`height ${height} wants nothing and was held back`);
    entry.held = true;
    entry.holdEndsAtMs ??= endsAtMs;
    this.#refresh(height);
    return entry.holdEndsAtMs;
  }

  /** `undefined` for a height that was never held. */
  holdEndsAtMs(height: number): number | undefined {
    return this.#heights.get(height)?.holdEndsAtMs;
  }

  release(height: number): void {
    const entry = this.#heights.get(height);
    if (entry === undefined) return;
    entry.held = false;
    this.#refresh(height);
  }

  /** The height wants nothing more. Answers the ids that nobody wants now. */
  remove(height: number): WantedCollection[] {
    const entry = this.#heights.get(height);
    if (entry === undefined) return [];
    this.#dropHeight(height);
    const unwanted: WantedCollection[] = [];
    for (const id of entry.ids) {
      const wanted = this.#wanted.get(id);
      if (wanted === undefined) continue;
      wanted.heights.splice(wanted.heights.indexOf(height), 1);
      const heir = wanted.heights[0];
      if (heir === undefined) {
        this.#wanted.delete(id);
        unwanted.push(wanted);
      } else if (entry.askable.has(id)) {
        this.#heights.get(heir)?.askable.add(id);
        this.#refresh(heir);
      }
    }
    return unwanted;
  }

  /** The collection is here: no height wants it any more. */
  received(wanted: WantedCollection): void {
    this.#wanted.delete(wanted.id);
    for (const height of wanted.heights) {
      const entry = this.#heights.get(height);
      if (entry === undefined) continue;
      entry.ids.delete(wanted.id);
      entry.askable.delete(wanted.id);
      if (entry.ids.size === 0) this.#dropHeight(height);
      else this.#refresh(height);
    }
  }

  /** The id may be asked for (again); no call for it is under way. */
  makeAskable(wanted: WantedCollection): void {
    const height = wanted.heights[0];
    if (height === undefined) return;
    this.#heights.get(height)?.askable.add(wanted.id);
    this.#refresh(height);
  }

  /** The id may not be asked for until `makeAskable`. */
  pause(wanted: WantedCollection): void {
    const height = wanted.heights[0];
    if (height === undefined) return;
    this.#heights.get(height)?.askable.delete(wanted.id);
    this.#refresh(height);
  }

  /** Everything that is wanted, in no particular order. */
  all(): Iterable<WantedCollection> {
    return this.#wanted.values();
  }

  /** A call for the id leaves on behalf of this height. */
  sent(wanted: WantedCollection, height: number): void {
    if (this.#underWay.has(wanted.id)) throw new Error('a collection was asked for twice at once');
    this.#underWay.set(wanted.id, height);
    this.#workers.set(height, (this.#workers.get(height) ?? 0) + 1);
    this.#heights.get(height)?.askable.delete(wanted.id);
    this.#refresh(height);
  }

  /** The call came back, whatever it brought. */
  returned(id: Identifier): void {
    const height = this.#underWay.get(id);
    if (height === undefined) throw new Error('a call returned twice');
    this.#underWay.delete(id);
    const workers = (this.#workers.get(height) ?? 0) - 1;
    if (workers > 0) this.#workers.set(height, workers);
    else this.#workers.delete(height);
    this.#refresh(height);
  }

  #want(height: number, entry: WantingHeight, id: Identifier): void {
    const known = this.#wanted.get(id);
    if (known === undefined) {
      const wanted = newWanted(id, height);
      this.#wanted.set(id, wanted);
      if (!this.#underWay.has(id)) entry.askable.add(id);
      return;
    }
    const lowest = known.heights[0];
    const place = known.heights.findIndex((other) => other > height);
    known.heights.splice(place === -1 ? known.heights.length : place, 0, height);
    if (lowest === undefined || lowest <= height) return;
    if (this.#heights.get(lowest)?.askable.delete(id) === true) {
      entry.askable.add(id);
      this.#refresh(lowest);
    }
  }

  #dropHeight(height: number): void {
    this.#heights.delete(height);
    this.#wanting.delete(height);
    this.#askable.delete(height);
  }

  #refresh(height: number): void {
    const entry = this.#heights.get(height);
    const spare = (this.#workers.get(height) ?? 0) < this.#workersPerHeight;
    if (entry !== undefined && !entry.held && spare && entry.askable.size > 0)
      this.#askable.set(height, height);
    else this.#askable.delete(height);
  }
}

function newHeight(): WantingHeight {
  return { ids: new Set(), askable: new Set(), held: false, holdEndsAtMs: undefined };
}

function newWanted(id: Identifier, height: number): WantedCollection {
  return {
    id,
    heights: [height],
    rotation: new NodeRotation(),
    attempts: 0,
    notFound: 0,
    lastNode: undefined,
    lastWay: undefined,
    lastError: undefined,
    firstAskedAtMs: undefined,
    lastAskedAt: undefined,
    sentAtMs: 0,
    failedAtMs: 0,
    newSinceMs: undefined,
    earlyAttempts: 0,
    silences: 0,
    failures: undefined,
  };
}
