/**
 * Where the daemon spends its time while it catches up: runs it under V8's profiler against a simulated node in a process
 * of its own, says where the time went, and leaves the profile. Build first (`npm run profile` does).
 *
 *     --mode NAME       edi-only, requester-only, hybrid  [edi-only]
 *     --heights N       [5000]
 *     --reads KIND      instead of catching up: transaction or collection, read from a daemon that is at the tip
 *     --over NAME       with --reads: http or grpc  [http]
 *     --profile NAME    blocks: dense, mainnet, empty …   [dense]
 *     --out DIR         [profiles]
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { profiles, type ProfileName } from '../../src/devnet/index.js';
import { selfTimes, type CpuProfile } from './lib/cpuProfile.js';
import { drain, modeFlags, startDaemon, type Mode } from './lib/daemon.js';
import { startBenchNode } from './lib/node.js';
import { freshDirectory, ROOT } from './lib/processes.js';
import { startReadClient, type ReadKind } from './lib/readers.js';
import { formatTable } from './lib/report.js';
import { wholeNumber } from '../support/campaign.js';
import { refuse, scriptOptions } from '../support/scriptOptions.js';

const SAMPLE_US = 500;
const FUNCTIONS = 25;
const ROOMS = 12;
const SEED = 1;
const READS = 30_000;
const READERS = 16;
const READ_KINDS: readonly ReadKind[] = ['transaction', 'collection'];

const { values: args } = scriptOptions({
  options: {
    mode: { type: 'string', default: 'edi-only' },
    heights: { type: 'string', default: '5000' },
    reads: { type: 'string' },
    over: { type: 'string', default: 'http' },
    profile: { type: 'string', default: 'dense' },
    out: { type: 'string', default: 'profiles' },
  },
});
const mode = oneOf('mode', args.mode, Object.keys(modeFlags) as Mode[]);
const profile = oneOf('profile', args.profile, Object.keys(profiles) as ProfileName[]);
const reads = args.reads === undefined ? undefined : oneOf('reads', args.reads, READ_KINDS);
const over = oneOf('over', args.over, ['http', 'grpc']);
const heights = wholeNumber('heights', args.heights);

process.stdout.write(`making ${heights} blocks of the profile ${profile}\n`);
const chain = { seed: SEED, hashedIds: true };
const node = await startBenchNode({ ...chain, profile, heights });
const directory = freshDirectory();
const nodeFlags = ['--cpu-prof', '--cpu-prof-dir', directory, '--cpu-prof-interval', String(SAMPLE_US)];
const work = reads === undefined ? await catchUp() : await answerReads(reads);
node.close();
const thread = reads === undefined ? { name: 'main', id: 0 } : { name: 'reader', id: 1 };
// CPU.<date>.<time>.<process>.<thread>.<number>.cpuprofile
const found = readdirSync(directory).find((file) => file.split('.').at(-3) === String(thread.id));
if (found === undefined) throw new Error(`the profiler left nothing of the ${thread.name} thread`);
const out = resolve(ROOT, args.out);
mkdirSync(out, { recursive: true });
const what = reads === undefined ? mode : `reads-${reads}-${over}`;
const name = join(out, `${what}-${profile}-${heights}`);
copyFileSync(join(directory, found), `${name}.cpuprofile`);

const functions = selfTimes(JSON.parse(readFileSync(`${name}.cpuprofile`, 'utf8')) as CpuProfile);
const title = `${work.title}, ${work.perSecond.toFixed(0)} ${work.unit}s/s while profiled`;
const totalUs = functions.reduce((sum, { selfUs }) => sum + selfUs, 0);
const share = (us: number): string => ((us * 100) / totalUs).toFixed(1);
const perUnit = (us: number): string => (us / work.count).toFixed(1);
const perUnitColumn = `µs per ${work.unit}`;
const rooms = new Map<string, number>();
for (const { room, selfUs } of functions) rooms.set(room, (rooms.get(room) ?? 0) + selfUs);
process.stdout.write(
  [
    formatTable({
      title: `Self time on the ${thread.name} thread by room: ${title}`,
      columns: ['room', '%', perUnitColumn],
      rows: [...rooms]
        .sort(([, left], [, right]) => right - left)
        .slice(0, ROOMS)
        .map(([room, us]) => [room, share(us), perUnit(us)]),
    }),
    formatTable({
      title: 'By function',
      columns: ['function', 'room', 'place', '%', perUnitColumn],
      rows: functions
        .slice(0, FUNCTIONS)
        .map(({ name, room, place, selfUs }) => [name, room, place, share(selfUs), perUnit(selfUs)]),
    }),
    `profile: ${relative(process.cwd(), name)}.cpuprofile (Chrome DevTools, VS Code, speedscope)\n`,
  ].join('\n'),
);
process.exit(0);

async function catchUp() {
  const run = await drain({ node: node.address, mode: mode, heights, nodeFlags });
  const title = `${mode}, ${heights} heights of the profile ${profile}`;
  return { title, unit: 'height', count: heights, perSecond: run.heightsPerSecond };
}

/** The store is filled by a process that is not profiled. */
async function answerReads(kind: ReadKind) {
  const daemon = { node: node.address, mode: 'edi-only', dataDir: join(directory, 'store') } as const;
  const filling = await startDaemon(daemon);
  await filling.reaches(heights);
  await filling.ends('SIGTERM');
  const answering = await startDaemon({ ...daemon, nodeFlags });
  const client = await startReadClient({ ...chain, profile, heights });
  const { readsPerSecond } = await client.run({
    ...{ how: over, kind, concurrency: READERS, reads: READS },
    port: over === 'http' ? answering.apiPort : answering.grpcPort,
  });
  await answering.ends('SIGTERM');
  client.close();
  const title = `reads of a ${kind} over ${over}, ${READERS} at once, ${heights} heights of the profile ${profile}`;
  return { title, unit: 'read', count: READS, perSecond: readsPerSecond };
}

function oneOf<T extends string>(flag: string, given: string, all: readonly T[]): T {
  return all.find((each) => each === given) ?? refuse(`--${flag} takes ${all.join(' or ')}`);
}
