import { ok as assert } from 'node:assert/strict';
import {
  accountRoles,
  ADDRESS_BYTES,
  asBuffer,
  identifierBytes,
  NO_TIME,
  paddedIdentifier,
  timeOfBlock,
  toAddress,
  TransactionScan,
  type VerifiedCollection,
} from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { parseBodyKey, Prefix } from '../../records/schema.js';
import type { Step } from '../connection/Session.js';
import { CopyRows } from './CopyRows.js';
import type { Script, Scripts } from './Scripts.js';

const EPOCH_2000_SECONDS = 946_684_800n;
const ID_BYTES = 32;

/** Where a collection lies. */
interface CollectionPlace {
  readonly height: number;
  readonly collectionIndex: number;
  /** Of its first byte, in the body of its block. */
  readonly bodyOffset: number;
}

/** All rows of some blocks, as a commit writes them. `verify` derives its own from the stored blocks. */
export class BlockRows {
  /** The blocks whose rows these are. */
  readonly entries = new Set<BlockEntry>();
  /** The scripts of the transactions. */
  readonly #scripts = new Set<Script>();
  readonly #blocks = new CopyRows('block');
  readonly #bodies = new CopyRows('body');
  readonly #collections = new CopyRows('collection');
  readonly #transactions = new CopyRows('transaction');
  readonly #accounts = new CopyRows('account_transaction');
  readonly #tables = [this.#blocks, this.#bodies, this.#collections, this.#transactions, this.#accounts];
  readonly #known: Scripts;
  readonly #stored: WeakSet<Script>;
  readonly #writer = new BlockEntryWriter();
  readonly #scan = new TransactionScan();
  /** The accounts of the current transaction: the address of each as a number, and all of its roles. */
  readonly #roles = new Map<bigint, number>();

  /** `stored`: scripts that need not be sent again. */
  constructor(scripts: Scripts, stored = new WeakSet<Script>()) {
    this.#known = scripts;
    this.#stored = stored;
  }

  /** Adds the rows of a block, once. */
  add(entry: BlockEntry): void {
    if (this.entries.has(entry)) return;
    this.entries.add(entry);
    const { block, collections } = entry;
    const { height, id, parentId, encoded } = block;
    let bodyOffset = 0;
    let transactions = 0;
    for (const [collectionIndex, collection] of collections.entries()) {
      this.#addCollection(collection, { height, collectionIndex, bodyOffset });
      bodyOffset += collection.encoded.length;
      transactions += collection.ranges.length / 2;
    }
    const rows = this.#blocks;
    const bodies = this.#bodies;
    rows.row();
    rows.int8(height);
    rows.whole(identifierBytes(id));
    rows.whole(identifierBytes(parentId));
    rows.int64(microsecondsOf(encoded));
    rows.int4(collections.length);
    rows.int4(transactions);
    this.#writer.putBlock(entry, (key, value) => {
      if (key[0] === Prefix.block) {
        rows.whole(value);
        return;
      }
      bodies.row();
      bodies.int8(height);
      bodies.int4(parseBodyKey(key)?.chunk ?? 0);
      bodies.whole(value);
    });
  }

  /** The steps that write the rows. Scripts that are stored already are left out. */
  steps(): readonly Step[] {
    const steps = [...this.#tables.map((table) => table.step()), this.#newScripts()];
    return steps.filter((step) => step !== undefined);
  }

  /** The rows are stored: forgets them. */
  stored(): void {
    for (const script of this.#scripts) this.#stored.add(script);
    this.clear();
  }

  clear(): void {
    this.#scripts.clear();
    this.entries.clear();
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
    const accounts = this.#accounts;
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
      this.#addTransaction(bytes, start, start + length);
      rows.int8(place.bodyOffset + start);
      rows.int4(length);
      for (const [address, roles] of this.#roles) {
        accounts.row();
        accounts.int64(address);
        accounts.int8(place.height);
        accounts.int4(place.collectionIndex);
        accounts.int4(index);
        accounts.int2(roles);
      }
    }
  }

  /** Adds the fields of the transaction at `start … end`, and sets `#roles`. Collections are in canonical encoding. */
  #addTransaction(bytes: Buffer, start: number, end: number): void {
    const rows = this.#transactions;
    const scan = this.#scan;
    assert(scan.run(bytes, start, end), 'a transaction is not in canonical encoding');
    const { authorizerNumbers, authorizers, referenceLength, referenceStart } = scan;
    this.#roles.clear();
    this.#addAddress(bytes, scan.payerStart, scan.payerLength, accountRoles.payer);
    this.#addAddress(bytes, scan.proposerStart, scan.proposerLength, accountRoles.proposer);
    rows.int8(scan.proposalKeyId >>> 0);
    rows.numeric(scan.sequenceLow, scan.sequenceHigh);
    rows.list(authorizerNumbers / 2, ADDRESS_BYTES);
    for (let at = 0; at < authorizerNumbers; at += 2)
      this.#addAddress(
        bytes,
        authorizers[at] as number,
        authorizers[at + 1] as number,
        accountRoles.authorizer,
      );
    const script = this.#known.at(bytes, scan.scriptStart, scan.scriptLength);
    this.#scripts.add(script);
    rows.whole(script.hash);
    if (referenceLength === ID_BYTES) rows.part(bytes, referenceStart, ID_BYTES);
    else
      rows.whole(
        identifierBytes(paddedIdentifier(bytes.subarray(referenceStart, referenceStart + referenceLength))),
      );
    rows.numeric(scan.gasLow, scan.gasHigh);
  }

  #addAddress(bytes: Buffer, start: number, length: number, role: number): void {
    const address =
      length === ADDRESS_BYTES
        ? bytes.readBigUInt64BE(start)
        : BigInt(`0x${toAddress(bytes.subarray(start, start + length))}`);
    this.#transactions.int64(address);
    this.#roles.set(address, (this.#roles.get(address) ?? 0) | role);
  }

  /**
   * By INSERT, as COPY cannot skip scripts that other writers have stored; damaged ones are replaced. Sorted, so that two
   * writers of the same scripts never deadlock.
   */
  #newScripts(): Step | undefined {
    const unknown = [...this.#scripts].filter((script) => !this.#stored.has(script));
    if (unknown.length === 0) return undefined;
    unknown.sort((left, right) => Buffer.compare(left.hash, right.hash));
    return {
      name: 'insert_script',
      text: `WITH given AS (SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS given (hash, body)), replaced AS (
          UPDATE flow_store.script SET body = given.body FROM given WHERE script.hash = given.hash AND script.body <> given.body)
        INSERT INTO flow_store.script (hash, body) SELECT hash, body FROM given ON CONFLICT DO NOTHING`,
      values: [arrayText(unknown.map(({ hash }) => hash)), arrayText(unknown.map(({ body }) => body))],
    };
  }
}

function arrayText(values: readonly Buffer[]): string {
  return `{${values.map((value) => `"\\\\x${value.toString('hex')}"`).join()}}`;
}

/** The time of a block, in microseconds since 2000. */
export function microsecondsOf(encoded: Uint8Array): bigint {
  const { seconds, nanos } = timeOfBlock(encoded) ?? NO_TIME;
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}
