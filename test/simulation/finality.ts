import type { ProofMode } from '../../src/access/node/BlockProofs.js';
import type { ChainOptions, FaultRule } from '../../src/devnet/index.js';
import { SEALS_BEHIND_HEIGHTS, viewsOf } from '../../src/devnet/chain/encodeHeader.js';
import type { FinalityProver } from '../../src/finality/index.js';
import type { Stretch } from './catalogue.js';
import { Dice } from './Dice.js';
import type { Scenario } from './plan.js';

/**
 * Who signs: committees, epoch after epoch; the same, with an epoch that goes on because no next one was committed; from some
 * block on a minority; or from some epoch on a committee that nobody committed.
 */
export type Signing = 'committees' | 'fallback' | 'minority' | 'forgers';

/** How many of the provable worlds over one spork have certificates. */
const SIGNED_SHARE = 0.35;
const FINALITY_SHARE = 0.5;
const CHECKPOINT_SHARE = 0.4;
const LIES_SHARE = 0.6;
/** Two epochs begin within the longer stretches. */
const EPOCH_VIEWS = 16;
const SNAPSHOT = 'GetProtocolStateSnapshotByHeight';

export interface Signed {
  readonly signing: Signing;
  /** No higher block is signed by those who may. */
  readonly provable: number;
  readonly isSound: boolean;
}

export function signingOf(seed: number): Signing | undefined {
  const dice = new Dice(seed, 'certificates');
  if (!dice.chance(SIGNED_SHARE)) return undefined;
  return dice.pick(['committees', 'fallback', 'minority', 'forgers']);
}

/** How the chain of a stretch is signed, and what of that proves it final. */
export function signed(
  signing: Signing,
  { rootHeight, firstHeight, stopHeight }: Record<'rootHeight' | 'firstHeight' | 'stopHeight', number>,
): { readonly chain: Partial<ChainOptions>; readonly signed: Signed } {
  const by = (chain: Partial<ChainOptions>, provable: number, isSound: boolean) => ({
    chain: { certificatesEvery: 1, epochViews: EPOCH_VIEWS, ...chain },
    signed: { signing, provable, isSound },
  });
  const forgedFrom = heightOfView(viewsOf(rootHeight).view + EPOCH_VIEWS, rootHeight);
  const minorityFrom = Math.floor((firstHeight + stopHeight) / 2);
  switch (signing) {
    case 'committees':
      return by({}, topOf(stopHeight), true);
    case 'fallback':
      return by({ fallbackEpoch: 0 }, topOf(stopHeight), true);
    case 'forgers':
      if (forgedFrom < firstHeight || forgedFrom > stopHeight - 2)
        return signed('minority', { rootHeight, firstHeight, stopHeight });
      return by({ forgedEpoch: 1 }, forgedFrom - 2, false);
    case 'minority':
      return by({ minorityFrom }, minorityFrom - 3, false);
  }
}

/** The highest block with two above it, and the next view in the first of these. */
function topOf(stopHeight: number): number {
  const top = stopHeight - 2;
  return viewsOf(top + 1).isSkipped ? top - 1 : top;
}

function heightOfView(view: number, from: number): number {
  let height = from;
  while (viewsOf(height).view < view) height += 1;
  return height;
}

