import { status as grpcStatus } from '@grpc/grpc-js';
import type { DevnetMethod, FaultKind, FaultRule, StatusName } from '../../src/devnet/index.js';
import { methods, parseFaults } from '../../src/devnet/index.js';

/** What a fault makes of an answer, as in "the node …": it decides which cause is the right one. */
export const meanings = {
  refusal: 'answers with an error',
  outage: 'answers with a status that a lost connection has as well',
  silence: 'does not answer',
  break: 'breaks the connection',
  end: 'ends its streams before they told anything',
  nonsense: 'gives bytes that are no answer, or not to what was asked',
  forged: 'gives a block that its id refutes',
  unlinked: 'gives a block that does not stand on the one below',
  'fallen head': 'tells a head far below the one before',
  missing: 'leaves out what is due',
  foreign: 'is of another chain or spork',
  'false root': 'names a root of its spork above the head',
  harmless: 'does what does not matter, or nothing that is used is wrong',
} as const;

export type FaultClass = keyof typeof meanings;

export interface MatrixFault {
  /** As `--only METHOD/FAULT` has it. */
  readonly name: string;
  readonly kind: FaultClass;
  /** Where no stream is struck it is another fault over again. */
  readonly isOfStreams?: true;
  /** The script that does it to one method; empty where it makes no sense. */
  readonly rulesFor: (method: DevnetMethod) => readonly FaultRule[];
}

export const REFUSAL_WORDS = 'the database of this node is locked';
/** The daemon takes no larger message in these tests; `oversized` sends one of 8 MiB. */
export const MAX_MESSAGE = '4MiB';
export const FALSE_ROOT = 1_000_000;

/** Every status is an answer; but these are what a lost connection, or a deadline, ends with as well. */
const OUTAGES: readonly StatusName[] = ['CANCELLED', 'DEADLINE_EXCEEDED', 'ABORTED', 'UNAVAILABLE'];
const errors = (Object.keys(grpcStatus) as StatusName[]).filter((code) => /^(?!OK$)[A-Z]/.test(code));

type Effect = Readonly<Record<string, unknown>> & { readonly fault: FaultRule['fault'] };

function fault(name: string, kind: FaultClass, effect: Effect): MatrixFault {
  return { name, kind, rulesFor: (method) => checked([{ method, ...effect }]) };
}

/** The same as the stream is opened; what is open ends first. Calls that are no streams have it at each call. */
function opening(name: string, kind: FaultClass, effect: Effect): MatrixFault {
  return {
    name: `opening-${name}`,
    kind,
    isOfStreams: true,
    rulesFor: (method) =>
      methods[method].isStream
        ? checked([
            { method, fault: 'cut', how: 'end', times: 1 },
            { method, on: 'open', ...effect },
          ])
        : checked([{ method, ...effect }]),
  };
}

/** None where the devnet says that it makes no sense. */
function checked(rules: readonly object[]): readonly FaultRule[] {
  try {
    return parseFaults(JSON.stringify(rules));
  } catch {
    return [];
  }
}

const status = (code: StatusName): Effect => ({ fault: 'error', code, message: REFUSAL_WORDS });

const faultsByKind: Readonly<Record<FaultKind, readonly MatrixFault[]>> = {
  error: [
    ...errors.map((code) => fault(code, OUTAGES.includes(code) ? 'outage' : 'refusal', status(code))),
    opening('INTERNAL', 'refusal', status('INTERNAL')),
    opening('RESOURCE_EXHAUSTED', 'refusal', status('RESOURCE_EXHAUSTED')),
  ],
  stall: [fault('stall', 'silence', { fault: 'stall' }), opening('stall', 'silence', { fault: 'stall' })],
  latency: [
    // A stream that begins forty blocks below the head gives six in a second: with it after nine, of fifteen.
    fault('latency', 'harmless', { fault: 'latency', delayMs: 100 }),
    fault('endless-latency', 'silence', { fault: 'latency', delayMs: 60_000 }),
  ],
  cut: [
    { ...fault('cut-end', 'end', { fault: 'cut', how: 'end' }), isOfStreams: true },
    fault('cut-reset', 'break', { fault: 'cut', how: 'reset' }),
  ],
  truncated: [fault('truncated', 'nonsense', { fault: 'truncated' })],
  oversized: [fault('oversized', 'nonsense', { fault: 'oversized' })],
  wrong_body: [fault('wrong_body', 'nonsense', { fault: 'wrong_body' })],
  other_body: [fault('other_body', 'nonsense', { fault: 'other_body' })],
  orphaned: [fault('orphaned', 'unlinked', { fault: 'orphaned' })],
  wrong_parent: [fault('wrong_parent', 'unlinked', { fault: 'wrong_parent' })],
  // In a form that nobody knows the block is taken on the node's word, or without a header.
  changed_header: [fault('changed_header', 'harmless', { fault: 'changed_header' })],
  changed_copy: [fault('changed_copy', 'forged', { fault: 'changed_copy' })],
  hidden_header: [fault('hidden_header', 'harmless', { fault: 'hidden_header' })],
  other_chain: [fault('other_chain', 'foreign', { fault: 'other_chain' })],
  other_spork: [fault('other_spork', 'foreign', { fault: 'other_spork' })],
  false_spork: [fault('false_spork', 'false root', { fault: 'false_spork', rootHeight: FALSE_ROOT })],
  swapped_chunks: [fault('swapped_chunks', 'nonsense', { fault: 'swapped_chunks' })],
  missing_chunk: [fault('missing_chunk', 'nonsense', { fault: 'missing_chunk' })],
  extra_chunk: [fault('extra_chunk', 'nonsense', { fault: 'extra_chunk' })],
  head_backwards: [fault('head_backwards', 'fallen head', { fault: 'head_backwards', blocks: 2_000 })],
  execution_data_lag: [
    fault('execution_data_late', 'missing', { fault: 'execution_data_lag', blocks: 1_000_000 }),
    fault('execution_data_early', 'harmless', { fault: 'execution_data_lag', blocks: -4 }),
  ],
  gap: [fault('gap', 'missing', { fault: 'gap' })],
  repeat: [fault('repeat', 'harmless', { fault: 'repeat' })],
};

export const matrixFaults: readonly MatrixFault[] = Object.values(faultsByKind).flat();
