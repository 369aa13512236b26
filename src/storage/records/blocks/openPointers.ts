import { corruptRecord } from '../../StorageError.js';
import { unseal } from '../coding/seal.js';
import { decodeAccountValue, decodeSlice } from '../coding/slices.js';
import type { AccountValue, Slice } from '../coding/slices.js';
import type { Entry } from '../Database.js';
import { parseAccountKey, parsePointerKey, Prefix } from '../schema.js';
import type { AccountKey, PointerKey, PointerPrefix } from '../schema.js';

/** A place that an id leads to. */
export type ReadPlace = Pick<ReadPointer, 'height' | 'collectionIndex' | 'transactionIndex' | 'slice'>;

export interface ReadPointer extends PointerKey {
  /** Zero and zero for a block id. */
  readonly slice: Slice;
}

const NO_SLICE: Slice = { offset: 0, length: 0 };

/** Checks and parses a pointer. Expected errors: `StorageError` (`corrupt`). */
export function openPointer([key, value]: Entry): ReadPointer {
  const parsed = parsePointerKey(key);
  if (parsed === undefined) {
    throw corruptRecord('pointer', undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const name = pointerNames[parsed.prefix];
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(name, parsed.height, 'its checksum does not match');
  if (parsed.prefix === Prefix.blockId) {
    if (payload.length !== 0) throw corruptRecord(name, parsed.height, 'it has the wrong length');
    return { ...parsed, slice: NO_SLICE };
  }
  const slice = decodeSlice(payload);
  if (slice === undefined) throw corruptRecord(name, parsed.height, 'it has the wrong length');
  return { ...parsed, slice };
}

const ACCOUNT_ENTRY = 'entry of the account index';

/** Checks and parses an entry of the account index. Expected errors: `StorageError` (`corrupt`). */
export function openAccountEntry([key, value]: Entry): AccountKey & AccountValue {
  const parsed = parseAccountKey(key);
  if (parsed === undefined) {
    throw corruptRecord(ACCOUNT_ENTRY, undefined, `key ${key.toString('hex')} is not one of ours`);
  }
  const payload = unseal(key, value);
  if (payload === undefined) throw corruptRecord(ACCOUNT_ENTRY, parsed.height, 'its checksum does not match');
  const decoded = decodeAccountValue(payload);
  if (decoded === undefined) throw corruptRecord(ACCOUNT_ENTRY, parsed.height, 'it cannot be read');
  return { ...parsed, ...decoded };
}

const pointerNames: Readonly<Record<PointerPrefix, string>> = {
  [Prefix.blockId]: 'block id pointer',
  [Prefix.collection]: 'collection pointer',
  [Prefix.transaction]: 'transaction pointer',
};

/** What leads from an id or an address to a block: the height, and a name for messages. */
export interface Lookup {
  readonly height: number;
  readonly name: () => string;
}

/** Checks and parses a pointer or an entry of the account index. Expected errors: `StorageError` (`corrupt`). */
export function openLookup(entry: Entry): Lookup {
  if (entry[0][0] === Prefix.account) {
    const { address, height } = openAccountEntry(entry);
    return { height, name: () => `${ACCOUNT_ENTRY} of height ${height}, address ${address}` };
  }
  const { prefix, height, id } = openPointer(entry);
  return { height, name: () => `${pointerNames[prefix]} of height ${height}, id ${id.toString('hex')}` };
}
