import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { runCommandLine } from '../../src/cli/index.js';
import { daemonSettings, devnetSettings, flagOf, type Settings } from '../../src/config/index.js';
import { scratchDirectory, recordingTerminal } from '../support/index.js';
import { list, misspelt, oddText } from './mutation.js';
import { settingRefusals } from './configuration.js';
import { formOf, insist, toldOperator } from './target.js';
import type { Choices, FuzzTarget, Outcome, Refusals } from './target.js';

const flagsOf = (settings: Settings): string[] =>
  Object.entries(settings).map(([key, definition]) => `--${flagOf(key, definition)}`);

/** With an ending that keeps each from doing its work, even where a flag without a value swallows its first word. */
const commands: Readonly<Record<string, { flags: readonly string[]; ending: readonly string[] }>> = {
  start: { flags: flagsOf(daemonSettings), ending: ['--window', '0'] },
  devnet: { flags: flagsOf(devnetSettings), ending: ['--port', 'none'] },
  config: { flags: flagsOf(daemonSettings), ending: [] },
  status: { flags: list('--network --data-dir --watch --json'), ending: ['--api-port', 'none'] },
  get: { flags: list('--network --data-dir --role --limit --cursor'), ending: ['--api-port', 'none'] },
  explain: { flags: list('--network --data-dir --json'), ending: ['--api-port', 'none'] },
  export: {
    flags: [
      ...list('--network --data-dir --from --to --output --resume --follow --quiet --format --partition'),
      ...list('--compress --account --role --columns --scripts'),
    ],
    ending: ['--to', 'none'],
  },
  verify: { flags: list('--network --from --to'), ending: ['--to', 'none'] },
  rewind: { flags: list('--network --to --yes'), ending: ['--to', 'none'] },
  forget: { flags: list('--network --data-dir --yes'), ending: ['everything', 'else'] },
  completion: { flags: list('--help --system'), ending: ['every', 'shell'] },
};
const names = Object.keys(commands);
const words = [...list('print check docs block collection transaction 158000000'), 'f'.repeat(64)];
const values = list('mainnet devnet 0 1 64 4097 128MiB latest root node:9000 json true');

function commandLine(choices: Choices): string[] {
  if (choices.once(30))
    return choices.once(3)
      ? []
      : [choices.of([...list('--help -h --version -V version help'), oddText(choices)])];
  const name = choices.of(names);
  const { flags, ending } = commands[name] ?? { flags: [], ending: [] };
  const args = [choices.once(20) ? misspelt(choices, name) : name];
  if (name === 'config' && !choices.once(6)) args.push(choices.of(['print', 'check', 'docs']));
  for (let left = choices.below(6); left > 0; left -= 1) args.push(...word(choices, flags));
  return [...args, ...ending];
}

function word(choices: Choices, flags: readonly string[]): string[] {
  const flag = choices.once(8)
    ? misspelt(choices, choices.of(flags))
    : choices.of([...flags, '--config', '--help']);
  const value = choices.once(3) ? oddText(choices) : choices.of(values);
  const together = () => [`${flag}=${value}`];
  const apart = () => [flag, value];
  return choices.of<() => string[]>([
    () => [oddText(choices)],
    () => [choices.of(words)],
    () => ['--'],
    () => [flag.replace('--', '--no-')],
    () => [flag.replace('--', '-')],
    () => [flag],
    ...[together, together, apart, apart, apart, apart],
  ])();
}

/** What every refusal of a command line says: what it is about, and what is allowed or where that is written. */
const refusals: Refusals = [
  ['unknown command', /^Unknown command ".*"\..* See flow-collection-indexer --help\.$/s],
  ['unknown flag', /^Unknown flag \S.*\..* See flow-collection-indexer (?:[a-z]+ )?--help\.$/s],
  ['no value', /^\S+ needs a value\. See flow-collection-indexer [a-z]+ --help\.$/],
  ['a value too many', /^\S.* takes no value: write --\S+ or --no-\S+\.$/],
  [
    'an argument too many',
    /^[a-z]+ does not take the argument ".*"\. See flow-collection-indexer [a-z]+ --help/s,
  ],
  ['a flag of another kind', /^--\S+ is only for get account\. See flow-collection-indexer get --help\.$/],
  ['an argument too long', /^The argument ".*" is too long: at most 4096 characters are allowed\.$/s],
  [
    'a word that it does not take',
    /^[a-z]+ does not know ".*"\..* It takes .*\. See flow-collection-indexer [a-z]+ --help\.$/s,
  ],
  ['a key that can be none', /^(?:expected a height|invalid (?:ID|address|role|limit|cursor)|at most 50 )/],
  ['an argument too few', /^Say (?:what|which|for which) .*flow-collection-indexer /],
  ['no consent', /Add --yes to do it\.$/],
  ['no fault script', /^Cannot read the fault script .*: .+\.$/s],
  ...settingRefusals,
  ['no store', /^There is no store at /],
];

/** The command line, in this process: `main.ts` adds its start and its exit code. No store is at `nowhere`. */
export const commandLineTarget: FuzzTarget = {
  name: 'command-line',
  share: 60,
  open: () => {
    const nowhere = join(scratchDirectory(), 'nowhere');
    return (choices) => runLine(commandLine(choices), nowhere);
  },
};

async function runLine(args: readonly string[], nowhere: string): Promise<Outcome> {
  const input = () => args;
  const { terminal, printed } = recordingTerminal({ environment: { FCI_DATA_DIR: nowhere } });
  try {
    const exit = await runCommandLine(args, terminal);
    insist(exit === 'done' || exit === 'usage', `ended with ${exit}`, input);
    insist(printed.out.length + printed.err.length > 0, 'nothing was printed', input);
    insist(!(printed.out + printed.err).includes('sesame'), 'a password is shown', input);
    return 'accepted';
  } catch (error) {
    const told = toldOperator(error, ['usage', 'configuration', 'storage', 'foreign'], input);
    return formOf(told, refusals, input);
  } finally {
    insist(!existsSync(nowhere), 'something was written', input);
  }
}
