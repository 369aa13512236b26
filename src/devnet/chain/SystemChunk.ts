import { transactionId } from '../../flow/index.js';
import { makeSystemTransaction } from './makeTransaction.js';
import type { Range, Prng } from './Prng.js';

const SYSTEM_GAS_LIMIT = 100_000_000n;
const PROCESS_GAS_LIMIT = 9999n;

const systemScript = `transaction {
    prepare(serviceAccount: auth(BorrowValue) &Account) {
        // the network's own work at the end of each block
    }
}
`;
const processScript = `transaction {
    execute {
        // picks the scheduled transactions that are due
    }
}
`;
const executeScript = `transaction(id: UInt64) {
    execute {
        // runs one scheduled transaction
    }
}
`;

/** The service account of each chain; other chains get the emulator's. */
const serviceAccounts: Readonly<Record<string, string>> = {
  'flow-mainnet': 'e467b9dd11fa00df',
  'flow-testnet': '8c5303eaa26202d6',
};
const DEFAULT_SERVICE_ACCOUNT = 'f8d6e0586b0a20c7';

/**
 * The transactions of the system chunk: process transaction, scheduled transactions, system transaction; formerly
 * only the system transaction. The first and last are identical in every block, so their ids repeat.
 */
export class SystemChunk {
  readonly #scheduled: Range | undefined;
  readonly #account: Buffer;
  readonly #process: Buffer;
  readonly #system: Buffer;
  readonly #ids: ReadonlyMap<Buffer, Buffer>;
  /** Ids that occur in every block, as hex. */
  readonly repeatedTransactions: ReadonlyMap<string, Buffer>;

  constructor(options: { readonly chainId: string; readonly scheduledTransactions: Range | undefined }) {
    this.#scheduled = options.scheduledTransactions;
    this.#account = Buffer.from(serviceAccounts[options.chainId] ?? DEFAULT_SERVICE_ACCOUNT, 'hex');
    this.#process = makeSystemTransaction(processScript, this.#account, PROCESS_GAS_LIMIT);
    this.#system = makeSystemTransaction(systemScript, this.#account, SYSTEM_GAS_LIMIT);
    const repeated = this.#scheduled === undefined ? [this.#system] : [this.#process, this.#system];
    this.#ids = new Map(repeated.map((wire) => [wire, transactionId(wire)]));
    this.repeatedTransactions = new Map([...this.#ids].map(([wire, id]) => [id.toString('hex'), wire]));
  }

  /** The known id of a transaction that occurs in every block. */
  idOf(wire: Buffer): Buffer | undefined {
    return this.#ids.get(wire);
  }

  transactions(height: number, words: Prng): Buffer[] {
    if (this.#scheduled === undefined) return [this.#system];
    const transactions = [this.#process];
    const count = words.between(this.#scheduled);
    for (let index = 0; index < count; index++) {
      const id = BigInt(height) * 1000n + BigInt(index);
      const argument = JSON.stringify({ type: 'UInt64', value: String(id) });
      transactions.push(makeSystemTransaction(executeScript, this.#account, PROCESS_GAS_LIMIT, argument));
    }
    transactions.push(this.#system);
    return transactions;
  }
}
