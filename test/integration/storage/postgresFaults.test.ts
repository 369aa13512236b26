import { randomBytes } from 'node:crypto';
import { getEventListeners } from 'node:events';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { systemClock } from '../../../src/runtime/index.js';
import { asAdmin, batchOf, countIn, fault, lockHeld, parts, plainChain } from '../../support/index.js';
import { rowsOf, seededRandom, until, usePostgres } from '../../support/index.js';
import { DatabaseFault, loadPostgres, type IndexStore } from '../../../src/storage/index.js';
import { together } from '../../support/together.js';
import { messageOf } from '../../support/tcpFaults.js';
import type { DatabaseRequest, ScriptedAnswer, TcpFaults } from '../../support/tcpFaults.js';

const chain = plainChain(10, 400);
const at = (height: number) => chain[height - 10]!;

/** Of every class that PostgreSQL has, of those that poolers make, and of none. */
const KNOWN = [
  ...['XX000', 'F0000', '0A000', '54000', '26000', 'P0001', '25P02', '72000', '42704', '42P05', '42P01'],
  ...['08P01', '08006', '53300', '53100', '57P01', '57P02', '57P03', '57P04', '57P05', '57014', '40P01'],
  ...['40001', '28000', '28P01', '42501', '3D000', '3F000', '25006', '25P03', '55P03', '55006', 'XX001'],
  ...['XX002', '23505', '23503', '22012', '22P02', '01000', '00000', '02000', '42601', '58030', 'HV000'],
];
/** For what takes a while with each. */
const SOME = KNOWN.filter((_, index) => index % 15 === 0);
/** The code by which a server asks for it. */
const SASL = 10;
/** PostgreSQL itself ends a connection that has not signed in after this time. */
const SIGN_IN_LIMIT_MS = 60_000;
const SYMBOLS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ';

/** Any five of them may be a code. */
function anyCodes(count: number, seed: number): string[] {
  const random = seededRandom(seed);
  const symbol = (): string => SYMBOLS[Math.floor(random.next() * SYMBOLS.length)]!;
  return Array.from({ length: count }, () => Array.from({ length: 5 }, symbol).join(''));
}

vi.setConfig({ testTimeout: 120_000 });
const postgres = usePostgres();
const { filled, filledBehindFaults, opening, surveyed } = postgres;

/** A database of an empty store, behind what breaks as it is told. */
const faulty = async (how?: { readonly isEmpty: boolean }) => {
  const { url } = await postgres.home(how);
  return { url, faults: await postgres.faultsBefore(url) };
};

const connected = async (url: string) => {
  const { PostgresDatabase, databasePlace } = await loadPostgres();
  return postgres.later(Promise.resolve(new PostgresDatabase(databasePlace(url), parts())));
};

const failing = (running: Promise<unknown>): Promise<unknown> =>
  running.then(
    () => 'no error',
    (error: unknown) => error,
  );

/** Answers what is asked like this, so many times; tells how often it has. */
const answering = (
  faults: TcpFaults,
  asked: (request: DatabaseRequest) => boolean,
  answer: ScriptedAnswer,
  times = Infinity,
) => {
  let count = 0;
  faults.script = (request) => {
    if (!asked(request) || count === times) return undefined;
    count += 1;
    return answer;
  };
  return () => count;
};
const isStatement = ({ kind }: DatabaseRequest): boolean => kind === 'statements';

it('is named with its code and its words, and is its own, for any code', async () => {
  const { faults } = await faulty();
  for (const kind of ['startup', 'statements'] as const) {
    for (const code of [...KNOWN, ...anyCodes(8, 1)]) {
      const said = { code, message: `no luck with ${code}`, hint: 'Do so.' };
      answering(faults, (request) => request.kind === kind, said);
      const error = await failing(surveyed(faults.url));
      expect(error, code).toBeInstanceOf(DatabaseFault);
      expect(error).toMatchObject({ exit: 'storage', code });
      const { message } = error as Error;
      expect(message).toContain(`(no luck with ${code} [SQLSTATE ${code}]). Hint: Do so. `);
      expect(message).not.toMatch(/tries again|fault of the program/);
    }
  }
});

