import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { accountRoleNames, DEFAULT_PAGE_ITEMS } from '../../../src/api/documents/accountTransactions.js';
import { MAX_PAGE_ITEMS } from '../../../src/api/documents/accountTransactions.js';
import { lookupKinds } from '../../../src/api/documents/lookupDocument.js';
import { daemonSettings, devnetSettings, flagHelp, loadConfig } from '../../../src/config/index.js';
import { AbortError, systemClock } from '../../../src/runtime/index.js';
import { reloadWhenWanted } from '../../../src/app/reloadWhenWanted.js';
import { eventually, matching, RecordingLogger, refusal, runInProcess } from '../../support/index.js';
import { scratchDirectory, untilEnd } from '../../support/index.js';
import { smallFileSystem } from '../../support/smallFileSystem.js';

/** Only for commands that end by themselves. */
const run = (...args: string[]) => runInProcess(args);

const commands = [
  ...['start', 'devnet', 'status', 'get', 'prove', 'check-proof', 'export', 'explain'],
  ...['verify', 'repair', 'rewind', 'forget', 'config', 'completion'],
];

describe('help', () => {
  it('lists every command', async () => {
    const { exit, out } = await run('--help');
    expect(exit).toBe('done');
    for (const name of commands) expect(out).toContain(name);
  });

  it.each(commands)('%s --help shows its flags', async (name) => {
    const { exit, out } = await run(name, '--help');
    expect(exit).toBe('done');
    expect(out).toMatch(new RegExp(`^usage: flow-collection-indexer ${name}`));
    expect((await run('help', name)).out).toBe(out);
    expect(out).not.toContain('\u001b');
  });

  it.each([60, 80, 140])('fits a terminal of %i columns, and breaks no word', async (columns) => {
    const wide = { isTerminal: true, columns: () => columns };
    const words = (page: string): string[] => page.split(/\s+/);
    for (const args of [['--help'], ...commands.map((name) => [name, '--help'])]) {
      const { out } = await runInProcess(args, wide);
      for (const line of out.split('\n')) expect(line.length).toBeLessThanOrEqual(columns);
      expect(words(out)).toEqual(words((await runInProcess(args, { ...wide, columns: () => 1_000 })).out));
    }
  });

  it('of get says what the API says', async () => {
    const { out } = await run('get', '--help');
    const page = out.replaceAll(/\s+/g, ' ');
    for (const kind of lookupKinds) expect(page).toContain(`${kind}|`);
    expect(page).toContain(`up to ${MAX_PAGE_ITEMS}. [${DEFAULT_PAGE_ITEMS}]`);
    for (const role of accountRoleNames) expect(page).toContain(role);
  });

  it('says what each value is', () => {
    for (const [key, definition] of Object.entries({ ...daemonSettings, ...devnetSettings }))
      expect(flagHelp(key, definition).usage).not.toContain('<value');
  });

  it('is what a bare call prints, as a wrong use', async () => {
    const { exit, err } = await run();
    expect(exit).toBe('usage');
    expect(err).toContain('commands:');
  });

  it('prints its version', async () => {
    const { out } = await run('--version');
    expect(out).toMatch(/^\d+\.\d+\.\d+\n$/);
    for (const word of ['version', '-V', '-v']) expect((await run(word)).out).toBe(out);
  });
});

