import type { MessagePort } from 'node:worker_threads';
import type { BlockEntry } from '../../../src/storage/index.js';

/** Blocks that were handed over and are not written; more, and `isFull`. */
const MAX_HANDED_OVER = 256;

/** In the place of a `GroupWriter`, on a thread that only fetches: hands over what became complete in one turn of its loop. */
export class HandOver {
  readonly #port: MessagePort;
  #turn: BlockEntry[] = [];
  #lastAdded = 0;
  #lastWritten = 0;

  constructor(port: MessagePort, onWritten: (height: number) => void) {
    this.#port = port;
    port.on('message', (height: number) => {
      this.#lastWritten = height;
      onWritten(height);
    });
  }

  get isFull(): boolean {
    return this.#lastAdded - this.#lastWritten >= MAX_HANDED_OVER;
  }

  add(entry: BlockEntry): void {
    this.#lastAdded = entry.block.height;
    this.#turn.push(entry);
    if (this.#turn.length === 1) setImmediate(() => this.#post());
  }

  #post(): void {
    const turn = this.#turn;
    this.#turn = [];
    // Collections that were verified together are views of the same buffers.
    const buffers = new Set(
      turn.flatMap(({ collections }) =>
        collections.flatMap(({ encoded, ranges }) => [encoded.buffer, ranges.buffer]),
      ),
    );
    this.#port.postMessage(turn, [...buffers] as ArrayBuffer[]);
  }
}
