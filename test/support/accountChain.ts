import { expect } from 'vitest';
import { accountRoles, decodeTransaction, encodeTransaction, sha3 } from '../../src/flow/index.js';
import { toAddress, toIdentifier, transactionId } from '../../src/flow/index.js';
import type { AccountRole, Address } from '../../src/flow/index.js';
import type { Random } from '../../src/runtime/index.js';
import type { AccountTransaction, BlockEntry, Place } from '../../src/storage/index.js';
import type { AccountIndex } from '../../src/storage/port/AccountIndex.js';
import { chainWith, makeCollection, transactionsOf } from './storeBlocks.js';

/** The accounts of the chains below; the last has no transaction. */
export const accounts = ['01', '02', '03', 'f0'].map((end) =>
  toAddress(Buffer.from(end.padStart(16, '1'), 'hex')),
);
const PARTIES = accounts.slice(0, 3).map((address) => Buffer.from(address, 'hex'));

const party = (random: Random): Buffer => PARTIES[Math.floor(random.next() * PARTIES.length)]!;

function transaction(random: Random, seed: string): Uint8Array {
  const authorizers = PARTIES.filter(() => random.next() < 0.4);
  return transactionBy(seed, {
    // Some have none, and then their proposer is the address of zeros.
    proposer: random.next() < 0.9 ? party(random) : undefined,
    payer: party(random),
    // One may be named twice.
    authorizers: random.next() < 0.2 ? [...authorizers, ...authorizers] : authorizers,
  });
}

/** A transaction of these accounts; the same seed gives the same one. */
export function transactionBy(
  seed: string,
  {
    authorizers,
    payer,
    proposer,
  }: { readonly authorizers: Buffer[]; readonly payer: Buffer; readonly proposer: Buffer | undefined },
): Uint8Array {
  return encodeTransaction({
    script: Buffer.from(`// ${seed}`),
    arguments: [],
    referenceBlockId: sha3(Buffer.from('reference')),
    gasLimit: 10n,
    proposalKey: proposer && { address: proposer, keyId: 0, sequenceNumber: 1n },
    ...{ payer, authorizers, payloadSignatures: [], envelopeSignatures: [] },
  });
}

/** Consecutive blocks, two in three of them empty, whose transactions are of few accounts; some collections occur again. */
export function accountChain(random: Random, firstHeight: number, heights: number): BlockEntry[] {
  const again = makeCollection([transaction(random, 'again'), transaction(random, 'and again')]);
  return chainWith(firstHeight, heights, (height) => {
    if (random.next() < 0.67) return [];
    return Array.from({ length: 1 + Math.floor(random.next() * 2) }, (_each, collection) => {
      if (random.next() < 0.1) return again;
      const count = Math.floor(random.next() * 4);
      return makeCollection(
        Array.from({ length: count }, (_one, index) =>
          transaction(random, `${height}/${collection}/${index}`),
        ),
      );
    });
  });
}

/** All that an account has a part in, newest first, found by looking at everything. */
export function everyTransactionOf(address: Address, chain: readonly BlockEntry[]): AccountTransaction[] {
  return transactionsByAccount(chain).get(address) ?? [];
}

export function transactionsByAccount(
  chain: readonly BlockEntry[],
): ReadonlyMap<string, AccountTransaction[]> {
  const found = new Map<string, AccountTransaction[]>();
  for (const { block, collections } of chain) {
    for (const [collectionIndex, collection] of collections.entries()) {
      for (const [transactionIndex, encoded] of transactionsOf(collection).entries()) {
        const at = {
          id: toIdentifier(transactionId(encoded)),
          place: { height: block.height, collectionIndex, transactionIndex },
          blockId: block.id,
          collectionId: collection.id,
        };
        for (const [address, roles] of rolesIn(encoded)) {
          const its = found.get(address) ?? [];
          found.set(address, its);
          its.push({ ...at, roles });
        }
      }
    }
  }
  for (const its of found.values()) its.reverse();
  return found;
}

function rolesIn(encoded: Uint8Array): Map<string, number> {
  const { payer, proposalKey, authorizers } = decodeTransaction(encoded);
  const roles = new Map<string, number>();
  const add = (bytes: Uint8Array = new Uint8Array(), role: number): void => {
    // Whatever its length, as REST writes it.
    const address = Buffer.from(bytes).toString('hex').slice(-16).padStart(16, '0');
    roles.set(address, (roles.get(address) ?? 0) | role);
  };
  add(payer, accountRoles.payer);
  add(proposalKey?.address, accountRoles.proposer);
  for (const authorizer of authorizers) add(authorizer, accountRoles.authorizer);
  return roles;
}

/** All that an index lists of an account, page by page, to where it ends. */
export async function listedIn(index: AccountIndex, address: Address, roles: number, limit: number) {
  const found: AccountTransaction[] = [];
  for (let before: Place | undefined; ;) {
    const { next, transactions } = await index.page({ address, roles, limit, before });
    expect(transactions.length).toBeLessThanOrEqual(limit);
    found.push(...transactions);
    before = next;
    if (before !== undefined && transactions.length > 0) continue;
    // Below what is covered it goes on later.
    const { from, missingHeights } = index.coverage()!;
    expect(before === undefined).toBe(missingHeights === 0);
    expect(before?.height ?? from).toBeLessThanOrEqual(from);
    return found;
  }
}

export function roleNamesIn(roles: number): AccountRole[] {
  return (['payer', 'proposer', 'authorizer'] as const).filter((name) => (roles & accountRoles[name]) !== 0);
}
