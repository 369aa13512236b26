import {
  accountRoles,
  accountsOf,
  ADDRESS_BYTES,
  addressBytes,
  asBuffer,
  decodeTransaction,
  toAddress,
  TransactionScan,
} from '../../../flow/index.js';
import type { VerifiedCollection } from '../../../flow/index.js';
import { RowTable } from './RowTable.js';
import type { Script, Scripts } from './Scripts.js';

const ID_BYTES = 32;
/** With more of them a map is used, so that an attack cannot cost their square. */
const LINEAR_AUTHORIZERS_MAX = 32;

const transactionShape = {
  name: 'transaction',
  columns: {
    height: 'bigint',
    collection_index: 'integer',
    transaction_index: 'integer',
    id: 'bytea',
    payer: 'bytea',
    proposer: 'bytea',
    proposer_key: 'bigint',
    sequence_number: { cast: 'numeric' },
    authorizers: { cast: 'bytea[]' },
    script_hash: 'bytea',
    reference_block_id: 'bytea',
    gas_limit: { cast: 'numeric' },
    body_offset: 'bigint',
    bytes: 'integer',
  },
} as const;
const accountShape = {
  name: 'account_transaction',
  columns: {
    address: 'bytea',
    height: 'bigint',
    collection_index: 'integer',
    transaction_index: 'integer',
    roles: 'integer',
  },
} as const;

/** Where a collection lies. */
interface CollectionPlace {
  readonly height: number;
  readonly collectionIndex: number;
  /** Of its first byte, in the body of its block. */
  readonly bodyOffset: number;
}

/** The rows of transactions and of their accounts, written while the transactions are read. */
export class TransactionRows {
  readonly scripts = new Set<Script>();
  readonly #transactions = new RowTable(transactionShape);
  readonly #accounts = new RowTable(accountShape);
  readonly #known: Scripts;
  readonly #scan = new TransactionScan();
  /** The accounts of the transaction at hand: where the address of each is, and its roles. */
  readonly #starts: number[] = [];
  readonly #roles: number[] = [];
  #playing = 0;

  constructor({ scripts }: { readonly scripts: Scripts }) {
    this.#known = scripts;
  }

  get tables() {
    return [this.#transactions, this.#accounts] as const;
  }

  add({ encoded, ranges, transactionIds }: VerifiedCollection, place: CollectionPlace): void {
    const { columns } = this.#transactions;
    const bytes = asBuffer(encoded);
    const ids = asBuffer(transactionIds);
    const count = ranges.length / 2;
    this.#transactions.rows += count;
    for (let index = 0; index < count; index += 1) {
      const start = ranges[2 * index] as number;
      const length = ranges[2 * index + 1] as number;
      columns.height.int8(place.height);
      columns.collection_index.int4(place.collectionIndex);
      columns.transaction_index.int4(index);
      columns.id.part(ids, index * ID_BYTES, ID_BYTES);
      columns.body_offset.int8(place.bodyOffset + start);
      columns.bytes.int4(length);
      if (this.#scan.run(bytes, start, start + length) && this.#isPlain())
        this.#addScanned(bytes, place, index);
      else this.#addDecoded(bytes.subarray(start, start + length), place, index);
    }
  }

  #isPlain(): boolean {
    const { authorizerNumbers, authorizers, payerLength, proposerLength } = this.#scan;
    if (authorizerNumbers > 2 * LINEAR_AUTHORIZERS_MAX) return false;
    if (payerLength !== ADDRESS_BYTES || proposerLength !== ADDRESS_BYTES) return false;
    for (let at = 1; at < authorizerNumbers; at += 2) if (authorizers[at] !== ADDRESS_BYTES) return false;
    return true;
  }

  /** Of what the scan has found; nothing is allocated for it but a few texts. */
  #addScanned(bytes: Buffer, place: CollectionPlace, index: number): void {
    const { columns } = this.#transactions;
    const scan = this.#scan;
    columns.payer.part(bytes, scan.payerStart, ADDRESS_BYTES);
    columns.proposer.part(bytes, scan.proposerStart, ADDRESS_BYTES);
    columns.proposer_key.int8(scan.proposalKeyId >>> 0);
    columns.sequence_number.ascii(textOf(scan.sequenceLow, scan.sequenceHigh));
    columns.reference_block_id.part(bytes, scan.referenceStart, scan.referenceLength);
    columns.gas_limit.ascii(textOf(scan.gasLow, scan.gasHigh));
    this.#addScript(this.#known.at(bytes, scan.scriptStart, scan.scriptLength));
    const { authorizerNumbers, authorizers } = scan;
    let list = '';
    for (let at = 0; at < authorizerNumbers; at += 2) {
      const start = authorizers[at] as number;
      list += `${list === '' ? '' : ','}"\\\\x${bytes.toString('hex', start, start + ADDRESS_BYTES)}"`;
    }
    columns.authorizers.ascii(`{${list}}`);
    this.#addAccounts(bytes, place, index);
  }

