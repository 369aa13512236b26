import { toIdentifier } from '../../flow/index.js';
import type { ExecutionResult, Identifier } from '../../flow/index.js';
import type { Committee } from './committee.js';
import { bindResult } from './executionResultId.js';
import type { EpochCommit, EpochEvent, EpochSetup } from './serviceEvents.js';

/** An epoch that is committed. `finalView` includes its extensions. */
export interface KnownEpoch {
  readonly firstView: number;
  readonly finalView: number;
  readonly committee: Committee;
}

/** The epochs as of a block. Plain data. */
export interface EpochState {
  readonly previous?: KnownEpoch;
  readonly current: KnownEpoch;
  readonly next?: EpochSetup;
  /** Only with `next`. */
  readonly nextCommit?: EpochCommit;
  /** The network has given up on the next epoch: the current one goes on until a recover event. */
  readonly isFallback: boolean;
  /** So many views before the end of an epoch the next one must be committed. */
  readonly safetyThreshold: number;
  /** How far the fallback extends an epoch at a time. */
  readonly extensionViews: number;
}

/** What a proven block says of epochs. */
export interface EpochBlock {
  readonly view: number;
  readonly seals: readonly { readonly blockId: Identifier; readonly resultId: Identifier }[];
  /** The results in its payload: not believed before they are hashed. */
  readonly results: readonly ExecutionResult[];
  /** The ids of these results, which the payload hash has proven. */
  readonly resultIds: readonly Identifier[];
}

export interface EpochProgress {
  /** Whether another epoch began, or the next one was set up or committed, or the fallback began or ended. */
  readonly isChanged: boolean;
  /** Sealed results whose events were never learned: before the anchor, of an unknown form, or withheld. */
  readonly missing: readonly Identifier[];
}

interface UnsealedResult {
  readonly blockId: Identifier;
  readonly events: readonly EpochEvent[];
}

/** Results wait for their seal: a network seals within a minute. Of more, the oldest are forgotten, and then missing. */
export const MAX_UNSEALED_RESULTS = 2_000;

/**
 * Which committee signs at which view, followed from an anchor by the blocks after it, in order and all of them. Only
 * events of sealed results count, from the block on that has the seal: what no seal names changes nothing.
 *
 * It keeps the rules of the network's own state machine, except for those about collection clusters and the beacon's
 * participants: where an event breaks only these, the network falls back and we do not. Certificates of the next epoch
 * are then found invalid, and a new anchor helps.
 */
export class EpochCommittees {
  #state: EpochState;
  readonly #unsealed: Map<Identifier, UnsealedResult>;
  #missed: number;

  constructor(
    anchor: EpochState,
    unsealed: readonly (readonly [Identifier, UnsealedResult])[] = [],
    missed = 0,
  ) {
    this.#state = anchor;
    this.#unsealed = new Map(unsealed);
    this.#missed = missed;
  }

  /** From what `toJSON` gave. */
  static restore(saved: ReturnType<EpochCommittees['toJSON']>): EpochCommittees {
    return new EpochCommittees(saved.state, saved.unsealed, saved.missed);
  }

