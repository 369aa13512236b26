import { asBuffer } from '../wire/bytes.js';
import { RequestFields } from '../wire/RequestFields.js';

/** An account's address as 16 lower-case hex digits. Make one with `parseAddress` or `toAddress`. */
export type Address = string & { readonly __address: true };

export const ADDRESS_BYTES = 8;

/** What an account does in a transaction, as bits: it may have several roles. */
export const accountRoles = { payer: 1, proposer: 2, authorizer: 4 } as const;
export type AccountRole = keyof typeof accountRoles;

/** Fields of `flow.entities.Transaction`, and of its `ProposalKey`. */
const PROPOSAL_KEY = 5;
const PAYER = 6;
const AUTHORIZER = 7;
const KEY_ADDRESS = 1;
const NO_BYTES = new Uint8Array();

/** 16 hexadecimal digits, with or without 0x; `undefined` for anything else. */
export function parseAddress(text: string): Address | undefined {
  const [, digits] = /^(?:0x)?([0-9a-f]{16})$/i.exec(text) ?? [];
  return digits === undefined ? undefined : (digits.toLowerCase() as Address);
}

/** Pads shorter addresses in front, and takes the last eight bytes of longer ones, as on chain. */
export function toAddress(bytes: Uint8Array): Address {
  const end = asBuffer(bytes.subarray(-ADDRESS_BYTES));
  return end.toString('hex').padStart(2 * ADDRESS_BYTES, '0') as Address;
}

/** The eight bytes of an address. */
export function addressBytes(address: Address): Buffer {
  return Buffer.from(address, 'hex');
}

/**
 * The accounts of a transaction (its wire bytes), each once with the sum of its `accountRoles`. A missing payer or proposer is the zero
 * address, as in the transaction's id and in Flow's REST. Expected errors: `WireError`.
 */
export function accountsOf(
  transaction: Uint8Array,
): readonly { readonly address: Address; readonly roles: number }[] {
  const fields = new RequestFields(transaction, transaction.length);
  const roles = new Map<Address, number>();
  const add = (bytes: Uint8Array, role: number): void => {
    const address = toAddress(bytes);
    roles.set(address, (roles.get(address) ?? 0) | role);
  };
  add(fields.bytes(PAYER), accountRoles.payer);
  add(fields.message(PROPOSAL_KEY)?.bytes(KEY_ADDRESS) ?? NO_BYTES, accountRoles.proposer);
  for (const authorizer of fields.all(AUTHORIZER)) add(authorizer, accountRoles.authorizer);
  return [...roles].map(([address, sum]) => ({ address, roles: sum }));
}