  /** Each address once, with all its roles. */
  #addAccounts(bytes: Buffer, place: CollectionPlace, index: number): void {
    const { authorizerNumbers, authorizers, payerStart, proposerStart } = this.#scan;
    this.#playing = 0;
    this.#play(bytes, payerStart, accountRoles.payer);
    this.#play(bytes, proposerStart, accountRoles.proposer);
    for (let at = 0; at < authorizerNumbers; at += 2) {
      this.#play(bytes, authorizers[at] as number, accountRoles.authorizer);
    }
    for (let at = 0; at < this.#playing; at += 1) {
      this.#addAccount(bytes, this.#starts[at] as number, { place, index, roles: this.#roles[at] as number });
    }
  }

  #play(bytes: Buffer, start: number, role: number): void {
    const starts = this.#starts;
    const roles = this.#roles;
    for (let at = 0; at < this.#playing; at += 1) {
      if (!isSameAddress(bytes, starts[at] as number, start)) continue;
      roles[at] = (roles[at] as number) | role;
      return;
    }
    starts[this.#playing] = start;
    roles[this.#playing] = role;
    this.#playing += 1;
  }

  /** Of a transaction that is encoded in some other way than usual. Expected errors: `WireError`. */
  #addDecoded(wire: Buffer, place: CollectionPlace, index: number): void {
    const { columns } = this.#transactions;
    const { authorizers, gasLimit, payer, proposalKey, referenceBlockId, script } = decodeTransaction(wire);
    columns.payer.whole(addressBytes(toAddress(payer)));
    columns.proposer.whole(addressBytes(toAddress(proposalKey?.address ?? new Uint8Array())));
    columns.proposer_key.int8(proposalKey?.keyId ?? 0);
    columns.sequence_number.ascii(String(proposalKey?.sequenceNumber ?? 0n));
    columns.reference_block_id.whole(asBuffer(referenceBlockId));
    columns.gas_limit.ascii(String(gasLimit));
    columns.authorizers.ascii(`{${authorizers.map((each) => `"\\\\x${toAddress(each)}"`).join()}}`);
    this.#addScript(this.#known.at(asBuffer(script), 0, script.length));
    for (const { address, roles } of accountsOf(wire)) {
      this.#addAccount(addressBytes(address), 0, { place, index, roles });
    }
  }

  #addScript(script: Script): void {
    this.scripts.add(script);
    this.#transactions.columns.script_hash.whole(script.hash);
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
    const { columns } = this.#accounts;
    this.#accounts.rows += 1;
    columns.address.part(bytes, start, ADDRESS_BYTES);
    columns.height.int8(place.height);
    columns.collection_index.int4(place.collectionIndex);
    columns.transaction_index.int4(index);
    columns.roles.int4(roles);
  }
}

/** An unsigned number of two halves, as the scan notes it. */
function textOf(low: number, high: number): string {
  if (high === 0) return String(low >>> 0);
  return String((BigInt(high >>> 0) << 32n) | BigInt(low >>> 0));
}

function isSameAddress(bytes: Buffer, left: number, right: number): boolean {
  // They differ at their ends more often than at their beginnings.
  for (let at = ADDRESS_BYTES - 1; at >= 0; at -= 1) if (bytes[left + at] !== bytes[right + at]) return false;
  return true;
}
