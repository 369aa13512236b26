import type { Outcome } from '../support/campaign.js';
import { LEAST_PERCENT, MEASURED } from './results.js';

export interface Proof {
  readonly name: string;
  readonly promise: string;
  readonly command: string;
  /** It is vitest that reports; with what else is worth knowing of its run. */
  readonly vitest?: { readonly remark?: string };
}

/** The arguments by which the command of a proof writes what it found to a file. */
export const reportTo = ({ vitest }: Proof, file: string): readonly string[] =>
  vitest === undefined ? ['--report', file] : ['--reporter=json', `--outputFile=${file}`];

export function outcomeIn(report: object, { vitest }: Proof): Outcome {
  const { numPassedTests, numTotalTests, failures, remark, runs, unit } = report as Readonly<
    Record<string, unknown>
  >;
  if (typeof numTotalTests === 'number' && typeof numPassedTests === 'number')
    return { runs: numTotalTests, failures: numTotalTests - numPassedTests, unit: 'tests', ...vitest };
  if (typeof runs !== 'number' || typeof failures !== 'number' || typeof unit !== 'string')
    throw new Error('a report of another shape');
  return { runs, failures, unit, ...(typeof remark === 'string' ? { remark } : {}) };
}

/** The promises of docs/reliability.md, in its order. */
const promised: Readonly<Record<string, Omit<Proof, 'name'>>> = {
  simulation: {
    promise:
      'Whatever nodes, network, disk and clock do, and wherever the process dies: every invariant holds at every step, the ' +
      'head is reached once faults cease, and the store is byte for byte that of a run without faults.',
    command: 'npm run test:simulation -- --seeds 10000',
  },
  'planted bugs': {
    promise: `The tests would notice: bugs planted one at a time, most of them in ${MEASURED.join(', ')}, are found (see below).`,
    command: 'npm run test:simulation:mutations',
  },
  coverage: {
    promise:
      `Unit and integration tests take at least ${LEAST_PERCENT} % of the lines, and as much of the branches, of ` +
      `${MEASURED.join(', ')}, each by itself (see below).`,
    command: 'npm run test:coverage',
  },
  crashes: {
    promise:
      'Killed with SIGKILL between any two steps, or at any instant, the daemon goes on where it was: what it had reported ' +
      'durable is there, and the store becomes that of a run without a crash.',
    command: 'npm run test:crash',
  },
  disk: {
    promise:
      'Files that are torn, cut, lost or changed, and disks that are full, read-only or refuse: named, repaired by the command ' +
      'that the message tells, never served wrong; nothing that was durable is lost without a word.',
    command: 'npm run test:disk',
  },
  networks: {
    promise:
      'Connections refused, reset, half-open or slow, wrong certificates, names that do not resolve, nodes that are all gone: ' +
      '/readyz tells, and within 60 seconds of the end of it the daemon is back, unaided.',
    command: 'npm run test:networks',
    vitest: { remark: 'one of them: 200 rounds of weather' },
  },
  cluster: {
    promise:
      'Several daemons on one database, killed, stopped, cut off, without a database or with a full one: no row twice, none ' +
      'missing, one coverage, the export of a straight run on one machine; within 12 seconds another daemon goes on.',
    command: 'npm run test:cluster',
  },
  'fault matrix': {
    promise:
      'Every fault of every upstream call, catching up and at the tip: what can be had another way is had another way within ' +
      '15 seconds; else /readyz names the right cause within 10 seconds, and no other; 15 seconds after the end of the fault ' +
      'all is well.',
    command: 'npm run test:matrix',
  },
  liars: {
    promise:
      'Other bodies, other chains, blocks off the chain, wrong lists of chunks, floods: refused, counted by source and reason, the ' +
      'liar set aside, and an honest node makes the progress.',
    command: 'npm run test:e2e -- test/e2e/metrics.test.ts test/e2e/crash.test.ts test/e2e/floods.test.ts',
    vitest: {},
  },
  'catching up': {
    promise:
      'A hundred thousand blocks behind the head, or a hundred million: memory stays under 300 MB, nothing above the window is ' +
      'asked for, and the store is whole.',
    command: 'npm run test:catchup',
    vitest: { remark: 'one of them: 100,000 blocks' },
  },
  'bad input': {
    promise:
      'Random messages, requests, configurations and command lines: no crash, nothing that takes a second, and a refusal says ' +
      'what was wrong.',
    command: 'npm run test:fuzz',
  },
  exposure: {
    promise:
      'Who listens where, how often an address is answered, slow and greedy clients, credentials in addresses, the data ' +
      'directory: as SECURITY.md says.',
    command: 'npm run test:e2e -- test/e2e/exposure.test.ts',
    vitest: {},
  },
  packaging: {
    promise:
      'The sources in any checkout, the tarball in an empty folder, the image that the Dockerfile builds, and a release: each is ' +
      'whole, and runs.',
    command: 'npm run test:packaging',
    vitest: {},
  },
  soak: {
    promise:
      'Catching up, following, being read and having faulty nodes all at once, memory, descriptors and event-loop delay stay as ' +
      'they are, and every read is answered rightly.',
    command: 'npm run soak',
  },
};

export const proofs: readonly Proof[] = Object.entries(promised).map(([name, proof]) => ({ name, ...proof }));
