import { status } from '@grpc/grpc-js';
import { parseEndpoint } from '../../src/access/index.js';
import { upstreamError } from '../../src/access/transport/upstreamErrors.js';
import { withoutCredentials } from '../../src/runtime/index.js';
import { commandLineTarget } from './commandLine.js';
import { configurationTarget } from './configuration.js';
import { grpcTarget } from './grpc.js';
import { httpTarget } from './http.js';
import { list, misspelt, oddText } from './mutation.js';
import { fullBlockTarget, proofDocumentTarget, protocolStateTarget } from './proofs.js';
import { tableTarget } from './tables.js';
import { insist, toldOperator, type Choices, type FuzzTarget, type Outcome } from './target.js';
import { webSocketTarget } from './webSocket.js';
import { wireTarget } from './wire.js';

const endpoints = list('grpc://node:9000 grpcs://n.x:9001 localhost:3570 [::1]:9000 grpc://[2001:db8::7]:1');

const endpointTarget: FuzzTarget = { name: 'endpoint', share: 60, open: () => parse };

function parse(choices: Choices): Outcome {
  const text = choices.once(4)
    ? oddText(choices)
    : choices.once(6)
      ? choices.of(endpoints) + oddText(choices)
      : misspelt(choices, choices.of(endpoints));
  const input = () => text;
  try {
    const { name, host, port } = parseEndpoint(text);
    const isPossible = /^[\x21-\x7e]+$/.test(name) && host !== '' && port >= 1 && port <= 65_535;
    insist(isPossible, 'an impossible endpoint', input);
    return 'accepted';
  } catch (error) {
    const told = toldOperator(error, ['configuration', 'usage'], input);
    insist(told.includes('Write grpc://host:port'), 'the allowed form is not named', input);
    const reason = /: ([^:]*)\. Write grpc/.exec(told)?.[1] ?? 'another reason';
    return reason.replace(/^\S+ (?=is not a protocol)/, 'it ');
  }
}

const codes = Object.values(status).filter((code) => typeof code === 'number' && code !== status.OK);
const refusals = [
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
const texts = [' ', '\n', 'less than the ', 'block height ', 'Resolution note:'];
const pieces = [...list('a 0 . @ " :// a://'), ...texts];
/** Headers hold 64 KiB. */
const LONGEST = 64 * 1024;

/** The words with which a node refuses a call: they are told apart, kept and logged. */
const statusTarget: FuzzTarget = { name: 'status', share: 40, open: () => refuse };

function refuse(choices: Choices): Outcome {
  const code = choices.of(codes) as status;
  const details = text(choices);
  const call = { node: 'n:1', method: 'GetBlockByHeight' } as const;
  const { kind, message, lowestHeight } = upstreamError({ code, details }, call);
  const logged = withoutCredentials(message);
  insist(logged.length < 1_200, 'a refusal is kept at length', () => ({ code, details }));
  insist(lowestHeight === undefined || Number.isSafeInteger(lowestHeight), 'no height', () => details);
  return kind;
}

function text(choices: Choices): string {
  const parts = Array.from({ length: choices.few(5) }, () => {
    if (choices.once(3)) return oddText(choices);
    if (choices.once(20)) return choices.of(pieces).repeat(choices.of([10, 1_000, 60_000]));
    return choices.once(3) ? misspelt(choices, choices.of(refusals)) : choices.of(refusals);
  });
  return parts.join(choices.of(['', ' ', ': '])).slice(0, LONGEST);
}

export const targets: readonly FuzzTarget[] = [
  wireTarget,
  fullBlockTarget,
  protocolStateTarget,
  proofDocumentTarget,
  statusTarget,
  endpointTarget,
  configurationTarget,
  tableTarget,
  commandLineTarget,
  httpTarget,
  webSocketTarget,
  grpcTarget,
];
