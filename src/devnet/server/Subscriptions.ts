import { abortReason } from '../../runtime/index.js';
import { type Connection, type DevnetNode, unimplemented } from '../node/DevnetNode.js';
import type { FaultEffect, Lie } from '../faults/faultRules.js';
import { type DevnetMethod, type DevnetRequest, methods } from '../faults/rpcMethods.js';
import { notFound, StatusError } from '../faults/StatusError.js';

/** The writing end of a stream. */
export interface MessageSink extends Connection {
  /** False when the sink is full: wait for `drained` first. */
  write(message: Buffer): boolean;
  /** Resolves when there is room again. Expected errors: the signal's abort reason. */
  drained(signal: AbortSignal): Promise<void>;
}

/**
 * The node's streams: one message per height from the start height on, without gaps, while the caller stays. Each
 * message is made only when the sink has room.
 */
export class Subscriptions {
  readonly #node: DevnetNode;
  #open = 0;

  constructor(dependencies: { readonly node: DevnetNode }) {
    this.#node = dependencies.node;
  }

  /** Streams open now. */
  get open(): number {
    return this.#open;
  }

  /**
   * Serves one stream until the signal, or until a fault ends it normally. Expected errors: `StatusError`; the
   * signal's abort reason.
   */
  async run(
    method: DevnetMethod,
    request: DevnetRequest,
    { sink, signal }: { readonly sink: MessageSink; readonly signal: AbortSignal },
  ): Promise<void> {
    const node = this.#node;
    if (!node.serves(method)) throw unimplemented(method);
    if (this.#open >= node.options.maxStreams) {
      throw new StatusError('RESOURCE_EXHAUSTED', 'maximum number of streams reached');
    }
    this.#open++;
    try {
      const opening = node.faults.strike(method, { on: 'open', height: undefined, key: '' });
      if (opening.some(isOrderlyEnd)) return;
      await node.applyFaults(opening, { signal, connection: sink });
      await this.#pump(method, request, { sink, signal, startHeight: this.#startHeight(method, request) });
    } finally {
      this.#open--;
    }
  }

  async #pump(
    method: DevnetMethod,
    request: DevnetRequest,
    {
      sink,
      signal,
      startHeight,
    }: { readonly sink: MessageSink; readonly signal: AbortSignal; readonly startHeight: number },
  ): Promise<void> {
    const node = this.#node;
    const lastHeight = Number(request.end_height ?? Infinity);
    for (let height = startHeight; height <= lastHeight; height++) {
      while (height > this.#limit(method, request, height)) await this.#headMoved(signal);
      const effects = node.faults.strike(method, { on: 'message', height, key: '' });
      let lie: Lie | undefined;
      if (effects.length > 0) {
        if (effects.some(isOrderlyEnd)) return;
        lie = await node.applyFaults(effects, { signal, connection: sink });
        if (effects.some(({ fault }) => fault === 'gap')) continue;
      }
      const message = this.#message(method, request, height, lie);
      node.requests.sent(height);
      if (methods[method].subject === 'block' || methods[method].subject === 'executionData') {
        node.head.wasRead(height);
      }
      const copies = effects.some(({ fault }) => fault === 'repeat') ? 2 : 1;
      for (let copy = 0; copy < copies; copy++) {
        if (signal.aborted) throw abortReason(signal);
        if (!sink.write(message)) await this.#drained(sink, signal);
      }
    }
  }

  #message(method: DevnetMethod, request: DevnetRequest, height: number, lie?: Lie): Buffer {
    const { answers, chain } = this.#node;
    const block = chain.block(height);
    switch (methods[method].subject) {
      case 'block':
        return answers.streamed(answers.block(block, request.full_block_response === true, lie), lie);
      case 'header':
        return answers.streamed(answers.header(block, lie), lie);
      case 'digest':
        return answers.digest(block, lie);
      case 'indexedBlock':
        return answers.indexedBlock(block, lie);
      default:
        return answers.executionDataMessage(block, lie);
    }
  }

  /** The highest height this stream may send now. */
  #limit(method: DevnetMethod, request: DevnetRequest, height: number): number {
    const { head } = this.#node;
    if (methods[method].subject === 'executionData') return this.#node.executedFor(method, height);
    return request.block_status === 'BLOCK_SEALED' ? head.sealed : head.finalized;
  }

  /** Expected errors: `StatusError`. */
  #startHeight(method: DevnetMethod, request: DevnetRequest): number {
    const node = this.#node;
    if (request.block_status === 'BLOCK_UNKNOWN') {
      throw new StatusError(
        'INVALID_ARGUMENT',
        "block status 'unknown' is not a valid block status for this call: it must be sealed or finalized",
      );
    }
    const id = request.start_block_id ?? NO_BYTES;
    const height = Number(request.start_block_height ?? request.start_height ?? 0);
    const isExecutionData = methods[method].subject === 'executionData';
    let start: number;
    if (method === 'SubscribeExecutionData') {
      if (id.length > 0 && height > 0) {
        throw new StatusError(
          'INVALID_ARGUMENT',
          'could not get start height: only one of start block ID and start height may be provided',
        );
      }
      if (id.length > 0) start = node.locate(id).height;
      else start = height > 0 ? this.#checkedStart(height) : node.head.sealed;
    } else if (method === 'SubscribeIndexedBlocks') {
      const { nodeRootHeight } = node.options;
      if (height < nodeRootHeight) {
        throw notFound(`height ${height} is below the first indexed height ${nodeRootHeight}`);
      }
      // The stream may begin above the head.
      start = height;
    } else if (method.endsWith('Latest')) {
      // The latest sealed block, even for streams of finalized blocks.
      start = node.head.sealed;
    } else if (method.endsWith('StartBlockID')) {
      start = node.locate(id).height;
    } else {
      start = this.#checkedStart(height);
    }
    const { rootHeight } = node.chain.generator;
    return isExecutionData && !node.options.executionDataAtRoot && start === rootHeight ? start + 1 : start;
  }

  #checkedStart(height: number): number {
    const node = this.#node;
    const { nodeRootHeight } = node.options;
    if (height < nodeRootHeight) {
      throw new StatusError(
        'INVALID_ARGUMENT',
        `could not get start height: start height must be greater than or equal to the root height ${nodeRootHeight}`,
      );
    }
    if (height > node.head.finalized) {
      throw notFound(`could not get start height: could not get header for height ${height}: key not found`);
    }
    return height;
  }

  #headMoved(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = this.#node.head.onChange(() => {
        stop();
        signal.removeEventListener('abort', onAbort);
        resolve();
      });
      const onAbort = (): void => {
        stop();
        reject(abortReason(signal));
      };
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true });
    });
  }

  /** Waits for room, as long as a node waits for a slow reader. */
  async #drained(sink: MessageSink, signal: AbortSignal): Promise<void> {
    const wait = new AbortController();
    const onAbort = (): void => wait.abort(signal.reason);
    const timer = this.#node.clock.setTimer(this.#node.options.sendTimeoutMs, () =>
      wait.abort(new StatusError('DEADLINE_EXCEEDED', 'error sending response: timeout sending response')),
    );
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      await sink.drained(wait.signal);
    } finally {
      timer.cancel();
      signal.removeEventListener('abort', onAbort);
    }
  }
}

const NO_BYTES = Buffer.alloc(0);

/** A fault that ends the stream normally, which `applyFaults` cannot do. */
function isOrderlyEnd(effect: FaultEffect): boolean {
  return effect.fault === 'cut' && effect.how !== 'reset';
}
