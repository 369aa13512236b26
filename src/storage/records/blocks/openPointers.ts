import type { Place } from '../../port/stored.js';
import { openKeyOf, openValue } from '../coding/seal.js';
import { decodeAccountValue, decodeSlice, type AccountValue, type Slice } from '../coding/blockRecord.js';
import type { Entry } from '../Database.js';
import { parseAccountKey, parsePointerKey, Prefix } from '../schema.js';
import type { AccountKey, PointerKey, PointerPrefix } from '../schema.js';

/** The place alone. */
export function placeOf({ height, collectionIndex, transactionIndex }: Place): Place {
  return { height, collectionIndex, transactionIndex };
}

/** A place that an id leads to. */
export type ReadPlace = Place & Pick<ReadPointer, 'slice'>;

export interface ReadPointer extends PointerKey {
  /** Zero and zero for a block id. */
  readonly slice: Slice;
}

const NO_SLICE: Slice = { offset: 0, length: 0 };

/** Checks and parses a pointer. Expected errors: `StorageError` (`corrupt`). */
export function openPointer([key, value]: Entry): ReadPointer {
  const parsed = openKeyOf('pointer', key, parsePointerKey);
  const { prefix, id, height, collectionIndex, transactionIndex } = parsed;
  const decode = (payload: Buffer): Slice | undefined => {
    if (prefix !== Prefix.blockId) return decodeSlice(payload);
    return payload.length === 0 ? NO_SLICE : undefined;
  };
  const named = { what: pointerNames[prefix], height };
  const slice = openValue(named, key, value, decode, 'it has the wrong length');
  return { prefix, id, height, collectionIndex, transactionIndex, slice };
}

const ACCOUNT_ENTRY = 'entry of the account index';

/** Checks and parses an entry of the account index. Expected errors: `StorageError` (`corrupt`). */
export function openAccountEntry([key, value]: Entry): AccountKey & AccountValue {
  const parsed = openKeyOf(ACCOUNT_ENTRY, key, parseAccountKey);
  const named = { what: ACCOUNT_ENTRY, height: parsed.height };
  return { ...parsed, ...openValue(named, key, value, decodeAccountValue) };
}

const pointerNames: Readonly<Record<PointerPrefix, string>> = {
  [Prefix.blockId]: 'block id pointer',
  [Prefix.collection]: 'collection pointer',
  [Prefix.transaction]: 'transaction pointer',
};

/** The height of a pointer or an entry of the account index, and a name for messages. Expected errors: `StorageError` (`corrupt`). */
export function openLookup(entry: Entry) {
  if (entry[0][0] === Prefix.account) {
    const { address, height } = openAccountEntry(entry);
    return { height, name: () => `${ACCOUNT_ENTRY} of height ${height}, address ${address}` };
  }
  const { prefix, height, id } = openPointer(entry);
  return { height, name: () => `${pointerNames[prefix]} of height ${height}, id ${id.toString('hex')}` };
}
