import {
  accountRoles,
  accountsOf,
  ADDRESS_BYTES,
  addressBytes,
  asBuffer,
  decodeBlock,
  decodeTransaction,
  identifierBytes,
  NO_TIME,
  paddedIdentifier,
  toAddress,
  TransactionScan,
} from '../../../flow/index.js';
import type { Timestamp, VerifiedCollection } from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import type { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { parseBodyKey, Prefix } from '../../records/schema.js';
import type { Step } from '../connection/Session.js';
import { CopyRows } from './CopyRows.js';
import type { Script, Scripts } from './Scripts.js';

const EPOCH_2000_SECONDS = 946_684_800n;
const ID_BYTES = 32;
/** With more authorizers a map is used, so that the cost cannot be made quadratic. */
const LINEAR_AUTHORIZERS_MAX = 32;

const BLOCK_COLUMNS = ['record', 'height', 'id', 'parent_id', 'time', 'collections', 'transactions'];
const BODY_COLUMNS = ['height', 'chunk', 'value'];
const COLLECTION_COLUMNS = ['height', 'collection_index', 'id', 'transactions', 'body_offset', 'bytes'];
const TRANSACTION_COLUMNS = [
  ...['height', 'collection_index', 'transaction_index', 'id', 'body_offset', 'bytes'],
  ...['payer', 'proposer', 'proposer_key', 'sequence_number', 'reference_block_id', 'gas_limit'],
  ...['script_hash', 'authorizers'],
];
const ACCOUNT_COLUMNS = ['address', 'height', 'collection_index', 'transaction_index', 'roles'];

/** Where a collection lies. */
interface CollectionPlace {
  readonly height: number;
  readonly collectionIndex: number;
  /** Of its first byte, in the body of its block. */
  readonly bodyOffset: number;
}

/** All rows of some blocks, as a commit writes them. `verify` derives its own from the stored blocks. */
export class BlockRows {
  /** Those of the transactions. */
  readonly scripts = new Set<Script>();
  readonly #blocks = new CopyRows('block', BLOCK_COLUMNS);
  readonly #bodies = new CopyRows('body', BODY_COLUMNS);
  readonly #collections = new CopyRows('collection', COLLECTION_COLUMNS);
  readonly #transactions = new CopyRows('transaction', TRANSACTION_COLUMNS);
  readonly #accounts = new CopyRows('account_transaction', ACCOUNT_COLUMNS);
  readonly #tables = [this.#blocks, this.#bodies, this.#collections, this.#transactions, this.#accounts];
  readonly #known: Scripts;
  readonly #writer: BlockEntryWriter;
  readonly #scan = new TransactionScan();
  /** The accounts of the current transaction: where the address of each is, and its roles. */
  readonly #starts: number[] = [];
  readonly #roles: number[] = [];
  #accountCount = 0;

  constructor({ scripts, writer }: { readonly scripts: Scripts; readonly writer: BlockEntryWriter }) {
    this.#known = scripts;
    this.#writer = writer;
  }

  add({ block, collections }: BlockEntry): void {
    const { height, id, parentId, encoded } = block;
    const rows = this.#blocks;
    const bodies = this.#bodies;
    rows.row();
    this.#writer.putBlock({ block, collections }, (key, value) => {
      if (key[0] === Prefix.block) {
        rows.whole(value);
        return;
      }
      bodies.row();
      bodies.int8(height);
      bodies.int4(parseBodyKey(key)?.chunk ?? 0);
      bodies.whole(value);
    });
    let bodyOffset = 0;
    let transactions = 0;
    for (const [collectionIndex, collection] of collections.entries()) {
      this.#addCollection(collection, { height, collectionIndex, bodyOffset });
      bodyOffset += collection.encoded.length;
      transactions += collection.ranges.length / 2;
    }
    rows.int8(height);
    rows.whole(identifierBytes(id));
    rows.whole(identifierBytes(parentId));
    rows.timestamp(microsecondsOf(decodeBlock(encoded).timestamp));
    rows.int4(collections.length);
    rows.int4(transactions);
  }

  /** The steps that write the rows. Scripts that are stored already are left out. */
  steps(): readonly Step[] {
    const steps = [...this.#tables.map((table) => table.step()), this.#newScripts()];
    return steps.filter((step) => step !== undefined);
  }

  /** Forgets the rows, once they are stored. */
  clear(): void {
    this.scripts.clear();
    for (const table of this.#tables) table.clear();
  }

  /** The row of a collection, and those of its transactions and of their accounts, written while they are read. */
  #addCollection({ id, encoded, ranges, transactionIds }: VerifiedCollection, place: CollectionPlace): void {
    const count = ranges.length / 2;
    const collections = this.#collections;
    collections.row();
    collections.int8(place.height);
    collections.int4(place.collectionIndex);
    collections.whole(identifierBytes(id));
    collections.int4(count);
    collections.int8(place.bodyOffset);
    collections.int4(encoded.length);
    const rows = this.#transactions;
    const bytes = asBuffer(encoded);
    const ids = asBuffer(transactionIds);
    for (let index = 0; index < count; index += 1) {
      const start = ranges[2 * index] as number;
      const length = ranges[2 * index + 1] as number;
      rows.row();
      rows.int8(place.height);
      rows.int4(place.collectionIndex);
      rows.int4(index);
      rows.part(ids, index * ID_BYTES, ID_BYTES);
      rows.int8(place.bodyOffset + start);
      rows.int4(length);
      if (this.#scan.run(bytes, start, start + length) && this.#isPlain())
        this.#addScanned(bytes, place, index);
      else this.#addDecoded(bytes.subarray(start, start + length), place, index);
    }
  }

  #isPlain(): boolean {
    const { authorizerNumbers, authorizers, payerLength, proposerLength, referenceLength } = this.#scan;
    if (authorizerNumbers > 2 * LINEAR_AUTHORIZERS_MAX) return false;
    if (payerLength !== ADDRESS_BYTES || proposerLength !== ADDRESS_BYTES) return false;
    if (referenceLength !== ID_BYTES) return false;
    for (let at = 1; at < authorizerNumbers; at += 2) if (authorizers[at] !== ADDRESS_BYTES) return false;
    return true;
  }

  /** Adds what the scan has found, without allocating anything. */
  #addScanned(bytes: Buffer, place: CollectionPlace, index: number): void {
    const rows = this.#transactions;
    const scan = this.#scan;
    rows.part(bytes, scan.payerStart, ADDRESS_BYTES);
    rows.part(bytes, scan.proposerStart, ADDRESS_BYTES);
    rows.int8(scan.proposalKeyId >>> 0);
    rows.numeric(scan.sequenceLow, scan.sequenceHigh);
    rows.part(bytes, scan.referenceStart, ID_BYTES);
    rows.numeric(scan.gasLow, scan.gasHigh);
    this.#addScript(this.#known.at(bytes, scan.scriptStart, scan.scriptLength));
    const { authorizerNumbers, authorizers } = scan;
    rows.list(authorizerNumbers / 2, ADDRESS_BYTES);
    for (let at = 0; at < authorizerNumbers; at += 2) {
      rows.part(bytes, authorizers[at] as number, ADDRESS_BYTES);
    }
    this.#addAccounts(bytes, place, index);
  }

  /** Each address once, with all its roles. */
  #addAccounts(bytes: Buffer, place: CollectionPlace, index: number): void {
    const { authorizerNumbers, authorizers, payerStart, proposerStart } = this.#scan;
    this.#accountCount = 0;
    this.#addRole(bytes, payerStart, accountRoles.payer);
    this.#addRole(bytes, proposerStart, accountRoles.proposer);
    for (let at = 0; at < authorizerNumbers; at += 2) {
      this.#addRole(bytes, authorizers[at] as number, accountRoles.authorizer);
    }
    for (let at = 0; at < this.#accountCount; at += 1) {
      this.#addAccount(bytes, this.#starts[at] as number, { place, index, roles: this.#roles[at] as number });
    }
  }

  #addRole(bytes: Buffer, start: number, role: number): void {
    const starts = this.#starts;
    const roles = this.#roles;
    for (let at = 0; at < this.#accountCount; at += 1) {
      if (!isSameAddress(bytes, starts[at] as number, start)) continue;
      roles[at] = (roles[at] as number) | role;
      return;
    }
    starts[this.#accountCount] = start;
    roles[this.#accountCount] = role;
    this.#accountCount += 1;
  }

  /** Adds a transaction that the scan cannot handle. Expected errors: `WireError`. */
  #addDecoded(wire: Buffer, place: CollectionPlace, index: number): void {
    const rows = this.#transactions;
    const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decodeTransaction(wire);
    rows.whole(addressBytes(toAddress(payer)));
    rows.whole(addressBytes(toAddress(proposalKey?.address ?? new Uint8Array())));
    rows.int8(proposalKey?.keyId ?? 0);
    rows.numeric(...halvesOf(proposalKey?.sequenceNumber ?? 0n));
    rows.whole(identifierBytes(paddedIdentifier(referenceBlockId)));
    rows.numeric(...halvesOf(gasLimit));
    this.#addScript(this.#known.at(asBuffer(script), 0, script.length));
    rows.list(authorizers.length, ADDRESS_BYTES);
    for (const each of authorizers) rows.whole(addressBytes(toAddress(each)));
    for (const { address, roles } of accountsOf(wire)) {
      this.#addAccount(addressBytes(address), 0, { place, index, roles });
    }
  }

  #addScript(script: Script): void {
    this.scripts.add(script);
    this.#transactions.whole(script.hash);
  }

  #addAccount(
    bytes: Buffer,
    start: number,
    {
      place,
      index,
      roles,
    }: { readonly place: CollectionPlace; readonly index: number; readonly roles: number },
  ): void {
    const rows = this.#accounts;
    rows.row();
    rows.part(bytes, start, ADDRESS_BYTES);
    rows.int8(place.height);
    rows.int4(place.collectionIndex);
    rows.int4(index);
    rows.int2(roles);
  }

  /**
   * With INSERT, as COPY cannot skip scripts that others have stored. Sorted, so that two writers of the same scripts
   * never wait for each other in a circle.
   */
  #newScripts(): Step | undefined {
    const unknown = [...this.scripts].filter(({ isStored }) => !isStored);
    if (unknown.length === 0) return undefined;
    unknown.sort((left, right) => Buffer.compare(left.hash, right.hash));
    return {
      name: 'insert_script',
      text: `INSERT INTO flow_store.script (hash, body)
        SELECT hash, body FROM unnest($1::bytea[], $2::bytea[]) AS given (hash, body) ON CONFLICT DO NOTHING`,
      values: [arrayText(unknown.map(({ hash }) => hash)), arrayText(unknown.map(({ body }) => body))],
    };
  }
}

function arrayText(values: readonly Buffer[]): string {
  return `{${values.map((value) => `"\\\\x${value.toString('hex')}"`).join()}}`;
}

/** Since 2000. */
export function microsecondsOf({ seconds, nanos }: Timestamp = NO_TIME): bigint {
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}

/** The low and the high 32 bits of an unsigned number of 64. */
function halvesOf(value: bigint): [low: number, high: number] {
  return [Number(value & 0xffff_ffffn), Number(value >> 32n)];
}

function isSameAddress(bytes: Buffer, left: number, right: number): boolean {
  // They differ at their ends more often than at their beginnings.
  for (let at = ADDRESS_BYTES - 1; at >= 0; at -= 1) if (bytes[left + at] !== bytes[right + at]) return false;
  return true;
}
