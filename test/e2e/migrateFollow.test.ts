import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../src/runtime/index.js';
import { lastingPort } from '../support/lastingPort.js';
import { eventually, runProgram, scratchDirectory, startProgram } from '../support/program.js';
import { asAdmin } from '../support/postgresServer.js';
import { devnetForTest, startArguments, startDaemon } from '../support/runningDaemon.js';
import { storeFlags } from '../support/storeDump.js';
import { usePostgres } from '../support/storeKinds.js';
import { TcpFaults } from '../support/tcpFaults.js';

/** `npm run test:followers` kills twenty times. */
const ROUNDS = Number(process.env['FOLLOWER_ROUNDS'] ?? 3);
const ROUND_TIMEOUT_MS = 60_000;
const STEP = 40;
const FIRST = 100;

describe('migrate --follow', () => {
  const postgres = usePostgres();

  const begin = async (head: number) => {
    const devnet = await devnetForTest({
      ...{ seed: 21, rootHeight: FIRST, startHead: head, paused: true, sealedLag: 0, profile: 'mixed' },
    });
    const dataDir = scratchDirectory();
    const { url } = await postgres.home();
    return { devnet, dataDir, url, start: startArguments(devnet, dataDir, '--start-height', 'root') };
  };
  const follow = (from: string, to: string, environment: Record<string, string> = {}) =>
    startProgram(['migrate', '--network', 'devnet', '--follow', '--from', from, '--to', to], environment);
  const endOf = async (url: string): Promise<number> => {
    const { rows } = await asAdmin(
      url,
      'SELECT max(to_height)::integer AS height FROM flow_store.coverage',
    ).catch(() => ({ rows: [] }));
    return (rows[0] as { readonly height: number | null } | undefined)?.height ?? -1;
  };
  const endsAt = (url: string, height: number) =>
    eventually(async () => ((await endOf(url)) === height ? true : undefined));
  /** Its blocks, transactions and their places. */
  const rowsOf = async (url: string, sql: string): Promise<unknown> => (await asAdmin(url, sql)).rows;

  it(
    `loses and doubles nothing through ${ROUNDS} kills, and retracts what is rewound`,
    async () => {
      const { devnet, dataDir, url, start } = await begin(FIRST + STEP);
      const random = seededRandom(4);
      let daemon = await startDaemon(start);
      let head = FIRST + STEP;
      await daemon.reaches(head);
      for (let round = 0; round < ROUNDS; round += 1) {
        const follower = follow(dataDir, url);
        const from = await endOf(url);
        head += STEP;
        devnet.node.head.set(head);
        // Somewhere within what there is to copy.
        const until = Math.max(from, FIRST) + Math.floor(random.next() * STEP);
        await eventually(async () => ((await endOf(url)) >= until ? true : undefined));
        expect(await follower.stop('SIGKILL')).toBe('SIGKILL');
      }
      const follower = follow(dataDir, url);
      await follower.sees(/In step with the daemon/);
      await endsAt(url, head);

      const kept = head - STEP / 2;
      expect(await daemon.program.stop()).toBe(0);
      await follower.sees(/Held up: The daemon does not answer/);
      expect(
        await runProgram(['rewind', '--to', String(kept), '--yes', ...storeFlags(dataDir)]),
      ).toMatchObject({
        code: 0,
      });
      devnet.node.head.set(kept);
      daemon = await startDaemon(start);
      await endsAt(url, kept);
      expect(follower.stderr).toContain(`heights ${kept + 1} to ${head} are retracted`);
      for (const table of ['block', 'collection', 'transaction']) {
        expect(await rowsOf(url, `SELECT FROM flow.${table} WHERE height > ${kept}`)).toEqual([]);
      }
      head += STEP;
      devnet.node.head.set(head);
      await endsAt(url, head);
      expect(await follower.stop()).toBe(0);
      expect(follower.stdout).toBe(`The target holds heights ${FIRST} to ${head}.\n`);
      await daemon.program.stop();

      // Every row of every table, against what the bodies say.
      const database = ['--network', 'devnet', '--data-dir', scratchDirectory(), '--store', url];
      expect(await runProgram(['verify', ...database])).toMatchObject({
        ...{ code: 0, stdout: expect.stringContaining('no damage') as string },
      });
      const lines = (flags: readonly string[]) => runProgram(['export', '--quiet', ...flags]);
      const [copy, original] = [await lines(database), await lines(storeFlags(dataDir))];
      const body = ({ stdout }: { readonly stdout: string }) => stdout.trimEnd().split('\n').slice(0, -1);
      expect(body(copy)).toEqual(body(original));
      const { transactions } = JSON.parse(original.stdout.trimEnd().split('\n').at(-1) ?? '') as {
        readonly transactions: number;
      };
      expect(await rowsOf(url, 'SELECT count(*)::integer AS count FROM flow.transaction')).toEqual([
        { count: transactions },
      ]);
    },
    (ROUNDS + 3) * ROUND_TIMEOUT_MS,
  );

  it('follows an address, holds back behind another follower, and names a database that is away', async () => {
    const { devnet, url, start } = await begin(FIRST + 10);
    const daemon = await startDaemon(start);
    await daemon.reaches(FIRST + 10);
    const faults = await postgres.later(TcpFaults.before(url));
    const first = follow(daemon.apiUrl, faults.url);
    await endsAt(url, FIRST + 10);
    const second = follow(daemon.apiUrl, url);
    await second.sees(/Held up: Another process writes to the target: .* takes over when that ends/);
    await faults.down();
    await first.sees(/Held up: Cannot .* the store at/);
    await faults.up();
    devnet.node.head.set(FIRST + 20);
    await endsAt(url, FIRST + 20);
    await first.stop();
    devnet.node.head.set(FIRST + 30);
    await endsAt(url, FIRST + 30);
    expect(await second.stop()).toBe(0);
    await daemon.program.stop();
  });

  it('refuses what it cannot follow', async () => {
    const { url } = await postgres.home();
    const nobody = `http://127.0.0.1:${await lastingPort()}`;
    expect(await follow(nobody, url).exited).toBe(69);
    expect(await follow(scratchDirectory(), url).exited).toBe(69);
    const once = await runProgram(['migrate', '--network', 'devnet', '--from', nobody, '--to', url]);
    expect(once).toMatchObject({ code: 64, stderr: expect.stringContaining('Add --follow') as string });
  });
});
