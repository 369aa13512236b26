import { afterAll, afterEach, beforeAll, inject, onTestFinished } from 'vitest';
import { loadQueue } from '../../src/ranges/index.js';
import { systemClock } from '../../src/runtime/index.js';
import { loadPostgres } from '../../src/storage/index.js';
import type { BlockEntry, IndexStore, VerifyDependencies, VerifyOptions } from '../../src/storage/index.js';
import { startPostgres, type PostgresServer } from './postgresServer.js';
import './sharedPostgres.js';
import { RecordingLogger } from './recordingLogger.js';
import { seededRandom } from './seededRandom.js';
import { begin, shownOf, TEST_CHAIN, useStores, verifyAt } from './storeDirectory.js';
import { TcpFaults } from './tcpFaults.js';

export interface OpenHow {
  readonly create?: boolean;
  readonly chainId?: string;
  readonly accounts?: boolean;
}

type Tail<T extends readonly unknown[]> = T extends readonly [unknown, ...infer Rest] ? Rest : never;

export interface StoreHome {
  open(how?: OpenHow): Promise<IndexStore>;
  /** Of a closed store. */
  verified(...given: Tail<Parameters<typeof verifyAt>>): ReturnType<typeof verifyAt>;
}

export interface StoreKind {
  readonly name: string;
  /** To be called in a `describe`: a new home for every call of what it returns, gone after each test. */
  readonly use: () => NewHome;
}

/** `isEmpty`: where nobody has made any tables before. */
type NewHome<H = StoreHome> = (how?: { readonly isEmpty?: boolean }) => Promise<H>;

export const levelStores: StoreKind = { name: 'LevelDB', use: useDirectories };
export const postgresStores: StoreKind = { name: 'PostgreSQL', use: () => usePostgres().home };
/** Both stores: what holds for one holds for the other. */
export const storeKinds: readonly StoreKind[] = [levelStores, postgresStores];

function useDirectories(): NewHome {
  const { freshPath, open } = useStores();
  return async () => {
    const path = await freshPath();
    return { open: (how) => open(path, how), verified: (...given) => verifyAt(path, ...given) };
  };
}

/** A server and stores in it. `isOwn`: of this file alone, which ends it, or changes what others would see. */
export function usePostgres({ isOwn = false }: { readonly isOwn?: boolean } = {}) {
  const closing = useClosing();
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    server = await startPostgres(isOwn ? undefined : inject('postgresUrl'));
  }, 60_000);
  afterEach(() => closing.now(), 60_000);
  afterAll(async () => {
    await server?.close();
  }, 60_000);
  const running = (): PostgresServer => {
    if (server === undefined) throw new Error('the server runs while tests do');
    return server;
  };
  /** As a daemon does, which does not lead yet. */
  const opening = async (
    url: string,
    how: OpenHow & {
      readonly isReadOnly?: boolean;
      readonly waitMs?: number;
      readonly patienceMs?: number;
      readonly signal?: AbortSignal;
    } = {},
    its = parts(),
  ) => {
    const { PostgresIndexStore } = await loadPostgres();
    return closing.later(PostgresIndexStore.open({ url, chainId: TEST_CHAIN, ...how }, its));
  };
  /** It leads, unless it is a follower or to be read. */
  const open = async (
    url: string,
    { isFollower = false, ...how }: Parameters<typeof opening>[1] & { readonly isFollower?: boolean } = {},
  ) => {
    const store = await opening(url, how);
    if (!isFollower && how.isReadOnly !== true) await store.shared.lead();
    return store;
  };
  /** One that leads, in a database of its own. What it holds: see `begin`. */
  const filled = async (...[first, blocks, latest]: Beginning) => {
    const { url } = await home();
    return { url, store: await begin(open(url), first, blocks, latest) };
  };
  /** The same, behind what breaks as it is told. */
  const filledBehindFaults = async (...[first, blocks, latest]: Beginning) => {
    const { url } = await home();
    const faults = await faultsBefore(url);
    return { url, faults, store: await begin(open(faults.url), first, blocks, latest) };
  };
  /** What reads for others, and shows what a store does now. */
  const replica = async (url: string, store: IndexStore) => {
    const { openPostgresReplica } = await loadPostgres();
    const opened = await closing.later(Promise.resolve(openPostgresReplica(url)));
    opened.show(shownOf(store));
    return opened;
  };
  const queue = async (url: string, { roles = ['live'], ...how }: QueueHow = {}, its: QueueParts = {}) => {
    const { SharedQueue } = await loadQueue();
    return closing.later(SharedQueue.open({ url, roles, ...how }, { ...parts(), ...its }));
  };
  const verified = async (
    url: string,
    options: Partial<VerifyOptions> & { readonly patienceMs?: number } = {},
    how: Pick<VerifyDependencies, 'signal' | 'onProgress'> = {},
  ) => {
    const { verifyPostgres } = await loadPostgres();
    return verifyPostgres({ url, chainId: TEST_CHAIN, ...options }, { ...parts(), ...how });
  };
  const repaired = async (url: string, apply = true, chainId = TEST_CHAIN) => {
    const { repairPostgres } = await loadPostgres();
    return repairPostgres({ url, chainId, apply }, parts());
  };
  const surveyed = async (url: string) => {
    const { surveyDatabase } = await loadPostgres();
    return surveyDatabase({ url, key: 'store' }, parts());
  };
  /** A database with the tables of a store and of the queue, and nothing in them, unless it is to be empty. */
  const home: NewHome<StoreHome & { readonly url: string }> = async (how) => {
    const url = await running().database(how);
    return { url, open: (how) => open(url, how), verified: (...given) => verified(url, ...given) };
  };
  /** What stands between a client and a database, and breaks as it is told; until the end of the test. */
  const faultsBefore = async (url: string): Promise<TcpFaults> => {
    const faults = await TcpFaults.before(url);
    onTestFinished(async () => {
      faults.script = () => undefined;
      await closing.now();
      await faults.down();
    });
    return faults;
  };
  return {
    ...{ home, opening, open, filled, filledBehindFaults, faultsBefore, replica, queue },
    ...{ verified, repaired, surveyed, server: running, later: closing.later, now: closing.now },
  };
}

type Beginning = [first: number, blocks?: readonly BlockEntry[], latest?: number];
type OpenQueue = Parameters<Awaited<ReturnType<typeof loadQueue>>['SharedQueue']['open']>;
type QueueHow = Partial<Omit<OpenQueue[0], 'url'>>;
type QueueParts = Partial<OpenQueue[1]>;

/** What everything on a database is made with. */
export const parts = () => ({
  ...{ clock: systemClock, logger: new RecordingLogger(), random: seededRandom(1) },
});

interface Closable {
  close(): Promise<void>;
}

function useClosing() {
  const open: Closable[] = [];
  return {
    later: async <T extends Closable>(opening: Promise<T>): Promise<T> => {
      const opened = await opening;
      open.push(opened);
      return opened;
    },
    now: async (): Promise<void> => {
      for (const each of open.splice(0).reverse()) await each.close();
    },
  };
}
