import type { SporkTable } from '../../src/access/index.js';
import type { ProofMode } from '../../src/access/node/BlockProofs.js';
import type { DaemonConfig } from '../../src/config/index.js';
import type { FaultRule } from '../../src/devnet/index.js';
import type { Signing } from './finality.js';
import type { LinkQuality } from './SimulatedEndpoint.js';

export const SOUND_BACKEND = {
  lagHeights: 0,
  sealedLag: 2,
  executionDataLag: 0,
  executionData: true,
  onlyDeprecatedExecutionData: false,
  streams: true,
  fullCollections: true,
  collectionLagMs: 0,
  ratePerSecond: 0,
  maxStreams: 1000,
};

export type BackendPlan = Readonly<typeof SOUND_BACKEND>;

export interface EndpointPlan {
  readonly name: string;
  /** The spork of the stretch whose heights its nodes serve, and no others; the live one is the last. */
  readonly spork: number;
  readonly backends: readonly BackendPlan[];
  readonly link: LinkQuality;
  readonly faults: readonly FaultRule[];
}

export type WorldEvent =
  | { readonly kind: 'down'; readonly endpoint: number; readonly how: 'refusing' | 'silent' }
  | { readonly kind: 'up'; readonly endpoint: number; readonly prunedHeights: number }
  | { readonly kind: 'reset'; readonly endpoint: number }
  | { readonly kind: 'other_chain'; readonly endpoint: number }
  | { readonly kind: 'identity_lie'; readonly endpoint: number; readonly about: 'chain' | 'spork' }
  | { readonly kind: 'head'; readonly height: number }
  | { readonly kind: 'lag'; readonly endpoint: number; readonly heights: number }
  | { readonly kind: 'wall_jump'; readonly ms: number }
  | { readonly kind: 'crash'; readonly losesPower: boolean }
  | { readonly kind: 'terminate' };

export interface TimedEvent {
  readonly atMs: number;
  readonly event: WorldEvent;
}

export const SOUND_DISK = {
  writeMs: 2,
  ...{ slowShare: 0, slowMs: 0, writeFailureShare: 0, readFailureShare: 0 },
  /** Share of the stages of a write at which the process dies. */
  crashShare: 0,
};

export type DiskPlan = Readonly<typeof SOUND_DISK>;

/** A node that says, from first to last, that a spork begins where none does; the chain goes on meanwhile. */
export interface FalseSpork {
  readonly endpoint: number;
  readonly rootHeight: number;
  /** Its id is that of the block there. */
  readonly isNamed: boolean;
  /** It has nothing above the root either. */
  readonly withholds: boolean;
  readonly blockEveryMs: number;
}

export interface Scenario {
  readonly seed: number;
  readonly stretch: number;
  readonly config: DaemonConfig;
  readonly endpoints: readonly EndpointPlan[];
  /** What the daemon knows of earlier sporks and of who serves them. */
  readonly sporkTable: SporkTable;
  readonly disk: DiskPlan;
  readonly startHead: number;
  readonly events: readonly TimedEvent[];
  /** The process dies after so many steps of the world, counted from its start; once each. */
  readonly crashSteps: readonly number[];
  /** From here on nothing goes wrong any more. */
  readonly quietAtMs: number;
  /** From then on no node offers execution data: what was won by it so far must not hold up the requests. */
  readonly endsWithoutExecutionData: boolean;
  readonly falseSpork: FalseSpork | undefined;
  /** From this process on, counted from 1, the account index is on. `Infinity`: it never is. */
  readonly accountsFrom: number;
  /** From this process on, counted from 1, blocks are proven, where they are; those before leave what they store unproven. */
  readonly provenFrom: number;
  /** Below this height of the stretch everything is history, filled in beside the live range in ranges of so many heights. */
  readonly history: { readonly below: number; readonly rangeHeights: number } | undefined;
}

/** What a fault-free run depends on besides its stretch. */
export interface ReferenceKind {
  readonly hasAccounts?: boolean;
  readonly isProvable?: boolean;
  readonly proofMode?: ProofMode;
  readonly signing?: Signing | undefined;
}
