import { asBuffer } from '../wire/bytes.js';
import { LENGTH_DELIMITED, WireReader } from '../wire/WireReader.js';

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

/** Shorter ones are padded in front; of longer ones the last eight bytes count, as on chain. */
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
  let payer: Uint8Array = NO_BYTES;
  let proposer: Uint8Array = NO_BYTES;
  const authorizers: Uint8Array[] = [];
  const reader = new WireReader(transaction);
  while (reader.next()) {
    if (reader.wireType !== LENGTH_DELIMITED) reader.skip();
    else if (reader.field === PROPOSAL_KEY) proposer = addressOfKey(reader.view());
    else if (reader.field === PAYER) payer = reader.view();
    else if (reader.field === AUTHORIZER) authorizers.push(reader.view());
    else reader.skip();
  }
  const roles = new Map<Address, number>();
  const add = (bytes: Uint8Array, role: number): void => {
    const address = toAddress(bytes);
    roles.set(address, (roles.get(address) ?? 0) | role);
  };
  add(payer, accountRoles.payer);
  add(proposer, accountRoles.proposer);
  for (const authorizer of authorizers) add(authorizer, accountRoles.authorizer);
  return [...roles].map(([address, sum]) => ({ address, roles: sum }));
}

function addressOfKey(key: Uint8Array): Uint8Array {
  let address: Uint8Array = NO_BYTES;
  const reader = new WireReader(key);
  while (reader.seek(KEY_ADDRESS)) address = reader.view();
  return address;
}