it.each([
  [['strat'], /Unknown command "strat"\. Did you mean start\?/],
  [['start', '--acces-node', 'x'], /Unknown flag --acces-node for start\. Did you mean --access-node\?/],
  [['start', '--port=1'], /Did you mean --api-port, --api-grpc-port or --metrics-port\?/],
  [['--', 'strat'], /Unknown command "strat"\. Did you mean start\? See flow-collection-indexer --help/],
  [['--', 'status', '--json'], /status does not take the argument "--json"/],
  [['help', 'strat'], /Unknown command "strat"\. Did you mean start\?/],
  [['config', 'chek'], /Did you mean check\?/],
  [['completion', 'bsh'], /Did you mean bash\?/],
  [['completion', 'zhs'], /Did you mean zsh\?/],
  // Nearly bash, and another shell.
  [['completion', 'tcsh'], /does not know "tcsh"\. It takes bash, zsh, fish, install\./],
  [['completion'], /completion bash, zsh, fish/],
  [['completion', 'bash', 'zsh'], /Say for which shell/],
  [['completion', 'install', 'tcsh'], /Say for which shell/],
  [['start', '--no-window'], /Unknown flag --no-window/],
  [['start', '--window'], /--window needs a value\. See flow-collection-indexer start --help/],
  // Words of any length, which once took seconds to be split or compared.
  [['x'.repeat(200_000)], /The argument "x{80}…" is too long/],
  [['start', `-${'x'.repeat(200_000)}`], /The argument "-x{79}…" is too long: at most 4096 characters/],
  [['start', `--${'x'.repeat(4_000)}`], /Unknown flag "--x{78}…" for start\. See/],
  [['start', '--\u001b[2J', '1'], /Unknown flag "--\\u001b\[2J" for start/],
  [['start', '--network', 'grpc://me:secret@x'], /Wrong value for --network: "grpc:\/\/x" is not one of/],
  [['start', '--window='], /--window needs a value/],
  [['start', '--edi=true'], /--edi takes no value: write --edi or --no-edi/],
  [['start', '--no-edi=1'], /--no-edi takes no value: write --edi or --no-edi/],
  [['start', '-window', '5'], /Unknown flag -window for start\. Did you mean --window/],
  [['backup', '--to=~/copy'], /Wrong value for --to: "~\/copy" is not a directory of this machine/],
  [['backup', '--to=donn\ufffdes'], /Wrong value for --to: "donn.es" is not a directory of this machine/],
  [['prove', '1', '--output', '$HOME/proof'], /Wrong value for --output: .* is not a file of this machine/],
  [['export', '--output', 's3://b/x'], /Wrong value for --output: "s3:\/\/b\/\*\*\*" is not a file or/],
  [['export', '--output', '-', '--format', 'csv'], /Add --output DIRECTORY/],
  [['migrate', '--from', '/x', '--to', 'mysql://h/d'], /--to: .* or postgres:\/\/HOST\/DATABASE/],
  [['start', '--window', '0'], /Wrong value for --window: .* whole number from 1 to 4096/],
  [
    ['status', '--api-host', 'localhost:7180'],
    /"localhost:7180" is not a host name or address, without port/,
  ],
  [['start', '--api-host', 'fe80::1%lo'], /"fe80::1%lo" is not a host name or address, .* zone/],
  [['status', '--api-host', '[::1]'], /Wrong value for --api-host: "\[::1\]" is not a host name/],
  [['get', 'block', '1', '--api-host', '999.1.1.1'], /"999.1.1.1" is not a host name/],
  [['devnet', '--host', 'http://localhost'], /Wrong value for --host: "http:\/\/localhost" is not a host/],
  [['start', '--access-node', 'http://x:1'], /--access-node: "http:\/\/x:1" is not an access node/],
  [['config', 'check', '--edi-node', 'x'], /Wrong value for --edi-node: .*it has no port/],
  [['get'], /Say what to get/],
  [['get', 'receipt', '1'], /It takes block, collection, transaction, account/],
  [['get', 'block', '1', '--role', 'payer'], /--role is only for get account/],
  [['prove'], /Say what to prove/],
  [['prove', '1', '--output', 'README.md'], /The file "?README\.md"? is not empty\. Choose another/],
  [['rewind'], /rewind --to H --yes/],
  [['forget'], /forget accounts --yes/],
  [['forget', 'blocks', '--yes'], /It takes accounts/],
  [['forget', 'accounts'], /Add --yes/],
  [['config'], /config print, check or docs/],
  [['start', '--store', 'nonsense'], /store cannot be used: it is not a database URL/],
  [['verify', '--store', 'postgres://host'], /store cannot be used: it names no database/],
  [
    ['config', 'check', '--store', 'postgres://h/d', '--api-store', 'postgres://h/d?sslmode=prefer'],
    /api\.store cannot be used: sslmode=prefer/,
  ],
  [['config', 'print', '--store', 'postgres://h/d?x=1'], /store cannot be used: parameter "x" is not known/],
  [['migrate', '--from', '/x', '--to', 'postgres://h/d?sslmode=prefer'], /--to cannot be used: sslmode=/],
] as const)('wrong command lines %j is refused as wrong use', async (args, message) => {
  expect(await run(...args)).toMatchObject(refusal('usage', message));
});

