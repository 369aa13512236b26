import { accountRoles, ADDRESS_BYTES, identifierBytes, toAddress, WireWriter } from '../../../flow/index.js';
import type { Address } from '../../../flow/index.js';
import type { AccountTransaction, IndexReader } from '../../../storage/index.js';
import {
  accountPage,
  accountRoleNames,
  ANY_ROLE,
  checkLimit,
  decodeCursor,
  DEFAULT_PAGE_ITEMS,
  encodeCursor,
  roleNamesOf,
} from '../../documents/accountTransactions.js';
import { ApiError, invalidArgument } from '../../view/ApiError.js';
import type { StatusSource } from '../../view/statusDocument.js';
import { finalityOf } from './calls.js';
import type { UnaryCall } from './calls.js';

const FINALITY = 5;

/** The account route of REST as a call of our own `flow_collection_indexer.v1.IndexAPI`. */
export function accountCalls(dependencies: {
  readonly store: Pick<IndexReader, 'accounts'>;
  readonly status: Pick<StatusSource, 'range'>;
}): Readonly<Record<string, UnaryCall>> {
  const { store, status } = dependencies;
  return {
    GetAccountTransactions: async (request) => {
      const range = status.range();
      const limit = request.number(3);
      const page = {
        address: addressOf(request.bytes(1)),
        roles: rolesOf(request.number(2)),
        limit: limit === 0n ? DEFAULT_PAGE_ITEMS : checkLimit(Number(limit)),
        before: decodeCursor(request.bytes(4)),
      };
      const until = finalityOf(request, FINALITY) === 'proven' ? 'proven' : undefined;
      const { transactions, next, coverage, isComplete } = await accountPage(store, page, range, until);
      return (
        new WireWriter()
          .elements(1, transactions.map(encoded))
          .bytes(2, next === undefined ? Buffer.alloc(0) : encodeCursor(next))
          // No height is below 0: an empty chain that begins at height 0 covers the empty range from 1 on.
          .number(3, coverage.to < 0 ? 1 : coverage.from)
          .number(4, Math.max(0, coverage.to))
          .number(5, isComplete ? 1 : 0)
          .finish()
      );
    },
  };
}

function encoded({ id, place, blockId, collectionId, roles }: AccountTransaction): Buffer {
  const numbers = roleNamesOf(roles).map((name) => accountRoleNames.indexOf(name) + 1);
  return new WireWriter()
    .bytes(1, identifierBytes(id))
    .number(2, place.height)
    .bytes(3, identifierBytes(blockId))
    .bytes(4, identifierBytes(collectionId))
    .number(5, place.collectionIndex)
    .number(6, place.transactionIndex)
    .bytes(7, Buffer.from(numbers))
    .finish();
}

/** Expected errors: ApiError (malformed_address). */
function addressOf(bytes: Uint8Array): Address {
  if (bytes.length === ADDRESS_BYTES) return toAddress(bytes);
  const message = `invalid address: expected ${ADDRESS_BYTES} raw bytes, got ${bytes.length}`;
  throw new ApiError(400, 'malformed_address', message);
}

/** Expected errors: ApiError (invalid_argument). */
function rolesOf(number: bigint): number {
  if (number === 0n) return ANY_ROLE;
  const name = accountRoleNames[Number(number) - 1];
  if (name !== undefined) return accountRoles[name];
  throw invalidArgument(
    `invalid role: expected a number from 0 to ${accountRoleNames.length}, got ${number}`,
  );
}
