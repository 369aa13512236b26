import { expect, it } from 'vitest';
import { ChainGenerator, type ChainOptions } from '../../src/devnet/index.js';
import { decodeBlockMessage, verifyCollection } from '../../src/flow/index.js';
import type { AccountTransaction, BlockEntry } from '../../src/storage/index.js';
import { runCommand } from '../support/commandLine.js';
import { roleNamesIn, transactionsByAccount } from '../support/accountChain.js';
import { blocksOf } from '../support/chainReference.js';
import { probeOn, refusalOf } from '../support/grpcProbe.js';
import { scratchDirectory } from '../support/program.js';
import { storeFlags } from '../support/storeDump.js';
import { devnetForTest, runDaemonHere, startArguments, startDaemonHere } from '../support/runningDaemon.js';
import type { DaemonHere } from '../support/runningDaemon.js';

const ROOT = 300;
const MIDDLE = 370;
const HEAD = 420;
const chainOptions: ChainOptions = { seed: 11, rootHeight: ROOT, profile: 'mixed' };
const chain: readonly BlockEntry[] = blocksOf(new ChainGenerator(chainOptions), ROOT, HEAD).map((block) => ({
  block: decodeBlockMessage(Buffer.from(block.encoded)),
  collections: block.collections.map(({ id, transactions }) => verifyCollection(id, transactions)),
}));

const byAccount = transactionsByAccount(chain);
const addresses = [...byAccount.keys()];

const documentOf = ({ id, place, blockId, collectionId, roles }: AccountTransaction) => ({
  id,
  height: place.height,
  block_id: blockId,
  collection_id: collectionId,
  collection_index: place.collectionIndex,
  transaction_index: place.transactionIndex,
  roles: roleNamesIn(roles),
});

interface Page {
  readonly covered: { readonly from: number; readonly to: number };
  readonly complete: boolean;
  readonly transactions: readonly unknown[];
  readonly next_cursor: string | null;
}

/** Pages, roles and what may be asked for: test/integration/api/accounts.test.ts. */
async function listedBy(daemon: DaemonHere, address: string): Promise<unknown[]> {
  const all: unknown[] = [];
  for (let cursor = ''; ;) {
    const { status, body } = await daemon.api(`/accounts/${address}/transactions?limit=50${cursor}`);
    expect(status).toBe(200);
    const page = body as Page;
    expect(page).toMatchObject({ address, complete: true, covered: { from: ROOT, to: HEAD } });
    all.push(...page.transactions);
    if (page.next_cursor === null) return all;
    cursor = `&cursor=${page.next_cursor}`;
  }
}

const whenComplete = (daemon: DaemonHere): Promise<unknown> =>
  daemon.statusUntil(({ accountIndex }) => accountIndex.state === 'complete');

/** Killed, switched off and on, and rewound: test/unit/storage/accounts.test.ts and the simulation. */
it(
  'the account index of a daemon answers for every account as a look at the whole chain does, though it was switched on late',
  { timeout: 240_000 },
  async () => {
    expect(addresses.length).toBeGreaterThan(10);
    const devnet = await devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0 });
    const dataDir = scratchDirectory();
    const store = storeFlags(dataDir);
    const start = (...flags: string[]): string[] =>
      startArguments(devnet, dataDir, '--start-height', String(ROOT), ...flags);
    expect((await runDaemonHere(start('--stop-height', String(MIDDLE)))).code).toBe(0);
    const off = await runCommand(['get', 'account', addresses[0]!, ...store]);
    expect(off).toMatchObject({ code: 66, stderr: expect.stringMatching(/--index-accounts/) as string });

    const without = await startDaemonHere(start());
    const unasked = probeOn(without.grpcAddress).call('GetAccountTransactions', { address: Buffer.alloc(8) });
    expect(await refusalOf(unasked)).toMatchObject({
      code: 'FAILED_PRECONDITION',
      details: expect.stringMatching(/--index-accounts/) as string,
      metadata: { reason: 'index_off' },
    });
    await without.program.stop();
    const daemon = await startDaemonHere(start('--index-accounts'));
    await daemon.reaches(HEAD);
    await whenComplete(daemon);
    expect((await daemon.scrape()).value('account_index_missing_heights')).toBe(0);

    for (const address of addresses)
      expect(await listedBy(daemon, address)).toEqual((byAccount.get(address) ?? []).map(documentOf));

    const [address] = addresses as [string];
    const grpc = probeOn(daemon.grpcAddress);
    const expected = byAccount.get(address) ?? [];
    const request = { address: Buffer.from(address, 'hex'), limit: 3 };
    const answer = await grpc.call('GetAccountTransactions', request);
    expect(answer).toMatchObject({
      transactions: expected
        .slice(0, 3)
        .map(({ id, place, roles }) => ({
          transaction_id: Buffer.from(id, 'hex'),
          height: String(place.height),
          roles: roleNamesIn(roles).map((name) => `ACCOUNT_ROLE_${name.toUpperCase()}`),
        })),
      ...{ covered_from: String(ROOT), covered_to: String(HEAD), complete: true },
    });
    const proven = await grpc.call('GetAccountTransactions', { ...request, finality: 1 });
    expect(proven).toMatchObject({ transactions: [], covered_to: '0' });
    const malformed = grpc.call('GetAccountTransactions', { address: Buffer.alloc(3) });
    expect(await refusalOf(malformed)).toMatchObject({
      code: 'INVALID_ARGUMENT',
      metadata: { reason: 'malformed_address' },
    });

    const command = ['get', 'account', `0x${address}`, '--role', 'payer', '--limit', '2', ...store];
    const asked = await runCommand(command);
    expect(await daemon.program.stop()).toBe(0);
    const fromStore = await runCommand(command);
    expect(fromStore).toEqual(asked);
    expect(JSON.parse(asked.stdout)).toMatchObject({
      complete: true,
      transactions: expected
        .map(documentOf)
        .filter(({ roles }) => roles.includes('payer'))
        .slice(0, 2),
    });
  },
);
