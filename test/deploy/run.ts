/**
 * Puts what is shipped for operators before the tools that will read it: systemd's own judgement of the unit, compose, kubectl,
 * promtool, the readers of manuals, the shells. `npm run test:deploy` builds first; `-- --only NAME` runs one. A tool that is
 * missing is named and counts as a failure. What can be held with Node.js alone is held by the suite (test/e2e).
 */
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chosenFrom, conclude, outcomeOf, playEach } from '../support/campaign.js';
import { withCleanup } from '../support/cleanup.js';
import { deployFolder } from '../support/deployed.js';
import { programPath, scratchDirectory } from '../support/program.js';
import { probeOn } from '../support/grpcProbe.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { scriptOptions } from '../support/scriptOptions.js';

const root = join(deployFolder, '..');
const NAME = 'flow-collection-indexer';
/** systemd's measure of what a service could do to the machine, times ten: 0 nothing, 100 everything. */
const MAX_EXPOSURE = 20;

/** A tool refuses what it was given, or is not there: that, and not where in this file, is what there is to say. */
class Failure extends Error {
  override readonly stack = this.message;
}

interface Ran {
  readonly stdout: string;
  readonly words: string;
}

function run(
  command: string,
  args: readonly string[],
  { input = '', env = {}, cwd = root }: { input?: string; env?: Record<string, string>; cwd?: string } = {},
): Ran {
  const spawned = spawnSync(command, args, {
    ...{ cwd, input, encoding: 'utf8', maxBuffer: 1 << 26 },
    env: { ...process.env, ...env },
  });
  if (spawned.error !== undefined) throw new Failure(`${command} is not on the path: install it`);
  const words = (spawned.stdout + spawned.stderr).trim();
  if (spawned.status !== 0)
    throw new Failure(`${command} ${args.join(' ')} exits ${spawned.status}:\n${words}`);
  return { stdout: spawned.stdout, words };
}

function silent(command: string, args: readonly string[], how: Parameters<typeof run>[2] = {}): string {
  const { words } = run(command, args, how);
  if (words !== '') throw new Failure(`${command} ${args.join(' ')} says:\n${words}`);
  return 'nothing to say';
}

function insist(holds: boolean, what: string): void {
  if (!holds) throw new Failure(what);
}

const unit = join(deployFolder, 'systemd', `${NAME}.service`);
const pages = [join(root, 'man', `${NAME}.1`), join(root, 'man', `${NAME}-config.5`)];

