import { LEAST_PERCENT, MEASURED } from './rooms.js';

/** What one run of a proof came to. */
export interface Outcome {
  /** How often the promise was put to the test. */
  readonly runs: number;
  readonly failures: number;
  /** What was counted: `seeds`, `crashes` … */
  readonly unit: string;
  /** In a few words, what else is worth knowing. */
  readonly remark?: string;
}

/** A promise and the script that holds it. */
export interface Proof {
  readonly name: string;
  readonly promise: string;
  /** As one types it. */
  readonly command: string;
  /** Reads what the command found. Expected errors: any Error means that the report has another shape. */
  readonly read: (report: unknown) => Outcome;
  /** It is vitest that reports. */
  readonly isVitest?: true;
}

type Fields = Readonly<Record<string, unknown>>;

/** The arguments by which the command of a proof writes what it found to a file. */
export const reportTo = ({ isVitest }: Proof, file: string): readonly string[] =>
  isVitest === true ? ['--reporter=json', `--outputFile=${file}`] : ['--report', file];

function fields(value: unknown): Fields {
  if (typeof value !== 'object' || value === null) throw new Error('a report of another shape');
  return value as Fields;
}

function number(of: unknown, name: string): number {
  const value = fields(of)[name];
  if (typeof value !== 'number') throw new Error(`the report has no number ${name}`);
  return value;
}

function list(of: unknown, name: string): readonly unknown[] {
  const value = fields(of)[name];
  if (!Array.isArray(value)) throw new Error(`the report has no list ${name}`);
  return value as readonly unknown[];
}

const tests = (report: unknown): Outcome => ({
  runs: number(report, 'numTotalTests'),
  failures: number(report, 'numTotalTests') - number(report, 'numPassedTests'),
  unit: 'tests',
});

