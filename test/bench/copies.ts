/**
 * What a copy of a store costs while a daemon fills it at full speed: how long `backup` takes at several sizes, what it copies
 * and what it only links, what the daemon notices of it, and whether the copy verifies. Build first: it runs `dist/main.js`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { startLiveDaemon } from './lib/liveDaemon.js';
import type { LiveDaemon } from './lib/liveDaemon.js';
import { startBenchNode } from './lib/node.js';
import { ROOT, scratch } from './lib/processes.js';
import { bench, digits } from './lib/report.js';

const COPY_AT_HEIGHTS = [2_000, 6_000, 12_000];
const QUICK_COPY_AT_HEIGHTS = [300, 600];
/** That the chain goes on behind the last copy, so that the daemon is still at full speed. */
const HEIGHTS_BEHIND = 6_000;
const BEFORE_MS = 1_000;
const TARGET_SECONDS = 10;

interface Ended {
  readonly seconds: number;
  readonly output: string;
}

interface Copy {
  readonly height: number;
  readonly backup: Ended;
  readonly verify: Ended;
  readonly speedRatio: number;
}

await bench(
  {
    title: 'Copies',
    about:
      'Blocks of 5 × 10 transactions, indexed from the execution-data stream at full speed; at each height a backup is made on the ' +
      'same file system, by a process of its own, whose start counts. The ratio is the speed of the daemon during the backup to that in ' +
      'the second before. Afterwards every copy is verified.',
  },
  async ({ quick }) => {
    const heights = quick ? QUICK_COPY_AT_HEIGHTS : COPY_AT_HEIGHTS;
    const node = await startBenchNode({
      ...{ profile: 'dense', seed: 1 },
      heights: Math.max(...heights) + HEIGHTS_BEHIND,
    });
    const dataDir = mkdtempSync(join(scratch, 'data-'));
    const daemon = await startLiveDaemon({ node: node.address, mode: 'edi-only', dataDir });
    const made: (Omit<Copy, 'verify'> & { readonly to: string })[] = [];
    for (const height of heights) {
      await daemon.reaches(height);
      made.push({ height, ...(await copy(daemon, dataDir)) });
    }
    daemon.process.kill('SIGKILL');
    await daemon.exited;
    node.close();
    const copies: Copy[] = [];
    for (const { to, ...each } of made) copies.push({ ...each, verify: await command(['verify'], to) });
    return {
      tables: [
        {
          title: 'Backups under full load',
          columns: ['height', 's', 'what it said', 'daemon during ÷ before', 'verify, s', 'verify said'],
          rows: copies.map(({ height, backup, speedRatio, verify }) => [
            ...[height, digits(backup.seconds), firstLine(backup.output), digits(speedRatio)],
            ...[digits(verify.seconds), firstLine(verify.output)],
          ]),
        },
      ],
      figures: [
        {
          what: 'backup of the largest store under full load',
          value: copies.at(-1)?.backup.seconds ?? NaN,
          ...{ unit: 's', atMost: TARGET_SECONDS },
        },
      ],
    };
  },
);

async function copy(daemon: LiveDaemon, dataDir: string) {
  const to = join(scratch, `copy-${String(Date.now())}`);
  const from = await moment(daemon);
  await sleep(BEFORE_MS);
  const before = await moment(daemon);
  const backup = await command(['backup', '--to', to], dataDir);
  const after = await moment(daemon);
  return { to, backup, speedRatio: speed(before, after) / speed(from, before) };
}

interface Moment {
  readonly height: number;
  readonly atMs: number;
}

async function moment(daemon: LiveDaemon): Promise<Moment> {
  return { height: await daemon.latestIndexed(), atMs: performance.now() };
}

function speed(from: Moment, to: Moment): number {
  return (to.height - from.height) / (to.atMs - from.atMs);
}

/** Throws when it ends otherwise than with 0. */
async function command(args: readonly string[], dataDir: string): Promise<Ended> {
  const startedAtMs = performance.now();
  const child = spawn(
    process.execPath,
    ['dist/main.js', ...args, '--network', 'devnet', '--data-dir', dataDir],
    { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit').then(([code]) => code as number | null);
  const [output, code] = await Promise.all([text(child.stdout), ended]);
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${String(code)}`);
  return { seconds: (performance.now() - startedAtMs) / 1_000, output };
}

function firstLine(output: string): string {
  return (output.split('\n')[0] ?? '').replace(/^Copied to \S+\. /, '');
}
