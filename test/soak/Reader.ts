import type { ChainGenerator } from '../../src/devnet/index.js';
import type { Random } from '../../src/runtime/index.js';

const TIMEOUT_MS = 10_000;
/** What is kept of faults to be told; all are counted. */
const MAX_KEPT_FAULTS = 20;

/** Reads random heights that are indexed, by height and by id, and compares each answer with the chain. */
export class Reader {
  reads = 0;
  faultCount = 0;
  readonly faults: string[] = [];
  readonly #parts: { readonly apiUrl: string; readonly chain: ChainGenerator; readonly random: Random };

  constructor(parts: { readonly apiUrl: string; readonly chain: ChainGenerator; readonly random: Random }) {
    this.#parts = parts;
  }

  /** One block of the indexed ones, one of its collections, and one of its transactions. */
  async readAmong(firstHeight: number, latestHeight: number): Promise<void> {
    const { chain, random } = this.#parts;
    const height = firstHeight + Math.floor(random.next() * (latestHeight - firstHeight + 1));
    const { id, collections } = chain.block(height);
    await this.#expect(`/v1/blocks?height=${height}`, id);
    const collection = collections[Math.floor(random.next() * collections.length)];
    if (collection === undefined) return;
    await this.#expect(`/v1/collections/${collection.id}?expand=transactions`, collection.id);
    const transactionId = collection.transactionIds.toString('hex', 0, 32);
    await this.#expect(`/v1/transactions/${transactionId}`, transactionId);
  }

  async #expect(path: string, id: string): Promise<void> {
    this.reads += 1;
    const answer = await fetch(this.#parts.apiUrl + path, { signal: AbortSignal.timeout(TIMEOUT_MS) }).then(
      async (response) => `${response.status}: ${await response.text()}`,
      String,
    );
    if (answer.startsWith('200: ') && answer.includes(`"${id}"`)) return;
    this.faultCount += 1;
    if (this.faultCount <= MAX_KEPT_FAULTS)
      this.faults.push(`${path} was to hold ${id}, and was answered with ${answer.slice(0, 200)}`);
  }
}
