import { status } from '@grpc/grpc-js';
import { upstreamError } from '../../src/access/transport/upstreamErrors.js';
import { withoutCredentials } from '../../src/runtime/index.js';
import { misspelt, oddText } from './mutation.js';
import { insist } from './target.js';
import type { Choices, FuzzTarget, Outcome } from './target.js';

const codes = Object.values(status).filter((code) => typeof code === 'number' && code !== status.OK);
const texts = [
  'not found: please retry for collection in finalized block: 4e',
  'block height 5 is less than the spork root block height 65264619. Try to use a historic node',
  'start height must be greater than or equal to the root height 137390146',
  'Received message larger than max (2097160 vs 1048576)',
  'rate limit reached, please retry later.',
  'No connection established. Last error: connect ECONNREFUSED. Resolution note: ',
  'failed to decompress',
  'grpc://me:sesame@node:9000',
];
/** Pieces that patterns are made of, for texts of one piece over and over. */
const pieces = [
  ' ',
  'a',
  '0',
  '.',
  '://',
  'a://',
  'less than the ',
  'block height ',
  '@',
  '"',
  'Resolution note:',
  '\n',
];
/** Headers hold 64 KiB. */
const LONGEST = 64 * 1024;

/** The words with which a node refuses a call: they are told apart, kept and logged. */
export const statusTarget: FuzzTarget = {
  name: 'status',
  share: 40,
  concurrency: 1,
  open: () => Promise.resolve({ run: refuse, close: () => Promise.resolve() }),
};

function refuse(choices: Choices): Outcome {
  const code = choices.of(codes) as status;
  const details = text(choices);
  const { kind, message, lowestHeight } = upstreamError(
    { code, details },
    { node: 'n:1', method: 'GetBlockByHeight' },
  );
  const logged = withoutCredentials(message);
  insist(logged.length < 1_200, 'a refusal is kept at length', () => ({ code, details }));
  insist(lowestHeight === undefined || Number.isSafeInteger(lowestHeight), 'no height', () => details);
  return kind;
}

function text(choices: Choices): string {
  const parts = Array.from({ length: choices.few(5) }, () => {
    if (choices.once(3)) return oddText(choices);
    if (choices.once(20)) return choices.of(pieces).repeat(choices.of([10, 1_000, 60_000]));
    return choices.once(3) ? misspelt(choices, choices.of(texts)) : choices.of(texts);
  });
  return parts.join(choices.of(['', ' ', ': '])).slice(0, LONGEST);
}
