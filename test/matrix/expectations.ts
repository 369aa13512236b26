import type { ReadinessCode } from '../../src/observability/index.js';
import type { FaultClass } from './faults.js';
import type { Subject, Told } from './subjects.js';

export interface Expectation {
  /** Something honest is left, or nothing is wrong: the watermark must go on. Else it may, or the cause is told. */
  readonly mustProgress: boolean;
  /** The right causes: one of them is told where nothing goes on, and no other is ever told. */
  readonly codes: readonly ReadinessCode[];
  /** The process may end with this code instead. */
  readonly exitCode?: number;
  /** A store that was begun on a lone node's word about its root stands where that node said, and only its owner can tell. */
  readonly staysBroken?: true;
}

export const ORDINARY: Readonly<Record<Subject['phases'][number], readonly ReadinessCode[]>> = {
  'catching up': ['behind'],
  tip: [],
  start: ['starting', 'behind'],
  restart: ['starting', 'behind'],
};

const FOREIGN_EXIT_CODE = 76;

/** The right causes for each kind of fault, where nothing more is known. */
export const causes: Readonly<Record<FaultClass, readonly ReadinessCode[]>> = {
  refusal: ['upstream_refusing'],
  outage: ['upstream_unreachable', 'upstream_refusing'],
  silence: ['upstream_unreachable'],
  break: ['upstream_unreachable'],
  end: ['upstream_unreachable', 'upstream_refusing'],
  nonsense: ['upstream_invalid'],
  forged: ['upstream_invalid'],
  unlinked: ['parent_mismatch', 'upstream_invalid'],
  'fallen head': ['head_behind', 'head_stale'],
  missing: ['upstream_unreachable', 'upstream_refusing'],
  foreign: ['chain_replaced', 'upstream_invalid'],
  'false root': ['start_height_ahead', 'upstream_refusing', 'upstream_invalid', 'not_vouched'],
  harmless: [],
};

/** The same fault of another answer is another fault. */
const otherwise: readonly (readonly [Told, string, FaultClass])[] = [
  // Everything in it is true but for what its id refutes.
  ['blocks', 'wrong_body', 'forged'],
  // Of the head the height alone leads on, and that is the same, or one less: an id that is wrong costs a call for the block.
  ['head', 'wrong_body', 'harmless'],
  ['head', 'other_body', 'harmless'],
  ['head', 'orphaned', 'harmless'],
  ['head', 'wrong_parent', 'harmless'],
];

export function kindFor(told: Told, fault: { readonly name: string; readonly kind: FaultClass }): FaultClass {
  return otherwise.find(([what, name]) => what === told && name === fault.name)?.[2] ?? fault.kind;
}

export function expectationOf(
  { told, way, mode, phases }: Pick<Subject, 'told' | 'way' | 'mode' | 'phases'>,
  fault: { readonly name: string; readonly kind: FaultClass },
): Expectation {
  const kind = kindFor(told, fault);
  // Where execution data is the only source, the head of sealed blocks is part of it.
  const isOfFeed = mode === 'ediOnly' && told !== 'blocks';
  const codes: readonly ReadinessCode[] =
    isOfFeed && kind !== 'harmless' ? ['edi_unavailable', ...causes[kind]] : causes[kind];
  const mustProgress =
    way !== 'none' ||
    kind === 'harmless' ||
    // Nothing above the head that is known is needed to catch up with it.
    (told === 'head' && phases.length === 1 && phases[0] === 'catching up') ||
    // What a node does not know of itself it need not tell.
    (told === 'identity' && fault.name === 'UNIMPLEMENTED');
  const mayEnd = told === 'identity' && kind === 'foreign';
  return {
    ...{ mustProgress, codes },
    ...(mayEnd && way === 'none' ? { exitCode: FOREIGN_EXIT_CODE } : {}),
    ...(kind === 'false root' && way === 'none' && phases[0] === 'start' ? { staysBroken: true } : {}),
  };
}

/** Said of the chain that all nodes tell, not of what one node did: such a message has its own words, and names none. */
export const OF_THE_CHAIN: ReadonlySet<ReadinessCode> = new Set([
  'start_height_ahead',
  'head_behind',
  'head_stale',
  'chain_replaced',
]);

/** What the message says of each kind, besides the node's name: loosely, as the words are the daemon's own. */
export const WORDS: Readonly<Record<FaultClass, RegExp>> = {
  refusal: /the database of this node is locked/,
  outage: /the database of this node is locked/,
  silence: /no answer|not answer|DEADLINE|silen|nothing|did not come|stood still|stands still|stalled|late/i,
  break: /UNAVAILABLE|reset|broke|ECONN|dropped|lost|closed/i,
  end: /end|cut|UNAVAILABLE|reset|nothing/i,
  nonsense:
    /larger|decode|truncat|malformed|hash|not match|refus|invalid|wrong|another|other|asked|sent a|chunk|ends|message/i,
  forged: /not fit its id/,
  unlinked: /follow|parent|chain|continue|finalized/i,
  'fallen head': /head/i,
  missing: /execution data|nothing|silen|not come|lag|pruned|missing|end/i,
  foreign: /chain|spork/i,
  'false root': /serves|spork|root|begin/i,
  harmless: /./,
};