/** A home in which the completion of a shell is installed, and the program on the path. */
function homeWith(shell: string): Record<string, string> {
  const home = scratchDirectory();
  const bin = join(home, 'bin');
  mkdirSync(bin);
  symlinkSync(programPath, join(bin, NAME));
  const env = {
    HOME: home,
    XDG_CONFIG_HOME: join(home, '.config'),
    XDG_DATA_HOME: join(home, '.local/share'),
  };
  run(process.execPath, [programPath, 'completion', 'install', shell], { env });
  return { ...env, PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}` };
}

function promtool(): string {
  const folder = scratchDirectory();
  copyFileSync(join(deployFolder, 'compose/prometheus.yml'), join(folder, 'prometheus.yml'));
  copyFileSync(join(deployFolder, 'prometheus/alerts.yml'), join(folder, 'alerts.yml'));
  run('promtool', ['check', 'config', 'prometheus.yml'], { cwd: folder });
  const { words } = run('promtool', ['check', 'config', join(deployFolder, 'prometheus/prometheus.yml')]);
  return `both configurations are valid, ${/\d+ rules found/.exec(words)?.[0] ?? 'no rules'}`;
}

/** The metrics of a real daemon that has something to tell: it has indexed, and was read. */
async function metricsPage(): Promise<string> {
  const devnet = await devnetForTest({ startHead: 200, paused: true, sealedLag: 0 });
  const daemon = await startDaemon(startArguments(devnet, scratchDirectory(), '--start-height', 'root'));
  await daemon.reaches(200);
  for (const path of ['/status', '/v1/blocks?height=final', '/v1/blocks/abc', '/nowhere'])
    await fetch(daemon.apiUrl + path);
  await probeOn(daemon.grpcAddress).call('GetLatestBlock');
  return (await fetch(`${daemon.metricsUrl}/metrics`)).text();
}

/** Every object that kubectl would send of a folder, checked as the server would: with unknown fields refused. */
function kubernetes(name: string): string {
  const { stdout } = run('kubectl', ['kustomize', join(deployFolder, 'kubernetes', name)]);
  const file = join(scratchDirectory(), `${name}.yaml`);
  writeFileSync(file, stdout);
  run('kubectl-validate', [file]);
  return `${stdout.split('\n---\n').length} objects`;
}

const checks: Readonly<Record<string, () => string | Promise<string>>> = {
  'systemd, exposure': () => {
    const { stdout } = run('systemd-analyze', [
      ...['security', '--offline=true', '--no-pager', `--threshold=${MAX_EXPOSURE}`, unit],
    ]);
    return /Overall exposure level.*: ([\d.]+ \w+)/.exec(stdout)?.[1] ?? 'no level';
  },
  'systemd, unit': () => {
    // The program and its manual are not installed here.
    const file = join(scratchDirectory(), `${NAME}.service`);
    const text = readFileSync(unit, 'utf8');
    writeFileSync(
      file,
      text.replace(/^ExecStart=\S+/m, 'ExecStart=/bin/true').replace(/^Documentation=.*$/m, ''),
    );
    return silent('systemd-analyze', ['verify', file]);
  },
  'systemd, user': () => {
    const file = join(deployFolder, 'systemd', `${NAME}.sysusers`);
    return run('systemd-sysusers', ['--dry-run', `--root=${scratchDirectory()}`, '-'], {
      input: readFileSync(file, 'utf8'),
    }).words.split('\n')[0]!;
  },
  'manual, mandoc': () => silent('mandoc', ['-T', 'lint', '-W', 'error', ...pages]),
  'manual, groff': () => silent('groff', ['-man', '-ww', '-z', ...pages]),
  'manual, man': () => {
    const { stdout } = run('man', ['-l', pages[0]!], { env: { MANWIDTH: '80', LC_ALL: 'C' } });
    insist(/completion bash\|zsh\|fish\|install/.test(stdout), 'the manual lacks the last command');
    return `${stdout.split('\n').length} lines`;
  },
  'completion, zsh': () => {
    const script = `fpath=(~/.zfunc $fpath); autoload -U compinit; compinit -D
      print -r -- "\${_comps[${NAME}]}"; autoload +X _flow_collection_indexer; whence -w _flow_collection_indexer`;
    const { stdout } = run('zsh', ['-fc', script], { env: homeWith('zsh') });
    insist(stdout === '_flow_collection_indexer\n_flow_collection_indexer: function\n', stdout);
    return 'found and loaded';
  },
  'completion, fish': () => {
    const { stdout } = run('fish', ['-c', `complete -C "${NAME} st"`], { env: homeWith('fish') });
    insist(/^start\t.*\nstatus\t/.test(stdout), stdout);
    return 'found and loaded';
  },
  compose: () =>
    silent('docker', ['compose', '-f', join(deployFolder, 'compose/compose.yaml'), 'config', '--quiet']),
  'compose, PostgreSQL': () =>
    silent('docker', ['compose', '-f', join(deployFolder, 'compose/postgres.yaml'), 'config', '--quiet']),
  'Prometheus, configurations': promtool,
  'Prometheus, rules': () =>
    ['check', 'test']
      .map((what) => {
        const file = what === 'test' ? 'alerts.test.yml' : 'alerts.yml';
        return run('promtool', [what, 'rules', join(deployFolder, 'prometheus', file)])
          .words.split('\n')
          .at(-1);
      })
      .join(', '),
  'Prometheus, metrics': async () => silent('promtool', ['check', 'metrics'], { input: await metricsPage() }),
  'Kubernetes, leveldb': () => kubernetes('leveldb'),
  'Kubernetes, postgres': () => kubernetes('postgres'),
  'Kubernetes, monitoring': () => {
    // Its kind is the Prometheus operator's: kubectl puts it together, and knows no schema of it.
    const { stdout } = run('kubectl', ['kustomize', join(deployFolder, 'kubernetes/monitoring')]);
    insist(stdout.includes('kind: PodMonitor'), stdout);
    return 'put together';
  },
};

const { values } = scriptOptions({ options: { only: { type: 'string' } } });
const named = Object.entries(checks).map(([name, check]) => ({ name, check }));
const chosen = chosenFrom(named, values.only, (name, only) => name.includes(only));
const played = await playEach(chosen, ({ check }) => withCleanup(async () => check()));
conclude(outcomeOf(played, 'checks'));
