import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSporkTable } from '../../src/access/pool/sporks/sporkTable.js';
import { methodNames, parseFaults } from '../../src/devnet/index.js';
import { changedJson, misspelt, mutated } from './mutation.js';
import { insist, toldOperator, type Choices, type FuzzTarget, type Outcome } from './target.js';

const root = join(import.meta.dirname, '../..');
const sporks: unknown = JSON.parse(readFileSync(join(root, 'config/sporks.json'), 'utf8'));

/** The other files that an operator may write: the table of sporks, and scripts of faults for the simulated node. */
export const tableTarget: FuzzTarget = { name: 'table', share: 20, open: () => read };

const rules: readonly Readonly<Record<string, unknown>>[] = [
  { method: 'GetFullCollectionByID', fault: 'latency', delayMs: 100 },
  { method: 'Get*', fault: 'error', code: 'UNAVAILABLE', probability: 0.5, every: 2, skip: 1, times: 3 },
  { method: 'SubscribeBlocks*', fault: 'cut', how: 'reset', on: 'message', fromHeight: 5, toHeight: 9 },
  { method: '*', fault: 'oversized', bytes: 100, afterMs: 1, untilMs: 5 },
  { method: 'SubscribeExecutionData*', fault: 'execution_data_lag', blocks: -4 },
];

function read(choices: Choices): Outcome {
  const isScript = choices.once(2);
  const sound = JSON.stringify(isScript ? script(choices) : sporks);
  const bytes = Buffer.from(sound);
  const json = choices.once(6)
    ? mutated(choices, bytes, bytes).toString('utf8')
    : JSON.stringify(changedJson(choices, sound, sound)?.value ?? null);
  const input = () => json;
  try {
    if (isScript) parseFaults(json, 'faults.json');
    else parseSporkTable(JSON.parse(json), choices.of(['mainnet', 'testnet', '__proto__']), 'sporks.json');
    return 'accepted';
  } catch (error) {
    if (!isScript && error instanceof SyntaxError) return 'no JSON';
    const told = toldOperator(error, ['configuration'], input);
    insist(/faults\.json|sporks\.json/.test(told), 'the file is not named', input);
    return isScript ? 'a script refused' : 'a table refused';
  } finally {
    insist(Object.keys(Object.prototype).length === 0, 'a prototype was changed', input);
  }
}

function script(choices: Choices): unknown {
  return Array.from({ length: choices.few(4) }, () => {
    const rule: Record<string, unknown> = { ...choices.of(rules) };
    if (choices.once(3))
      rule['method'] = choices.once(3) ? misspelt(choices, choices.of(methodNames)) : choices.of(methodNames);
    return rule;
  });
}
