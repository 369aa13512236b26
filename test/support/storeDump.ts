import { join } from 'node:path';
import { LevelIndexStore } from '../../src/storage/index.js';
import { silentLogger } from '../../src/observability/index.js';
import { systemClock } from '../../src/runtime/index.js';

export const storePath = (dataDir: string): string => join(dataDir, 'index');

/** The flags by which a command finds the store of a daemon on the simulated network, which may be in a database. */
export function storeFlags(dataDir: string, url?: string): string[] {
  return ['--network', 'devnet', '--data-dir', dataDir, ...(url === undefined ? [] : ['--store', url])];
}

/** Prefix of what says who signs: it is there where a node gave it, and not part of the chain. */
const EVIDENCE = 0x09;

/** Every key and value of a store, in key order, but for who signs. */
export async function* chainEntries(
  store: Pick<LevelIndexStore, 'entries'>,
): AsyncGenerator<[Uint8Array, Uint8Array]> {
  for await (const entry of store.entries()) if (entry[0][0] !== EVIDENCE) yield entry;
}

/** Opens the store at a path, which no process uses, and closes it again. */
export async function withStore<T>(
  path: string,
  use: (store: LevelIndexStore) => Promise<T>,
  { chainId = 'flow-localnet', create = false } = {},
): Promise<T> {
  const parts = { logger: silentLogger, clock: systemClock };
  const store = await LevelIndexStore.open({ path, chainId, create }, parts);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** `chainEntries` of a store that no process uses. */
export function dumpStore(dataDir: string): Promise<[Buffer, Buffer][]> {
  return withStore(storePath(dataDir), async (store) => {
    const entries: [Buffer, Buffer][] = [];
    for await (const [key, value] of chainEntries(store))
      entries.push([Buffer.from(key), Buffer.from(value)]);
    return entries;
  });
}

/** The first entry in which two dumps differ, in words; `undefined` when they are identical. */
export function firstDifference(
  left: readonly [Buffer, Buffer][],
  right: readonly [Buffer, Buffer][],
): string | undefined {
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const [a, b] = [left[index], right[index]];
    if (a === undefined || b === undefined)
      return `entry ${index}: only one has ${(a ?? b)?.[0].toString('hex')}`;
    if (!a[0].equals(b[0])) return `entry ${index}: ${a[0].toString('hex')} and ${b[0].toString('hex')}`;
    if (!a[1].equals(b[1]))
      return `entry ${index}: ${a[0].toString('hex')} holds ${a[1].toString('hex')} and ${b[1].toString('hex')}`;
  }
  return undefined;
}