it('start that is told to end before it has begun ends in good order, and does nothing', async () => {
  const dataDir = join(scratchDirectory(), 'data');
  const signal = AbortSignal.abort(new AbortError('SIGTERM'));
  let heeds = 0;
  const onReload = () => void (heeds += 1);
  const start = ['start', '--network', 'devnet', '--data-dir', dataDir];
  const { exit, out } = await runInProcess(start, { signal, onReload });
  // SIGHUP as well before its code is loaded.
  expect({ exit, heeds }).toEqual({ exit: 'done', heeds: 2 });
  expect(out).toMatch(/^\{.*"signal":"SIGTERM".*"stopping; a second signal forces"\}\n\{.*"stopped"\}\n$/);
  expect(existsSync(dataDir)).toBe(false);
});

it('a reload takes no setting from a configuration of another network', async () => {
  const at = (network: string) => {
    const flags = new Map([['network', [network]]]);
    return loadConfig({ file: undefined, environment: {}, flags }, { isTerminal: false });
  };
  const [fatal, setLevel] = [() => undefined, () => undefined];
  const logger = Object.assign(new RecordingLogger(), { fatal, setLevel });
  let [loading, most] = [0, 0];
  const load = async () => {
    most = Math.max(most, (loading += 1));
    await new Promise(setImmediate);
    loading -= 1;
    return at('mainnet');
  };
  let reload = (): void => undefined;
  const [loaded, onWanted] = [at('devnet'), (listener: () => void) => void (reload = listener)];
  const reloads = reloadWhenWanted({ load, loaded, onWanted }, { clock: systemClock, logger });
  reload();
  untilEnd((signal) => reloads(loaded.config, fatal, signal));
  reload();
  await eventually(() => logger.records.length === 2);
  expect(logger.records[0]).toMatchObject({ fields: { why: matching(/for the network mainnet/) } });
  // What was read first is not applied last.
  expect(most).toBe(1);
});

it('config: prints what is in force and where it came from', async () => {
  const flags = ['--network', 'testnet', '--no-edi', '--access-node', 'grpcs://u:p@h:1'];
  const { exit, out } = await run('config', 'print', ...flags);
  expect(exit).toBe('done');
  expect(out).toMatch(/^network +"testnet" +\(flag\)$/m);
  expect(out).toMatch(/^edi\.enabled +false +\(flag\)$/m);
  expect(out).toMatch(/^window +\d+ +\(default\)$/m);
  expect(out).not.toContain('u:p');
});

it('config: lets the later of two opposite switches win, and refuses a file that a start would refuse', async () => {
  expect((await run('config', 'check', '--edi-only', '--no-edi', '--edi')).exit).toBe('done');
  const refused = refusal('configuration', /Cannot use \/nowhere \(api\.tokensFile\): .*; check the path/);
  expect(await run('config', 'check', '--api-tokens-file', '/nowhere')).toMatchObject(refused);
});

const port = 'tcp://10.0.0.1:80';
const links = { FCI_PORT: port, FCI_API_PORT: port, FCI_SERVICE_HOST: '10.0.0.1' };

it.each([
  ['start', '--data-dir', '/dev/null/index'],
  ['status'],
  ['verify'],
  ['rewind', '--to', '1', '--yes'],
  ['config', 'check'],
  ['doctor', '--access-node', '127.0.0.1:1'],
])(
  'variables of a Service called fci are warned of once by %s, which does what it does without them',
  async (...args) => {
    const environment = { FCI_DATA_DIR: join(scratchDirectory(), 'nowhere') };
    const without = await runInProcess(args, { environment });
    const beside = await runInProcess(args, { environment: { ...environment, ...links } });
    expect([beside.exit, beside.message]).toEqual([without.exit, without.message]);
    expect(without.err).not.toContain('Ignored');
    expect(beside.err.match(/Ignored environment variables/g)).toHaveLength(1);
    expect(beside.err).toMatch(/^Ignored .*FCI_PORT, FCI_API_PORT, FCI_SERVICE_HOST.*enableServiceLinks: /m);
  },
);

