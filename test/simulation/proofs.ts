import type { ProofMode } from '../../src/access/node/BlockProofs.js';
import type { FaultRule } from '../../src/devnet/index.js';
import { PLAIN_STRETCHES, type Stretch } from './catalogue.js';
import { signingOf, type Signing } from './finality.js';
import { Dice } from './Dice.js';
import { soundLink } from './draws.js';
import { isUnsigned, keepsItsWorld } from './knownBadSeeds.js';
import type { EndpointPlan, Scenario } from './plan.js';

const PROVABLE_SHARE = 0.8;
const OFF_SHARE = 0.1;
/** Of the provable worlds whose blocks are proven. */
const REQUIRED_SHARE = 0.15;
/** How many of the worlds whose blocks are proven have nodes that lie of headers and copies. */
const LIARS_SHARE = 0.5;
/** How many of these have a node beside the liars at which nothing goes wrong. */
const STEADFAST_SHARE = 0.5;
const MAX_LIES = 3;
/** How many of the worlds whose blocks are proven have first processes that prove nothing. */
const LATE_SHARE = 0.25;
const BLOCK_METHODS = ['GetBlockByHeight', 'SubscribeBlocksFromStartHeight', '*'] as const;

/** Drawn apart from everything else; known seeds keep the world in which they failed, where nothing was proven. */
export function isProvableWorld(seed: number): boolean {
  return !keepsItsWorld(seed) && new Dice(seed, 'provable').chance(PROVABLE_SHARE);
}

/** Who signs what a world indexes; only over one spork, and where blocks are provable. */
export function signingOfWorld(seed: number, index: number): Signing | undefined {
  return isProvableWorld(seed) && !isUnsigned(seed) && index < PLAIN_STRETCHES ? signingOf(seed) : undefined;
}

/** The scenario with its mode of proving, and with nodes that lie of what is proven. */
export function withProofs(scenario: Scenario, stretch: Stretch): Scenario {
  const { config, seed } = scenario;
  const dice = new Dice(seed, 'proofs');
  const mode = keepsItsWorld(seed) ? 'off' : modeOf(dice, stretch.isProvable);
  const proving = { ...scenario, config: { ...config, proof: { ...config.proof, mode } } };
  const late =
    mode === 'auto' && stretch.isProvable ? { ...proving, provenFrom: provenFromOf(scenario) } : proving;
  return mode === 'off' || !dice.chance(LIARS_SHARE) ? late : withLiars(late, stretch, dice);
}

/** Drawn apart, so that a seed meets the same faults. What a bad link changed would be stored for good by who proves nothing. */
function provenFromOf({ endpoints, seed }: Scenario): number {
  const dice = new Dice(seed, 'proven from');
  const isSound = endpoints.every(({ link }) => link.corruptShare === 0);
  return isSound && dice.chance(LATE_SHARE) ? dice.whole(2, 3) : 1;
}

function modeOf(dice: Dice, isProvable: boolean): ProofMode {
  if (dice.chance(OFF_SHARE)) return 'off';
  return isProvable && dice.chance(REQUIRED_SHARE) ? 'required' : 'auto';
}

function withLiars(scenario: Scenario, stretch: Stretch, dice: Dice): Scenario {
  const { endpoints, events, quietAtMs } = scenario;
  const live = stretch.sporks.length - 1;
  const isAsked = (index: number): boolean => !scenario.config.peers.includes(endpoints[index]!.name);
  const choices = [...endpoints.keys()].filter((index) => isAsked(index) && endpoints[index]!.spork === live);
  // Some seeds need the first node; the one that tells of a false spork is the last of the live one.
  const steadfast = choices.length > 1 && dice.chance(STEADFAST_SHARE) ? choices[0] : undefined;
  return {
    ...scenario,
    endpoints: endpoints.map((endpoint, index) => {
      if (index === steadfast) return { ...endpoint, faults: [], link: soundLink(dice) };
      if (!isAsked(index) || !dice.chance(0.7)) return endpoint;
      // Ahead of the others: the first lie is the one that is told.
      const isRefuted = stretch.isProvable && scenario.provenFrom === 1;
      return { ...endpoint, faults: [...liesOf(dice, quietAtMs, isRefuted), ...endpoint.faults] };
    }),
    events: events.filter(({ event }) => !('endpoint' in event) || event.endpoint !== steadfast),
  };
}

/** Of heights that are proven nobody need hold back: also of the first block, and of the last one. */
function liesOf(dice: Dice, quietAtMs: number, isRefuted: boolean): FaultRule[] {
  const unproven: readonly (() => FaultRule)[] = [
    () => ({
      ...{ method: dice.pick(BLOCK_METHODS), fault: 'changed_header' },
      field: dice.pick(['proposer', 'payload_hash']),
    }),
    () => ({ method: dice.pick(BLOCK_METHODS), fault: 'hidden_header' }),
  ];
  const forged: readonly (() => FaultRule)[] = [
    () => ({ method: dice.pick(BLOCK_METHODS), fault: 'changed_header', field: 'id' }),
    () => ({
      ...{ method: dice.pick(BLOCK_METHODS), fault: 'changed_copy' },
      field: dice.pick(['time', 'height', 'signature', 'guarantee']),
    }),
    () => ({ method: dice.pick(['GetBlockByHeight', 'SubscribeBlocks*']), fault: 'wrong_body' }),
    () => ({ method: dice.pick(['GetBlockByHeight', 'SubscribeBlocks*']), fault: 'wrong_parent' }),
    () => ({ method: dice.pick(BLOCK_METHODS), fault: 'hidden_header', invents: true }),
  ];
  // Where nothing is proven, only that is harmless which the store does not hold.
  const lies = isRefuted ? [...unproven, ...forged] : unproven;
  return Array.from({ length: dice.whole(1, MAX_LIES) }, () => {
    const afterMs = dice.chance(0.6) ? 0 : dice.whole(0, quietAtMs);
    return {
      ...dice.pick(lies)(),
      ...{ afterMs, untilMs: dice.whole(afterMs, quietAtMs) },
      ...(dice.chance(0.4) ? {} : { probability: dice.magnitude(0.05, 1) }),
    };
  });
}

/** Taken on trust: all of a spork's nodes may hide what proves its blocks, or be away while the others do. */
export function mayLackProof(
  { config, endpoints, events, falseSpork, provenFrom }: Scenario,
  stretch: Stretch,
  height: number,
) {
  const { mode } = config.proof;
  if (mode === 'off' || provenFrom > 1 || !stretch.isProvable) return true;
  if (mode === 'required') return false;
  const spork = stretch.sporks.findIndex(({ lastHeight }) => height <= lastHeight);
  const nodes = [...endpoints.entries()].filter(
    ([, { name, spork: its }]) => its === spork && !config.peers.includes(name),
  );
  const isSteadfast = ([index, { backends, faults, link }]: readonly [number, EndpointPlan]): boolean =>
    faults.length === 0 &&
    backends.every(({ lagHeights }) => lagHeights === 0) &&
    link.slowShare + link.lossShare === 0 &&
    index !== falseSpork?.endpoint &&
    !events.some(({ event }) => 'endpoint' in event && event.endpoint === index);
  return nodes.some(([, { faults }]) => faults.some(hidesProof)) && !nodes.some(isSteadfast);
}

function hidesProof(rule: FaultRule): boolean {
  return rule.fault === 'hidden_header' || (rule.fault === 'changed_header' && rule.field !== 'id');
}