/** Adds to a scenario over a signed stretch who may read what, whom the operator trusts, and who lies of committees. */
export function withFinality(scenario: Scenario, stretch: Stretch): Scenario {
  const { config, endpoints, events, quietAtMs, seed } = scenario;
  if (stretch.signed === undefined) return scenario;
  const dice = new Dice(seed, 'finality');
  const isProving = config.proof.mode !== 'off';
  const first = stretch.blockAt(stretch.firstHeight);
  return {
    ...scenario,
    startHead: Math.min(scenario.startHead, stretch.endHeight),
    events: events.map(({ atMs, event }) => {
      if (event.kind !== 'head') return { atMs, event };
      return { atMs, event: { ...event, height: Math.min(event.height, stretch.endHeight) } };
    }),
    config: {
      ...config,
      // It ends when all is proven that can be, and not before.
      stopHeight: undefined,
      proof: {
        mode: config.proof.mode,
        finality: isProving && dice.chance(FINALITY_SHARE) ? 'proven' : 'reported',
        checkpoint: dice.chance(CHECKPOINT_SHARE) ? `${first.height}:${first.id}` : undefined,
      },
    },
    endpoints: endpoints.map((endpoint) => ({
      ...endpoint,
      // There are no blocks above the last one for which execution data could be late.
      backends: endpoint.backends.map((backend) => ({
        ...backend,
        executionDataLag: Math.min(0, backend.executionDataLag),
      })),
      faults: [
        ...(dice.chance(LIES_SHARE) ? [liesOfCommittees(dice, quietAtMs)] : []),
        // Nothing is above the last block that would show one beside it.
        ...endpoint.faults.filter(({ fault }) => fault !== 'orphaned'),
      ],
    })),
  };
}

function liesOfCommittees(dice: Dice, quietAtMs: number): FaultRule {
  const until = { untilMs: dice.whole(0, quietAtMs), probability: dice.magnitude(0.1, 1) };
  if (dice.chance(0.5)) return { method: SNAPSHOT, fault: 'wrong_body', ...until };
  const code = dice.pick(['NOT_FOUND', 'UNAVAILABLE', 'INTERNAL'] as const);
  return { method: SNAPSHOT, fault: 'error', code, ...until };
}

/** What is wrong with what a process says of finality. `shownTo`: what readers see if proven blocks alone, or -1. */
export function wrongFinality(
  prover: Pick<FinalityProver, 'sealedHeight' | 'status'>,
  { blockAt, firstHeight, signed: its }: Pick<Stretch, 'blockAt' | 'firstHeight' | 'signed'>,
  shownTo: number,
): string | undefined {
  if (its === undefined) return undefined;
  const { anchor, failed, provenHeight = -1 } = prover.status();
  if (anchor !== undefined && blockAt(anchor.height).id !== anchor.id)
    return `the anchor at height ${anchor.height} is not a block of the chain`;
  // Once no node has an earlier state, nodes are believed, and so may forgers be.
  const isBelieved = its.signing === 'forgers' && (anchor?.height ?? 0) > its.provable;
  if (isBelieved) return undefined;
  if (provenHeight > its.provable) return `height ${provenHeight} is called final, above ${its.provable}`;
  if (shownTo >= firstHeight && provenHeight >= firstHeight && shownTo !== provenHeight)
    return `height ${provenHeight} is called final, and readers see ${shownTo}`;
  if (shownTo > Math.max(its.provable, firstHeight - 1))
    return `readers see height ${shownTo}, above ${its.provable}, of which nothing is proven`;
  if (failed !== undefined && its.isSound)
    return `a certificate of the committee is refused: ${failed.reason}`;
  if ((failed?.rewindTo ?? 0) > its.provable && (anchor?.height ?? 0) <= its.provable)
    return `a rewind to ${failed?.rewindTo} is advised, where nothing above ${its.provable} is signed`;
  const sealed = prover.sealedHeight();
  if (sealed !== undefined && sealed > its.provable - SEALS_BEHIND_HEIGHTS)
    return `height ${sealed} is called sealed, whose seal is in no block that can be final`;
  return undefined;
}

/** All is proven that can be, or what cannot be is named. */
export function isSettled(
  prover: Pick<FinalityProver, 'status'>,
  { signed: its }: Pick<Stretch, 'signed'>,
  mode: ProofMode,
): boolean {
  if (its === undefined || mode === 'off') return true;
  const { anchor, failed, provenHeight } = prover.status();
  const isAbove = (anchor?.height ?? -1) > its.provable;
  return isAbove || (its.isSound ? provenHeight === its.provable : failed !== undefined);
}
