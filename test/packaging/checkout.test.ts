import { execFile, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync } from 'node:fs';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { atEnd } from '../support/cleanup.js';
import { scratchDirectory } from '../support/program.js';
import { expectNoDamage } from '../support/provenStore.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');
/** Nobody, who owns no file. */
const NOBODY = 65_534;

/** What servers and continuous integration set, and what would keep npm from installing what a build needs. */
const hostile = {
  NODE_ENV: 'production',
  npm_config_omit: 'dev optional peer',
  npm_config_ignore_scripts: 'true',
  npm_config_package_lock_only: 'true',
  npm_config_dry_run: 'true',
  npm_config_engine_strict: 'true',
  npm_config_prefer_offline: 'true',
};

/** The files of the repository as they are now, in a folder with a blank in its name, and a link to it. */
async function checkOut(): Promise<{ readonly folder: string; readonly link: string }> {
  const scratch = scratchDirectory();
  // Others may look in.
  chmodSync(scratch, 0o755);
  const folder = join(scratch, 'a checkout');
  const listed = ['ls-files', '--cached', '--others', '--exclude-standard', '-z'];
  const { stdout } = await run('git', listed, { cwd: root, maxBuffer: 1 << 26 });
  for (const file of stdout.split('\0').filter((name) => name !== '' && existsSync(join(root, name)))) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(root, file), join(folder, file));
  }
  const link = join(scratch, 'link');
  symlinkSync(folder, link);
  return { folder, link };
}

/** Somebody who may read the folder and write nothing in it. */
function asStranger(
  folder: string,
  ...args: string[]
): { readonly status: number | null; readonly said: string } {
  const isRoot = process.getuid?.() === 0;
  const mode = (bits: number): void => {
    if (!isRoot) for (const path of [folder, join(folder, 'dist')]) chmodSync(path, bits);
  };
  mode(0o555);
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: '/nonexistent' },
    ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
  });
  mode(0o755);
  return { status, said: stdout + stderr };
}

/** What npm notes of an install for production; `npm ci` begins by removing what is there, whatever that is. */
function leaveOutDevelopment(folder: string): void {
  const { packages, ...lockfile } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
  };
  const shipped = Object.entries(packages).filter(
    ([path, { dev }]) => path !== '' && dev !== true && existsSync(join(root, path)),
  );
  for (const [path] of shipped) cpSync(join(root, path, 'package.json'), join(folder, path, 'package.json'));
  const noted = { ...lockfile, packages: Object.fromEntries(shipped) };
  writeFileSync(join(folder, 'node_modules/.package-lock.json'), JSON.stringify(noted));
}

it('installs, builds and runs in any checkout: after an install for production, under any setting of npm, through a link', async () => {
  const { folder, link } = await checkOut();
  const npm = (cwd: string, env: Readonly<Record<string, string>>, ...args: string[]) =>
    run('npm', args, { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 });
  leaveOutDevelopment(folder);

  const { stdout } = await npm(link, hostile, 'run', 'quickstart', '--', '--once', '--blocks', '20');
  const caughtUp = /Caught up: heights 0 to (\d+) are complete, verified and on disk\./.exec(stdout);
  expect(Number(caughtUp?.[1])).toBeGreaterThanOrEqual(15);
  for (const place of ['/status', '/v1/blocks?height=sealed&expand=payload', '/metrics', '/readyz'])
    expect(stdout).toMatch(new RegExp(`http://127\\.0\\.0\\.1:\\d+${place.replace('?', '\\?')}\n`));
  expect(stdout).toContain('node dist/main.js status --data-dir data/quickstart');
  expect(stdout).toMatch(/Everything is stopped\.\n$/);
  await expectNoDamage(join(folder, 'data/quickstart'));

  // What is complete is not installed again; and scripts need no others that npm runs before them.
  const lockfile = join(folder, 'node_modules/.package-lock.json');
  const before = readFileSync(lockfile, 'utf8');
  rmSync(join(folder, 'dist'), { recursive: true });
  const builtAgain = await npm(link, hostile, 'run', 'build');
  expect(existsSync(join(folder, 'dist/main.js'))).toBe(true);
  expect(builtAgain.stderr).not.toContain('npm ci');
  expect(readFileSync(lockfile, 'utf8')).toBe(before);

  // Somebody else may look at it, and is told what cannot be done.
  const quickstart = ['scripts/quickstart.mjs', '--once', '--blocks', '20'];
  const looked = asStranger(folder, ...quickstart);
  expect(looked).toEqual({ status: 0, said: expect.stringContaining('Everything is stopped.') as string });
  const [, data = ''] = /--data-dir (\/\S+)/.exec(looked.said) ?? [];
  expect(data).not.toBe('');
  atEnd(() => rmSync(data, { recursive: true, force: true }));

  rmSync(join(folder, 'dist/main.js'));
  const built = asStranger(folder, 'scripts/build.mjs');
  expect(built).toEqual({
    status: 1,
    said: expect.stringMatching(/^The build cannot be written .*\n$/) as string,
  });
  rmSync(join(folder, 'node_modules/esbuild'), { recursive: true });
  const missing = asStranger(folder, ...quickstart);
  expect(missing).toEqual({
    status: 1,
    said: expect.stringMatching(
      /^Packages are missing, and .* cannot be written .*run npm ci there.*\n$/,
    ) as string,
  });
}, 900_000);
