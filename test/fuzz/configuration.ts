import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { daemonSettings, loadConfig } from '../../src/config/index.js';
import { environmentOf } from '../../src/config/settings.js';
import { scratchDirectory } from '../support/program.js';
import { list, misspelt, mutated, noise, oddText, put } from './mutation.js';
import { formOf, insist, toldOperator } from './target.js';
import type { Choices, FuzzTarget, Outcome, Refusals } from './target.js';

const keys = Object.keys(daemonSettings);
const groups = [...new Set(keys.filter((key) => key.includes('.')).map((key) => key.split('.')[0] ?? ''))];
/** Values of every kind that some key takes. */
const plausible: readonly unknown[] = [
  ...list('mainnet devnet root latest info json 127.0.0.1 0.0.0.0 64MiB data/x node:9000'),
  ...list('https://rest.node:8070/flow http://user:sesame@node'),
  ...[0, 1, 2, 100, 4096, 65_535, 1_000_000, true, false, null, ['node:9000'], ['a:1', 'b:2'], []],
];
const NESTED = 50_000;

export const configurationTarget: FuzzTarget = {
  name: 'configuration',
  share: 40,
  open: () => {
    const path = join(scratchDirectory(), 'config.json');
    return (choices) => configure(choices, path);
  },
};

function configure(choices: Choices, path: string): Outcome {
  const file = choices.once(2) ? fileText(choices) : undefined;
  const environment = choices.once(2) ? environmentOfChoices(choices) : {};
  const flags = choices.once(2) ? flagsOf(choices) : {};
  const input = () => ({ file: file?.toString('latin1'), environment, flags });
  if (file !== undefined) writeFileSync(path, file);
  const given = { file: file && path, environment, flags: new Map(Object.entries(flags)) };
  try {
    const { config, effective } = loadConfig(given, { isTerminal: false });
    const isWhole = Object.isFrozen(config) && Object.keys(effective).length === keys.length;
    insist(isWhole, 'half a configuration', input);
    for (const key of keys) insist(effective[key] !== undefined, `${key} has no value`, input);
    return 'accepted';
  } catch (error) {
    return formOf(toldOperator(error, ['configuration', 'usage'], input), refusals, input);
  } finally {
    insist(Object.keys(Object.prototype).length === 0, 'a prototype was changed', input);
  }
}

/** Every refusal names what it is about, and what is allowed or where that is written. */
export const settingRefusals: Refusals = [
  [
    'wrong value',
    /^Wrong value for (?:environment variable FCI_\w+|\S+(?: in .*)?): .* is not (?:one of|a |an |true or|root, |off or )/s,
  ],
  ['no configuration', /^Cannot read the configuration file .*: .+\./s],
  ['contradiction', /(?:Remove|Lower|Raise|[Dd]rop|Add) .*\.$/s],
  ['no database URL', /^(?:api\.)?store cannot be used: .+\.$/s],
];
const refusals: Refusals = [
  ['unknown key', /^Unknown key \S.* in .* docs\/configuration\.md lists every key\.$/],
  ['unknown variable', /^Unknown environment variable "?FCI_.* Unset it, or see docs\/configuration\.md/],
  ['not an object', /^(?:The configuration file|The key \S+ in) .* must be an object of keys/],
  ...settingRefusals,
];

const manyNodes = Array(65).fill('a:1');
const oddValues = [Number.NaN, -1, 1.5, 1e308, 2 ** 53, {}, { a: 1 }, [[]], [null], manyNodes];

function value(choices: Choices): unknown {
  const often = (): unknown => choices.of(plausible);
  const seldom = [() => oddText(choices), () => [value(choices)], () => choices.of(oddValues)];
  return choices.of<() => unknown>([...seldom, often, often])();
}

function key(choices: Choices): string {
  if (choices.once(6)) return misspelt(choices, choices.of(keys));
  return choices.once(12) ? oddText(choices) : choices.of(keys);
}

function fileText(choices: Choices): Buffer {
  if (choices.once(40)) return noise(choices, choices.below(200));
  if (choices.once(200)) return Buffer.from(choices.of(['[', '{"edi":', '{"a":']).repeat(NESTED));
  const root: Record<string, unknown> = {};
  for (let left = choices.below(6); left > 0; left -= 1) {
    const name = key(choices);
    const [group, inner] = name.split('.');
    if (group !== undefined && inner !== undefined && groups.includes(group) && !choices.once(6)) {
      const nested = Object.hasOwn(root, group) ? root[group] : {};
      put(root, group, { ...(nested as object), [inner]: value(choices) });
    } else {
      put(root, name, choices.once(12) ? { [key(choices)]: value(choices) } : value(choices));
    }
  }
  const text = Buffer.from(JSON.stringify(choices.once(30) ? value(choices) : root));
  return choices.once(8) ? mutated(choices, text, text) : text;
}

function environmentOfChoices(choices: Choices): Record<string, string> {
  const environment: Record<string, string> = {};
  for (let left = choices.few(4); left > 0; left -= 1) {
    const name = environmentOf(choices.of(keys));
    put(environment, choices.once(12) ? `FCI_${misspelt(choices, name.slice(4))}` : name, text(choices));
  }
  return environment;
}

function flagsOf(choices: Choices): Record<string, readonly string[]> {
  const flags: Record<string, readonly string[]> = {};
  for (let left = choices.few(4); left > 0; left -= 1)
    flags[choices.of(keys)] = Array.from({ length: choices.few(3) }, () => text(choices));
  return flags;
}

function text(choices: Choices): string {
  const made = value(choices);
  return typeof made === 'string' ? made : JSON.stringify(made);
}
