import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ChainGenerator, type ChainOptions } from '../../src/devnet/index.js';
import type { AccountTransaction } from '../../src/storage/index.js';
import { blocksOf, devnetForTest, entryOf, matching, probeOn, refusalOf } from '../support/daemons.js';
import { refused, roleNamesIn, runCommand, runDaemonHere, scratchDirectory } from '../support/daemons.js';
import { startArguments, startDaemonHere, storeFlags, transactionsByAccount } from '../support/daemons.js';
import { flip, keyOf, withRawDatabase } from '../support/rawStore.js';

const ROOT = 300;
const MIDDLE = 370;
const HEAD = 420;
const chainOptions: ChainOptions = { seed: 11, rootHeight: ROOT, profile: 'mixed' };
const byAccount = transactionsByAccount(blocksOf(new ChainGenerator(chainOptions), ROOT, HEAD).map(entryOf));

const documentOf = ({ id, place, blockId, collectionId, roles }: AccountTransaction) => ({
  ...{ id, height: place.height, block_id: blockId, collection_id: collectionId },
  ...{ collection_index: place.collectionIndex, transaction_index: place.transactionIndex },
  roles: roleNamesIn(roles),
});

it('the account index of a daemon answers as a look at the whole chain does, though it was switched on late', async () => {
  const devnet = await devnetForTest({ ...chainOptions, startHead: HEAD, paused: true, sealedLag: 0 });
  const dataDir = scratchDirectory();
  const store = storeFlags(dataDir);
  const start = (...flags: string[]): string[] =>
    startArguments(devnet, dataDir, '--start-height', String(ROOT), ...flags);
  expect((await runDaemonHere(start('--stop-height', String(MIDDLE)))).code).toBe(0);
  const [[address, expected] = ['', []]] = byAccount;
  expect(byAccount.size).toBeGreaterThan(10);
  const off = { code: 66, stderr: matching('--index-accounts') };
  expect(await runCommand(['get', 'account', address, ...store])).toMatchObject(off);

  const without = await startDaemonHere(start());
  const unasked = probeOn(without.grpcAddress).call('GetAccountTransactions', { address: Buffer.alloc(8) });
  expect(await refusalOf(unasked)).toMatchObject({
    ...{ code: 'FAILED_PRECONDITION', details: matching('--index-accounts') },
    metadata: { reason: 'index_off' },
  });
  await without.program.stop();
  const daemon = await startDaemonHere(start('--index-accounts'));
  await daemon.reaches(HEAD);
  await daemon.statusUntil(({ accountIndex }) => accountIndex.state === 'complete');
  expect((await daemon.scrape()).value('account_index_missing_heights')).toBe(0);
  for (const [other, its] of byAccount)
    expect((await daemon.api(`/accounts/${other}/transactions?limit=50`)).body).toMatchObject({
      ...{ address: other, complete: true, covered: { from: ROOT, to: HEAD } },
      transactions: its.slice(0, 50).map(documentOf),
    });

  const grpc = probeOn(daemon.grpcAddress);
  const request = { address: Buffer.from(address, 'hex'), limit: 3 };
  const told = expected
    .slice(0, 3)
    .map(({ id, place, roles }) => ({
      ...{ transaction_id: Buffer.from(id, 'hex'), height: String(place.height) },
      roles: roleNamesIn(roles).map((name) => `ACCOUNT_ROLE_${name.toUpperCase()}`),
    }));
  const covered = { covered_from: String(ROOT), covered_to: String(HEAD), complete: true };
  const listed = await grpc.call('GetAccountTransactions', request);
  expect(listed).toMatchObject({ transactions: told, ...covered });
  const proven = await grpc.call('GetAccountTransactions', { ...request, finality: 1 });
  expect(proven).toMatchObject({ transactions: [], covered_to: '0' });
  const malformed = grpc.call('GetAccountTransactions', { address: Buffer.alloc(3) });
  const refusal = { code: 'INVALID_ARGUMENT', metadata: { reason: 'malformed_address' } };
  expect(await refusalOf(malformed)).toMatchObject(refusal);

  const command = ['get', 'account', `0x${address}`, '--role', 'payer', '--limit', '2', ...store];
  const asked = await runCommand(command);
  expect(await daemon.program.stop()).toBe(0);
  expect(await runCommand(command)).toEqual(asked);
  const paid = expected.map(documentOf).filter(({ roles }) => roles.includes('payer'));
  expect(JSON.parse(asked.stdout)).toMatchObject({ complete: true, transactions: paid.slice(0, 2) });

  await withRawDatabase(join(dataDir, 'index'), (database) => flip(database, keyOf(0x10, MIDDLE)));
  expect(await runCommand(['repair', '--yes', ...store])).toMatchObject({ code: 0 });
  const all = await runCommand(['get', 'account', address, '--limit', '50', ...store]);
  expect(all).toMatchObject(refused(69, `a height above ${ROOT} was damaged and is fetched again`));
});