  /** Plain data: some 30 KB per epoch of a network with 120 members, three epochs at most. */
  toJSON() {
    return { state: this.#state, unsealed: [...this.#unsealed], missed: this.#missed };
  }

  get state(): EpochState {
    return this.#state;
  }

  /** How many sealed results were missing since the anchor: with any, a committee may be outdated, and no node is to blame. */
  get missed(): number {
    return this.#missed;
  }

  /** Who signs for blocks of this view; `undefined` before the epochs that are known. */
  committeeAt(view: number): Committee | undefined {
    const { previous, current, next, nextCommit } = this.#state;
    if (next !== undefined && nextCommit !== undefined && view > current.finalView) {
      return knownEpoch(next, nextCommit).committee;
    }
    if (view >= current.firstView) return current.committee;
    return previous !== undefined && view >= previous.firstView ? previous.committee : undefined;
  }

  /**
   * Learns the results of a block without its seals: for the blocks just before the anchor, whose results are sealed
   * after it.
   */
  learn({ results, resultIds }: Pick<EpochBlock, 'results' | 'resultIds'>): void {
    for (const result of results) {
      const bound = bindResult(result, resultIds);
      if (bound === undefined || this.#unsealed.has(bound.id)) continue;
      this.#unsealed.set(bound.id, { blockId: toIdentifier(result.blockId), events: bound.events });
    }
    for (const id of this.#unsealed.keys()) {
      if (this.#unsealed.size <= MAX_UNSEALED_RESULTS) break;
      this.#unsealed.delete(id);
    }
  }

  /** The next block of the finalized chain. */
  apply(block: EpochBlock): EpochProgress {
    this.learn(block);
    const sealedIds = new Set(block.seals.map(({ resultId }) => resultId));
    const missing = [...sealedIds].filter((id) => !this.#unsealed.has(id));
    this.#missed += missing.length;
    // The order in which they were learned: a result is never in the chain before the one that it builds on.
    const events = [...this.#unsealed].flatMap(([id, result]) => (sealedIds.has(id) ? result.events : []));
    // Of one block only one result is ever sealed.
    const sealedBlocks = new Set(block.seals.map(({ blockId }) => blockId));
    for (const [id, { blockId }] of this.#unsealed) if (sealedBlocks.has(blockId)) this.#unsealed.delete(id);

    const before = this.#state;
    this.#state = withEvents(atView(before, block.view), events, block.view);
    return { isChanged: this.#state !== before, missing };
  }
}

export function knownEpoch(setup: EpochSetup, commit: EpochCommit, finalView = setup.finalView): KnownEpoch {
  const { beaconKey } = commit;
  return { firstView: setup.firstView, finalView, committee: { ...setup.committee, beaconKey } };
}

/** What the view of a block alone changes. */
function atView(state: EpochState, view: number): EpochState {
  const { current, next, nextCommit } = state;
  if (next !== undefined && nextCommit !== undefined) {
    if (view <= current.finalView) return state;
    return { ...settings(state), previous: current, current: knownEpoch(next, nextCommit) };
  }
  if (view + state.safetyThreshold < current.finalView) return state;
  const finalView = current.finalView + state.extensionViews;
  return { ...fallback(state), current: { ...current, finalView } };
}

/** All events of a block, or, where one is invalid, only what the fallback takes of them. */
function withEvents(state: EpochState, events: readonly EpochEvent[], view: number): EpochState {
  const epochs = (state.isFallback ? undefined : inOrder(state, events)) ?? recovered(state, events, view);
  const lengths = events.flatMap((event) => (event.kind === 'extension-length' ? event.views : []));
  const extensionViews = lengths.findLast((views) => views >= 2 * state.safetyThreshold);
  return extensionViews === undefined ? epochs : { ...epochs, extensionViews };
}

/** `undefined` when an event is invalid. */
function inOrder(before: EpochState, events: readonly EpochEvent[]): EpochState | undefined {
  let state = before;
  for (const event of events) {
    if (event.kind === 'recover') return undefined;
    if (event.kind === 'setup') {
      if (state.next !== undefined || !follows(event.setup, state.current)) return undefined;
      state = { ...state, next: event.setup };
    } else if (event.kind === 'commit') {
      if (state.nextCommit !== undefined || !completes(event.commit, state.next)) return undefined;
      state = { ...state, nextCommit: event.commit };
    }
  }
  return state;
}

function recovered(before: EpochState, events: readonly EpochEvent[], view: number): EpochState {
  const state = before.isFallback ? before : fallback(before);
  if (state.next !== undefined || view + state.safetyThreshold >= state.current.finalView) return state;
  for (const event of events) {
    if (event.kind !== 'recover') continue;
    const { setup: next, commit: nextCommit } = event;
    if (follows(next, state.current) && completes(nextCommit, next)) {
      return { ...state, next, nextCommit, isFallback: false };
    }
  }
  return state;
}

/** What is not committed is dropped. */
function fallback(state: EpochState): EpochState {
  if (state.nextCommit !== undefined) return { ...state, isFallback: true };
  const { previous, current } = state;
  return { ...settings(state), ...(previous !== undefined && { previous }), current, isFallback: true };
}

function settings({ isFallback, safetyThreshold, extensionViews }: EpochState) {
  return { isFallback, safetyThreshold, extensionViews };
}

function follows(setup: EpochSetup, { finalView, committee }: KnownEpoch): boolean {
  return setup.isSound && setup.counter === committee.epoch + 1 && setup.firstView === finalView + 1;
}

function completes(commit: EpochCommit, setup: EpochSetup | undefined): boolean {
  return setup !== undefined && commit.counter === setup.counter && commit.clusters === setup.clusters;
}