/** The promises of docs/reliability.md, in its order. */
export const proofs: readonly Proof[] = [
  {
    name: 'simulation',
    promise:
      'Whatever nodes, network, disk and clock do, and wherever the process dies: every invariant holds at every step, the ' +
      'head is reached once faults cease, and the store is byte for byte that of a run without faults.',
    command: 'npm run test:simulation -- --seeds 10000',
    read: (report) => ({
      runs: number(report, 'seeds'),
      failures: list(report, 'failures').length,
      unit: 'seeds',
      remark: `${number(report, 'simulatedHours').toFixed(0)} hours simulated, ${number(report, 'processes')} processes`,
    }),
  },
  {
    name: 'planted bugs',
    promise: `The tests would notice: bugs planted one at a time, most of them in ${MEASURED.join(', ')}, are found (see below).`,
    command: 'npm run test:simulation:mutations',
    read: (report) => ({
      runs: list(report, 'bugs').length,
      failures: list(report, 'bugs').filter(
        (bug) => fields(bug)['seeds'] === null && fields(bug)['heldBy'] === null,
      ).length,
      unit: 'bugs',
    }),
  },
  {
    name: 'coverage',
    promise:
      `Unit and integration tests take at least ${LEAST_PERCENT} % of the lines, and as much of the branches, of ` +
      `${MEASURED.join(', ')}, each by itself (see below).`,
    command: 'npm run test:coverage',
    read: (report) => ({
      runs: list(report, 'rooms').length,
      failures: list(report, 'rooms').filter(
        (room) => Math.min(number(room, 'lines'), number(room, 'branches')) < LEAST_PERCENT,
      ).length,
      unit: 'rooms',
    }),
  },
  {
    name: 'crashes',
    promise:
      'Killed with SIGKILL between any two steps, or at any instant, the daemon goes on where it was: what it had reported ' +
      'durable is there, and the store becomes that of a run without a crash.',
    command: 'npm run test:crash',
    read: (report) => ({
      runs: number(report, 'crashes'),
      failures: number(report, 'failures'),
      unit: 'crashes',
      remark: `at ${list(report, 'places').length} places`,
    }),
  },
  {
    name: 'disk',
    promise:
      'Files that are torn, cut, lost or changed, and disks that are full, read-only or refuse: named, repaired by the command ' +
      'that the message tells, never served wrong; nothing that was durable is lost without a word.',
    command: 'npm run test:disk',
    read: (report) => ({
      runs: number(report, 'scenarios'),
      failures: number(report, 'failures'),
      unit: 'scenarios',
    }),
  },
  {
    name: 'networks',
    promise:
      'Connections refused, reset, half-open or slow, wrong certificates, names that do not resolve, nodes that are all gone: ' +
      '/readyz tells, and within 60 seconds of the end of it the daemon is back, unaided.',
    command: 'npm run test:networks',
    isVitest: true,
    // As the command says.
    read: (report) => ({ ...tests(report), remark: 'one of them: 200 rounds of weather' }),
  },
  {
    name: 'cluster',
    promise:
      'Several daemons on one database, killed, stopped, cut off, without a database or with a full one: no row twice, none ' +
      'missing, one coverage, the export of a straight run on one machine; within 12 seconds another daemon goes on.',
    command: 'npm run test:cluster',
    read: (report) => ({
      runs: list(report, 'scenes').length,
      failures: number(report, 'failures'),
      unit: 'scenes',
    }),
  },
  {
    name: 'fault matrix',
    promise:
      'Every fault of every upstream call, catching up and at the tip: what can be had another way is had another way within ' +
      '15 seconds; else /readyz names the right cause within 10 seconds, and no other; 15 seconds after the end of the fault ' +
      'all is well.',
    command: 'npm run test:matrix',
    read: (report) => ({
      runs: number(report, 'cells'),
      failures: number(report, 'failures'),
      unit: 'cells',
      remark: `${number(report, 'progress')} went on, ${number(report, 'causes')} told the cause, ${number(report, 'exits')} ended`,
    }),
  },
  {
    name: 'liars',
    promise:
      'Other bodies, other chains, blocks off the chain, wrong lists of chunks, floods: refused, counted by source and reason, the ' +
      'liar set aside, and an honest node makes the progress.',
    command: 'npm run test:e2e -- test/e2e/metrics.test.ts test/e2e/crash.test.ts test/e2e/floods.test.ts',
    isVitest: true,
    read: tests,
  },
  {
    name: 'catching up',
    promise:
      'A hundred thousand blocks behind the head, or a hundred million: memory stays under 300 MB, nothing above the window is ' +
      'asked for, and the store is whole.',
    command: 'npm run test:catchup',
    isVitest: true,
    // As the command says.
    read: (report) => ({ ...tests(report), remark: 'one of them: 100,000 blocks' }),
  },
  {
    name: 'bad input',
    promise:
      'Random messages, requests, configurations and command lines: no crash, nothing that takes a second, and a refusal says ' +
      'what was wrong.',
    command: 'npm run test:fuzz',
    read: (report) => ({
      runs: number(report, 'inputs'),
      failures: number(report, 'findings'),
      unit: 'inputs',
    }),
  },
  {
    name: 'exposure',
    promise:
      'Who listens where, how often an address is answered, slow and greedy clients, credentials in addresses, the data ' +
      'directory: as SECURITY.md says.',
    command: 'npm run test:e2e -- test/e2e/exposure.test.ts',
    isVitest: true,
    read: tests,
  },
  {
    name: 'packaging',
    promise:
      'The sources in any checkout, the tarball in an empty folder, the image that the Dockerfile builds, and a release: each is ' +
      'whole, and runs.',
    command: 'npm run test:packaging',
    isVitest: true,
    read: tests,
  },
  {
    name: 'soak',
    promise:
      'Catching up, following, being read and having faulty nodes all at once, memory, descriptors and event-loop delay stay as ' +
      'they are, and every read is answered rightly.',
    command: 'npm run soak',
    read: (report) => ({
      runs: number(report, 'minutes'),
      failures: list(report, 'failures').length,
      unit: 'minutes',
      remark: `${number(report, 'spells')} spells of faults, ${number(report, 'reads')} reads, ${number(report, 'heights')} heights`,
    }),
  },
];
