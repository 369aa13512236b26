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
} from '../../../flow/index.js';
import type { BlockEntry } from '../../port/RangeStore.js';
import { BlockEntryWriter } from '../../records/blocks/BlockEntryWriter.js';
import { parseValueKey, RECORD } from '../../records/schema.js';
import type { Step } from '../connection/Session.js';
import { copyRows } from './copyRows.js';
import type { Script, ScriptAt } from './scriptsSeen.js';

const EPOCH_2000_SECONDS = 946_684_800n;
const ID_BYTES = 32;

/**
 * All rows of some blocks, as a commit writes them. `verify` derives its own from the stored blocks. `stored`: scripts that
 * need not be sent again.
 */
export function blockRows(scriptAt: ScriptAt, stored = new WeakSet<Script>()) {
  /** The blocks whose rows these are. */
  const entries = new Set<BlockEntry>();
  /** Those of the transactions. */
  const scripts = new Set<Script>();
  const [blocks, bodies, collections] = [copyRows('block'), copyRows('body'), copyRows('collection')];
  const [transactions, accounts] = [copyRows('transaction'), copyRows('account_transaction')];
  const tables = [blocks, bodies, collections, transactions, accounts];
  const writer = new BlockEntryWriter();
  const scan = new TransactionScan();
  /** The accounts of the current transaction, with all of their roles. */
  const roles = new Map<bigint, number>();

  const addressAt = (bytes: Buffer, start: number, length: number, role: number): bigint => {
    const address =
      length === ADDRESS_BYTES
        ? bytes.readBigUInt64BE(start)
        : BigInt(`0x${toAddress(bytes.subarray(start, start + length))}`);
    roles.set(address, (roles.get(address) ?? 0) | role);
    return address;
  };
  /** Writes the fields of the transaction at `start … end`, and sets `roles`. Collections are in canonical encoding. */
  const putTransaction = (bytes: Buffer, start: number, end: number): void => {
    assert(scan.run(bytes, start, end), 'a transaction is not in canonical encoding');
    const { authorizerNumbers, authorizers, referenceLength, referenceStart } = scan;
    roles.clear();
    const payer = addressAt(bytes, scan.payerStart, scan.payerLength, accountRoles.payer);
    const proposer = addressAt(bytes, scan.proposerStart, scan.proposerLength, accountRoles.proposer);
    const sequence = unsigned(scan.sequenceLow, scan.sequenceHigh);
    transactions.put(payer, proposer, scan.proposalKeyId >>> 0, sequence);
    const addresses: bigint[] = [];
    for (let at = 0; at < authorizerNumbers; at += 2) {
      const [first = 0, length = 0] = [authorizers[at], authorizers[at + 1]];
      addresses.push(addressAt(bytes, first, length, accountRoles.authorizer));
    }
    const script = scriptAt(bytes, scan.scriptStart, scan.scriptLength);
    scripts.add(script);
    const given = bytes.subarray(referenceStart, referenceStart + referenceLength);
    const reference = referenceLength === ID_BYTES ? given : identifierBytes(paddedIdentifier(given));
    transactions.put(addresses, script.hash, reference, unsigned(scan.gasLow, scan.gasHigh));
  };

  /**
   * By INSERT, as COPY cannot skip scripts that other writers have stored; damaged ones are replaced. Sorted, so that two
   * writers of the same scripts never deadlock.
   */
  const newScripts = (): Step | undefined => {
    const unknown = [...scripts].filter((script) => !stored.has(script));
    if (unknown.length === 0) return undefined;
    unknown.sort((left, right) => Buffer.compare(left.hash, right.hash));
    return {
      name: 'insert_script',
      text: `WITH given AS (SELECT * FROM unnest($1::bytea[], $2::bytea[]) AS given (hash, body)), replaced AS (
          UPDATE flow_store.script SET body = given.body FROM given WHERE script.hash = given.hash AND script.body <> given.body)
        INSERT INTO flow_store.script (hash, body) SELECT hash, body FROM given ON CONFLICT DO NOTHING`,
      values: [arrayText(unknown.map(({ hash }) => hash)), arrayText(unknown.map(({ body }) => body))],
    };
  };
  const clear = (): void => {
    scripts.clear();
    entries.clear();
    for (const table of tables) table.clear();
  };

  return {
    entries,
    /** Adds the rows of a block, once. */
    add: (entry: BlockEntry): void => {
      if (entries.has(entry)) return;
      entries.add(entry);
      const { height, id, parentId, encoded } = entry.block;
      let [bodyOffset, transactionCount] = [0, 0];
      for (const [index, collection] of entry.collections.entries()) {
        const { ranges } = collection;
        const [bytes, ids] = [asBuffer(collection.encoded), asBuffer(collection.transactionIds)];
        const count = ranges.length / 2;
        collections.row(height, index, identifierBytes(collection.id), count, bodyOffset, bytes.length);
        for (let at = 0; at < count; at += 1) {
          const [start, length] = [ranges[2 * at] as number, ranges[2 * at + 1] as number];
          transactions.row(height, index, at, ids.subarray(at * ID_BYTES, (at + 1) * ID_BYTES));
          putTransaction(bytes, start, start + length);
          transactions.put(bodyOffset + start, length);
          for (const [address, sum] of roles) accounts.row(address, height, index, at, sum);
        }
        bodyOffset += bytes.length;
        transactionCount += count;
      }
      blocks.row(height, identifierBytes(id), identifierBytes(parentId), microsecondsOf(encoded));
      blocks.put(entry.collections.length, transactionCount);
      writer.putBlock(entry, (key, value) => {
        const chunk = parseValueKey(key)?.chunk ?? RECORD;
        if (chunk === RECORD) blocks.put(value);
        else bodies.row(height, chunk, value);
      });
    },
    /** The steps that write the rows. Scripts that are stored already are left out. */
    steps: (): readonly Step[] =>
      [...tables.map((table) => table.step()), newScripts()].filter((step) => step !== undefined),
    /** The rows are stored: forgets them. */
    stored: (): void => {
      for (const script of scripts) stored.add(script);
      clear();
    },
    clear,
  };
}

function unsigned(low: number, high: number): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

function arrayText(values: readonly Buffer[]): string {
  return `{${values.map((value) => `"\\\\x${value.toString('hex')}"`).join()}}`;
}

/** The time of a block, in microseconds since 2000. */
export function microsecondsOf(encoded: Uint8Array): bigint {
  const { seconds, nanos } = timeOfBlock(encoded) ?? NO_TIME;
  return (seconds - EPOCH_2000_SECONDS) * 1_000_000n + BigInt(Math.floor(nanos / 1000));
}