const oddAnswers: Readonly<Record<string, ScriptedAnswer>> = {
  'an error without a code': { message: 'pooler error: no more room' },
  'an error that ends the connection': { code: 'XX000', message: 'gone', severity: 'FATAL' },
  'a way to sign in that nobody knows': { bytes: messageOf('R', Buffer.from([0, 0, 0, 99])) },
  'bytes of another protocol': { bytes: Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n') },
  'a message that is cut short': { bytes: messageOf('T', Buffer.from([0, 9, 1])) },
  noise: { bytes: randomBytes(2_000) },
};
const isItsOwn = async (answer: ScriptedAnswer) => {
  const { faults } = await faulty();
  for (const kind of ['startup', 'statements'] as const) {
    const asked = answering(faults, (request) => request.kind === kind, answer);
    const error = await failing(surveyed(faults.url));
    expect(asked()).toBeGreaterThan(0);
    expect(error).toMatchObject({ exit: 'storage', name: 'StorageError' });
  }
  faults.script = () => undefined;
  expect(await surveyed(faults.url)).toMatchObject({ isReplica: false });
};
it('is its own, where it is no answer', () =>
  together(
    Object.fromEntries(Object.entries(oddAnswers).map(([name, answer]) => [name, () => isItsOwn(answer)])),
  ));

it('is waited for at the start, for so long, told to a command after some patience, and to who is to stop at once', async () => {
  const { faults } = await faulty();
  const stop = new AbortController();
  for (const code of ['XX000', '28P01']) {
    const isFirst = ({ text }: DatabaseRequest): boolean => text.includes('schema_version');
    answering(faults, isFirst, { code, message: 'not now' });
    const untilMs = systemClock.monotonic() + 500;
    await expect(opening(faults.url, { waitMs: 500 })).rejects.toMatchObject({ exit: 'storage', code });
    expect(systemClock.monotonic()).toBeGreaterThan(untilMs - 450);
    const refused = answering(faults, isFirst, { code, message: 'not now' }, 2);
    const store = await opening(faults.url, { waitMs: 20_000, signal: stop.signal });
    expect([store.trouble(), refused()]).toEqual([undefined, 2]);
    await store.close();
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
  }
  const command = await opening(faults.url, { patienceMs: 400 });
  const daemon = await opening(faults.url, { waitMs: 20_000, signal: stop.signal });
  answering(faults, isStatement, { code: '42501', message: 'no' });
  await expect(command.shared.lead()).rejects.toMatchObject({ kind: 'permission', code: '42501' });
  const leading = daemon.shared.lead();
  stop.abort();
  await expect(leading).rejects.toMatchObject({ kind: 'permission', code: '42501' });
});

/** Refuses everything with each code in turn; `during` sees it refused, and what was asked goes on afterwards. */
const throughAll = async (
  faults: TcpFaults,
  trouble: () => string | undefined,
  codes: readonly string[],
  during: (code: string) => Promise<() => Promise<void>>,
) => {
  for (const code of codes) {
    answering(faults, isStatement, { code, message: `refused as ${code}` });
    const after = await during(code);
    await until(() => trouble()?.includes(`refused as ${code} [SQLSTATE ${code}]`) === true);
    faults.script = () => undefined;
    await after();
    await until(() => trouble() === undefined);
  }
};

it('never ends a process that leads, follows, reads or works with others', () =>
  together({
    'leads: what it writes is written later': async () => {
      const { faults, store, url } = await filledBehindFaults(10);
      let height = 9;
      const next = () => store.commit(batchOf(at((height += 1))));
      await next();
      const trouble = () => store.trouble();
      await throughAll(faults, trouble, [...SOME, ...anyCodes(1, 2)], () => {
        const committed = next();
        return Promise.resolve(() => committed);
      });
      expect(await countIn(url, 'flow_store.block')).toBe(height - 9);
    },

    'follows: it learns later': async () => {
      const { store: leader, url } = await filled(10);
      const faults = await postgres.faultsBefore(url);
      const follower = await postgres.open(faults.url, { isFollower: true });
      const trouble = () => follower.trouble();
      let height = 9;
      await throughAll(faults, trouble, [...SOME, ...anyCodes(1, 3)], async () => {
        await leader.commit(batchOf(at((height += 1))));
        return () => until(() => follower.latestIndexedHeight() === height);
      });
    },

    'reads: callers are told that the database does not give it': async () => {
      const { faults, store } = await filledBehindFaults(10, [at(10)]);
      const replica = await postgres.replica(faults.url, store);
      for (const code of [...SOME, ...anyCodes(3, 4)]) {
        answering(faults, () => true, { code, message: 'refused' });
        expect(await failing(replica.blockByHeight(10)), code).toBeInstanceOf(DatabaseFault);
        faults.script = () => undefined;
        expect((await replica.blockByHeight(10))?.block.id).toBe(at(10).block.id);
      }
    },

    'works with others: it takes its place again': async () => {
      const { faults, url } = await faulty();
      await postgres.open(url);
      const queue = await postgres.queue(faults.url, { waitMs: 20_000 });
      const trouble = () => queue.trouble();
      await throughAll(faults, trouble, ['XX000', '42501'], () => {
        const leading = queue.lead(AbortSignal.timeout(60_000));
        return Promise.resolve(async () => {
          const term = await leading;
          expect(term).toBeDefined();
          await term?.release();
        });
      });
      expect((await queue.workers()).filter(({ isAlive }) => isAlive)).toHaveLength(1);
    },

    'works with others: it is in trouble until it leads, and says so once': async () => {
      const { faults, url } = await faulty();
      await postgres.open(url);
      const its = parts();
      const queue = await postgres.queue(faults.url, {}, its);
      const isTry = ({ kind, text }: DatabaseRequest): boolean =>
        kind === 'statements' && /INSERT INTO flow_jobs/i.test(text);
      const refused = answering(faults, isTry, { code: '53100', message: 'no room' });
      const leading = queue.lead(AbortSignal.timeout(60_000));
      await until(() => refused() === 4);
      faults.script = () => undefined;
      await (await leading)?.release();
      const told = its.logger.messages().filter((text) => text.startsWith('the database'));
      expect(told).toEqual(['the database does not do what is asked', 'the database answers again']);
      // Whoever stops to wait has no news of it.
      answering(faults, ({ text }) => text.includes('flow_store.worker'), { code: '42P01', message: 'gone' });
      await until(() => queue.trouble() !== undefined);
      await queue.close();
      expect(its.logger.messages().filter((text) => text.startsWith('the database'))).toHaveLength(3);
    },

    'works with others: it begins once its tables can be made': async () => {
      const { faults, url } = await faulty({ isEmpty: true });
      await postgres.open(url);
      const isOfQueue = ({ text }: DatabaseRequest): boolean => /flow_jobs|flow_store\.worker/.test(text);
      const refused = answering(faults, isOfQueue, { code: '42501', message: 'not now' }, 6);
      const queue = await postgres.queue(faults.url, { waitMs: 60_000 });
      expect([queue.trouble(), refused()]).toEqual([undefined, 6]);
      answering(faults, isStatement, { code: 'XX000', message: 'not now' });
      const late = postgres.queue(faults.url, { waitMs: 500 });
      await expect(late).rejects.toMatchObject({ exit: 'storage', code: 'XX000' });
    },
  }));

it('is none to a command whose session was ended after that time, as that of a process which stood still is', async () => {
  const { url } = await filled(10);
  const store = await opening(url, { patienceMs: 200 });
  const { release } = await lockHeld(url, 'SELECT FROM flow_store.store FOR UPDATE');
  const leading = store.shared.lead();
  const late = `wait_event_type = 'Lock' AND datname = current_database() AND now() - query_start > '300 ms'`;
  const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE ${late}`;
  await until(async () => (await asAdmin(url, end)).rowCount === 1);
  await release();
  expect((await leading).aborted).toBe(false);
});

it('is asked again by whoever reads, where it has ended the sessions', async () => {
  const { faults, store, url } = await filledBehindFaults(10, [at(10)]);
  const command = await opening(faults.url, { isReadOnly: true, patienceMs: 20_000 });
  const readers = { command, thread: await postgres.replica(faults.url, store) };
  const reads: Record<string, () => Promise<unknown>> = {
    ...Object.fromEntries(
      Object.entries(readers).map(([name, reader]) => [name, () => reader.blockByHeight(10)]),
    ),
    verify: () => postgres.verified(faults.url, { patienceMs: 20_000 }),
    'open at first': () => opening(faults.url),
    'verify at first': () => postgres.verified(faults.url),
    'repair at first': () => postgres.repaired(faults.url),
  };
  for (const [name, read] of Object.entries(reads)) {
    const asked = name.endsWith('first') ? /chain_id|SET epoch/ : /flow_store\.body/;
    const isAsked = (request: DatabaseRequest) => isStatement(request) && asked.test(request.text);
    const ending: ScriptedAnswer = { code: '57P01', message: 'terminating connection', severity: 'FATAL' };
    const ended = answering(faults, isAsked, ending, 2);
    expect(await read(), name).toBeDefined();
    expect(ended(), name).toBe(2);
  }
  expect((await postgres.verified(url)).damageCount).toBe(0);
});

it('is said where a connection learnt of it while nothing was asked', async () => {
  const { url } = await filled(10);
  const database = await connected(url);
  const ended = database.transaction(async (session) => {
    const { rows } = await session.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
    await asAdmin(url, 'SELECT pg_terminate_backend($1)', [rows[0]?.pid]);
    await until(async () => {
      const left = await asAdmin(url, 'SELECT FROM pg_stat_activity WHERE pid = $1', [rows[0]?.pid]);
      return left.rowCount === 0;
    });
    await session.query({ text: 'SELECT 1' });
  });
  await expect(ended).rejects.toMatchObject({ code: '57P01' });
});

it('leaves no connection behind where this side cannot sign in', async () => {
  const { faults } = await faulty();
  const ask = Buffer.alloc(4);
  ask.writeInt32BE(SASL);
  const bytes = messageOf('R', Buffer.concat([ask, Buffer.from('A-WAY-OF-ITS-OWN\0\0')]));
  answering(faults, ({ kind }) => kind === 'startup', { bytes });
  expect(await failing(surveyed(faults.url))).toMatchObject({ kind: 'permission' });
  await expect.poll(() => faults.connections, { timeout: SIGN_IN_LIMIT_MS / 2 }).toBe(0);
});

it('does not count as written where the server has undone it', async () => {
  const { url } = await postgres.home();
  const undone = (await connected(url)).transaction(async (session) => {
    await session.query({ text: 'SELECT 1 / 0' }).catch(() => undefined);
  });
  await expect(undone).rejects.toBeInstanceOf(DatabaseFault);
});

it.each([
  ['body', 'flow_store.body', (store: IndexStore) => store.commit(batchOf(at(13))), 4],
  ['coverage', 'flow_store.coverage', (store: IndexStore) => store.heal([{ from: 11, to: 11 }]), 2],
  ['coverage', 'flow_store.coverage', (store: IndexStore) => store.commit(batchOf(at(13))), 4, 'UPDATE'],
  ['store', 'flow_store.store', (store: IndexStore) => store.commit(batchOf(at(13))), 4, 'UPDATE'],
  ['store', 'flow_store.store', (store: IndexStore) => store.shared?.lead(), 3, 'UPDATE'],
] as const)('is not believed where a trigger of %s drops rows: it waits', async (...each) => {
  const [table, words, write, count, change = 'INSERT'] = each;
  const { store, url } = await filled(10, [at(10), at(11), at(12)]);
  const trigger = `CREATE FUNCTION public.dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
       CREATE TRIGGER dropping BEFORE ${change} ON flow_store.${table} FOR EACH ROW EXECUTE FUNCTION public.dropped()`;
  await asAdmin(url, trigger);
  const written = write(store);
  await until(() => store.trouble()?.includes(`${words} has kept 0 of 1 rows`) === true);
  expect(store.trouble()).toContain('A trigger or rule of that table in flow_store drops rows: remove it.');
  expect(await countIn(url, 'flow_store.block')).toBe(3);
  await asAdmin(url, `DROP TRIGGER dropping ON flow_store.${table}`);
  await written;
  expect(await countIn(url, 'flow_store.block')).toBe(count);
  expect(store.trouble()).toBeUndefined();
});

it('locked in part, is read and written all the same where it is not, and names who has locked it', async () => {
  // The last height of the first partition (docs/postgresql.md).
  const border = 4_999_999;
  const [first, ...blocks] = plainChain(border - 9, 12);
  const { store, url } = await postgres.filled(border, blocks.slice(8, 10));
  const ranges = blocks.slice(0, 8).map((entry) => [entry, entry.block.height] as const);
  const runs = await Promise.all(ranges.map(([, height]) => store.ranges.run({ from: height, to: height })));
  const replica = await postgres.replica(url, store);
  const locking = await lockHeld(url, 'LOCK TABLE flow_store.block_0');
  const begun = store.ranges.run({ from: first!.block.height, to: first!.block.height });
  const written = Promise.all(runs.map((run, at) => run.commit(batchOf(ranges[at]![0]))));
  const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
  await until(async () => (await rowsOf(url, waits)).length >= 5);
  const lockedAtMs = performance.now();
  await store.commit(batchOf(blocks[10]!));
  // Of eight connections.
  expect(await rowsOf(url, waits)).toHaveLength(5);
  expect(performance.now() - lockedAtMs).toBeLessThan(10_000);
  const reading = [failing(replica.blockByHeight(border))];
  const words = `canceling statement due to lock timeout: it waits for a lock that process ${locking.pid} holds`;
  await until(() => replica.trouble()?.includes(words) === true);
  for (let count = 0; count < 20; count += 1) reading.push(failing(replica.blockByHeight(border)));
  expect((await replica.blockByHeight(border + 1))?.block.height).toBe(border + 1);
  for (const error of await Promise.all(reading)) expect(error).toBeInstanceOf(DatabaseFault);
  await locking.release();
  await Promise.all([written, begun]);
  await vi.waitFor(() => replica.blockByHeight(border), 10_000);
  expect(replica.trouble()).toBeUndefined();
});

it('waits where a key of another table keeps rows from being removed, and says what to do', async () => {
  const { store, url } = await filled(10, [at(10), at(11)]);
  await asAdmin(url, 'CREATE TABLE public.notes AS SELECT height FROM flow_store.block');
  await asAdmin(url, 'ALTER TABLE public.notes ADD FOREIGN KEY (height) REFERENCES flow_store.block');
  const removed = store.removeAbove(10);
  await until(() => store.trouble()?.includes('drop that foreign key') === true);
  await asAdmin(url, 'DROP TABLE public.notes');
  await removed;
  expect(await countIn(url, 'flow_store.block')).toBe(1);
});

it.each([
  ['add a constraint', 'ALTER TABLE flow_store.block ADD CHECK (height < 11)', 'remove the constraint'],
  ['add a key', 'CREATE UNIQUE INDEX ON flow_store.block_0 ((height < 0))', 'remove the constraint'],
  ['move the end', 'UPDATE flow_store.coverage SET to_height = 500', 'from outside. Run "verify"'],
])('is no fault of ours where others %s: it says what to do', async (_, change, advice) => {
  const { store, url } = await filled(10, [at(10)]);
  await asAdmin(url, change);
  await expect(store.commit(batchOf(at(11)))).rejects.toMatchObject(fault('corrupt', advice));
});

it('is awaited by any number of readers, without a warning of Node.js', async () => {
  const { store } = await filled(10, [at(10)]);
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  await Promise.all(Array.from({ length: 30 }, () => store.blockByHeight(10)));
  await new Promise(setImmediate);
  expect(warnings).toEqual([]);
});

describe('and where it says nothing any more', () => {
  /** The connections fall silent while a block is written; new ones are as `how` has it. */
  const silenced = async (how: 'silence' | 'freeze') => {
    const { faults, store } = await filledBehindFaults(10, [at(10)]);
    faults[how]();
    return { faults, silentAtMs: systemClock.monotonic(), store };
  };
  const SILENCE = /the database has not answered for \d+ s on /;

  it('is noticed, and waited for as long as that is right: on connections that stand, at all, within rows, at work, locked', () =>
    together({
      'on the connections that stand, goes on over new ones within 15 s': async () => {
        const { silentAtMs, store } = await silenced('silence');
        const reading = store.blockByHeight(10);
        await store.commit(batchOf(at(11)));
        expect((await reading)?.block.id).toBe(at(10).block.id);
        expect(systemClock.monotonic() - silentAtMs).toBeLessThan(15_000);
      },

      'at all, is named as silent within 10 s, and goes on as soon as it speaks': async () => {
        const { faults, silentAtMs, store } = await silenced('freeze');
        const written = store.commit(batchOf(at(11)));
        await until(() => SILENCE.test(store.trouble() ?? ''));
        expect(systemClock.monotonic() - silentAtMs).toBeLessThan(10_000);
        expect(store.trouble()).not.toContain('pg_stat_activity');
        faults.thaw();
        await written;
        await until(() => store.trouble() === undefined);
      },

      'in the middle of rows, leaves no lock behind': async () => {
        const { faults, store } = await filledBehindFaults(10, [at(10)]);
        // The first statements arrive, and lock the row of the leader; the rows do not.
        faults.withholdRest('UPDATE flow_store.store');
        const silentAtMs = systemClock.monotonic();
        await store.commit(batchOf(at(11)));
        expect(faults.cuts).toBe(1);
        expect(systemClock.monotonic() - silentAtMs).toBeLessThan(15_000);
      },

      'to the queue, is noticed too': async () => {
        const { faults, url } = await faulty();
        await postgres.open(url);
        const queue = await postgres.queue(faults.url);
        faults.silence();
        const silentAtMs = systemClock.monotonic();
        expect(await queue.lead(AbortSignal.timeout(60_000))).toBeDefined();
        expect(systemClock.monotonic() - silentAtMs).toBeLessThan(15_000);
        faults.freeze();
        await until(() => SILENCE.test(queue.trouble() ?? ''));
        faults.thaw();
        await until(() => queue.trouble() === undefined);
      },

      'because it is at work, is given its time': async () => {
        const { url } = await postgres.home();
        const database = await connected(url);
        const slow = database.transaction((session) => session.query({ text: 'SELECT pg_sleep(9)' }));
        const heard: (string | undefined)[] = [];
        const listening = setInterval(() => heard.push(database.trouble()), 50);
        expect((await slow).rowCount).toBe(1);
        clearInterval(listening);
        expect(heard.filter((words) => words !== undefined)).toEqual([]);
      },

      'because somebody has locked what it needs, names who': async () => {
        const { store, url } = await filled(10);
        // Nobody else can write the live range.
        const locking = await lockHeld(url, 'SELECT FROM flow_store.store FOR UPDATE');
        const written = store.commit(batchOf(at(10)));
        const named = `.*: it waits for a lock that process ${locking.pid} holds`;
        for (const what of ['not answered for', 'lock timeout'])
          await until(() => new RegExp(what + named).test(store.trouble() ?? ''));
        await locking.release();
        await written;
        await until(() => store.trouble() === undefined);
      },
    }));

  it('because this process stood still, ends neither the session nor leaves a look behind', async () => {
    const { url } = await postgres.home();
    const database = await connected(url);
    const pid = async (): Promise<number | undefined> => {
      const asked = database.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
      return (await asked).rows[0]?.pid;
    };
    const sockets = (): number =>
      process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length;
    const before = await pid();
    const standing = sockets();
    const asked = pid();
    await new Promise((resolve) => setImmediate(resolve));
    // The answer comes, and so does the time for a look, before either is seen.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3_500);
    expect(await asked).toBe(before);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(sockets()).toBeLessThanOrEqual(standing);
    // A look would have ended the session by now.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await pid()).toBe(before);
  });
});
