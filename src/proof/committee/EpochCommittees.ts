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
  readonly previous?: KnownEpoch | undefined;
  readonly current: KnownEpoch;
  /** Signs only once it is committed. */
  readonly next?: { readonly setup: EpochSetup; readonly commit?: EpochCommit } | undefined;
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

  /** Plain data: 40 KB for each of up to three epochs of 120 members, and 150 bytes for each result that is not sealed yet. */
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
    const { previous, current, next } = this.#state;
    return [committed(next), current, previous].find(
      (epoch) => epoch !== undefined && view >= epoch.firstView,
    )?.committee;
  }

  /** The last view of the epochs that are known; beyond it, `committeeAt` assumes that the fallback extends the current one. */
  get lastView(): number {
    const { current, next } = this.#state;
    return committed(next)?.finalView ?? current.finalView;
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
    this.#state = withEvents(atView(before, block.view), events);
    return { isChanged: this.#state !== before, missing };
  }
}

export function knownEpoch(setup: EpochSetup, commit: EpochCommit, finalView = setup.finalView): KnownEpoch {
  const { beaconKey } = commit;
  // A simulated network may have no beacon; on Flow every epoch that is committed has one.
  const committee = beaconKey === '' ? setup.committee : { ...setup.committee, beaconKey };
  return { firstView: setup.firstView, finalView, committee };
}

/** Who signs, by view, in the epochs that a protocol state knows, and in no others. */
export function committeesIn({ previous, current, next }: EpochState) {
  const epochs = [committed(next), current, previous];
  return (view: number): Committee | undefined =>
    epochs.find((epoch) => epoch !== undefined && view >= epoch.firstView && view <= epoch.finalView)
      ?.committee;
}

function committed(next: EpochState['next']): KnownEpoch | undefined {
  return next?.commit && knownEpoch(next.setup, next.commit);
}

/** What the view of a block alone changes. */
function atView(state: EpochState, view: number): EpochState {
  const { current } = state;
  const next = committed(state.next);
  if (next !== undefined) {
    return view <= current.finalView
      ? state
      : { ...state, previous: current, current: next, next: undefined };
  }
  if (view + state.safetyThreshold < current.finalView) return state;
  const finalView = current.finalView + state.extensionViews;
  return { ...state, isFallback: true, next: undefined, current: { ...current, finalView } };
}

/** All events of a block, or, where one is invalid, only what the fallback takes of them. */
function withEvents(state: EpochState, events: readonly EpochEvent[]): EpochState {
  const epochs = (state.isFallback ? undefined : inOrder(state, events)) ?? recovered(state, events);
  const lengths = events.flatMap((event) => (event.kind === 'extension-length' ? event.views : []));
  const extensionViews = lengths.findLast((views) => views >= 2 * state.safetyThreshold);
  return extensionViews === undefined ? epochs : { ...epochs, extensionViews };
}

/** `undefined` when an event is invalid. */
function inOrder(before: EpochState, events: readonly EpochEvent[]): EpochState | undefined {
  let state = before;
  for (const event of events) {
    const { next, current } = state;
    if (event.kind === 'recover') return undefined;
    if (event.kind === 'setup') {
      if (next !== undefined || !follows(event.setup, current)) return undefined;
      state = { ...state, next: { setup: event.setup } };
    } else if (event.kind === 'commit') {
      if (next === undefined || next.commit !== undefined || !completes(event.commit, next.setup))
        return undefined;
      state = { ...state, next: { ...next, commit: event.commit } };
    }
  }
  return state;
}

/** In fallback, a next epoch that is not committed is dropped, and only a recover event sets up another. */
function recovered(before: EpochState, events: readonly EpochEvent[]): EpochState {
  const next = before.next?.commit && before.next;
  const state = before.isFallback ? before : { ...before, next, isFallback: true };
  if (next !== undefined) return state;
  for (const event of events) {
    if (event.kind !== 'recover') continue;
    const { setup, commit } = event;
    if (follows(setup, state.current) && completes(commit, setup)) {
      return { ...state, next: { setup, commit }, isFallback: false };
    }
  }
  return state;
}

function follows(setup: EpochSetup, { finalView, committee }: KnownEpoch): boolean {
  return setup.isSound && setup.counter === committee.epoch + 1 && setup.firstView === finalView + 1;
}

function completes(commit: EpochCommit, setup: EpochSetup): boolean {
  return commit.counter === setup.counter && commit.clusters === setup.clusters;
}