const install = (environment: Readonly<Record<string, string>>, ...shell: readonly string[]) =>
  runInProcess(['completion', 'install', ...shell], { environment });

/** What bash offers for the last of these words. */
function offered(script: string, ...words: string[]): string[] {
  const ask = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _flow_collection_indexer; echo "\${COMPREPLY[@]}"`;
  const flags = ['-c', `${script}\n${ask}`, 'bash', 'flow-collection-indexer', ...words];
  return execFileSync('bash', ['--norc', ...flags], { encoding: 'utf8' })
    .trim()
    .split(' ');
}

it('completion offers commands, their words, their flags and the words that flags take', async () => {
  const { exit, out } = await run('completion', 'bash');
  expect([exit, offered(out, 'st')]).toEqual(['done', ['start', 'status']]);
  expect(offered(out, 'get', 'a')).toEqual(['account']);
  expect(offered(out, 'start', '--no')).toContain('--no-edi');
  expect(offered(out, 'status', '--api')).toEqual([
    ...['--api-host', '--api-port', '--api-tls-certificate-file', '--api-tokens-file'],
  ]);
  expect(offered(out, 'start', '--network', 'm')).toEqual(['mainnet']);
  expect(offered(out, 'help', 've')).toEqual(['verify']);
});

it.each([
  ['bash', '.local/share/bash-completion/completions/flow-collection-indexer', 'add to ~/.bashrc: source'],
  ['zsh', '.zfunc/_flow_collection_indexer', 'fpath+=('],
  ['fish', '.config/fish/completions/flow-collection-indexer.fish', 'fish looks there by itself.'],
])('completion installs itself where %s looks for it', async (shell, path, hint) => {
  const home = scratchDirectory();
  const { out } = await install({ HOME: home, SHELL: `/usr/bin/${shell}` });
  expect(out).toContain(`Wrote ${join(home, path)}.`);
  expect(out).toContain(hint);
  expect(readFileSync(join(home, path), 'utf8')).toBe((await run('completion', shell)).out);
  // Named, it needs no SHELL; and what was there is replaced.
  expect(await install({ HOME: home }, shell)).toMatchObject({ exit: 'done', out });
  // A shell would read half a script at each of its starts.
  const full = smallFileSystem(1);
  if (full === undefined) return;
  full.fill(4_096);
  const refused = await install({ HOME: full.path }, shell);
  expect([refused.exit, readdirSync(dirname(join(full.path, path)))]).toEqual(['storage', []]);
});

it('completion takes empty and relative paths of the environment for none', async () => {
  const home = scratchDirectory();
  const places = { XDG_DATA_HOME: '', XDG_CONFIG_HOME: 'etc', ZDOTDIR: '', BASH_COMPLETION_USER_DIR: '' };
  for (const shell of ['bash', 'zsh', 'fish'])
    expect((await install({ HOME: home, ...places }, shell)).out).toContain(`Wrote ${home}/.`);
});

it('completion says which shell it does not know, and where it may not write', async () => {
  const unknown = refusal('usage', /SHELL is .* install bash, zsh, fish\.$/);
  for (const environment of [{}, { SHELL: '/bin/tcsh' }])
    expect(await install(environment)).toMatchObject(unknown);
  const nowhere = await install({ HOME: '/dev/null', SHELL: 'fish' });
  expect(nowhere).toMatchObject(refusal('storage', 'completion fish > FILE'));
});

it.each(['zsh', 'fish'])('completion has every flag of every command for %s', async (shell) => {
  const { out } = await run('completion', shell);
  for (const name of commands) {
    expect(out).toContain(name);
    const help = (await run(name, '--help')).out;
    for (const [, flag = ''] of help.matchAll(/^ {2}--(?:\[no-\])?([a-z-]+)/gm))
      expect(out).toMatch(new RegExp(`(?:--|-l )${flag}\\b`));
  }
});
