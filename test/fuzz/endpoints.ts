import { parseEndpoint } from '../../src/access/index.js';
import { OperatorError } from '../../src/runtime/index.js';
import { misspelt, oddText } from './mutation.js';
import { insist, insistReadable } from './target.js';
import type { Choices, FuzzTarget, Outcome } from './target.js';

const valid = [
  'grpc://node:9000',
  'grpcs://node.example:9001',
  'localhost:3570',
  '[::1]:9000',
  'grpc://[2001:db8::7]:1',
];

/** Addresses of access nodes. */
export const endpointTarget: FuzzTarget = {
  name: 'endpoint',
  share: 60,
  concurrency: 1,
  open: () => Promise.resolve({ run: parse, close: () => Promise.resolve() }),
};

function parse(choices: Choices): Outcome {
  const text = choices.once(4)
    ? oddText(choices)
    : choices.once(6)
      ? choices.of(valid) + oddText(choices)
      : misspelt(choices, choices.of(valid));
  const input = () => text;
  try {
    const { name, host, port } = parseEndpoint(text);
    insist(
      /^[\x21-\x7e]+$/.test(name) && host !== '' && port >= 1 && port <= 65_535,
      'an impossible endpoint',
      input,
    );
    return 'accepted';
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    insistReadable(error.message, input);
    insist(error.message.includes('Write grpc://host:port'), 'the allowed form is not named', input);
    insist(!error.message.includes('sesame'), 'a password is shown', input);
    const reason = /: ([^:]*)\. Write grpc/.exec(error.message)?.[1] ?? 'another reason';
    return reason.replace(/^\S+ (?=is not a protocol)/, 'it ');
  }
}
