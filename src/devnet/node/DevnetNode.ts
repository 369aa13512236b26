import { identifierBytes, WireWriter } from '../../flow/index.js';
import { type Clock, sleep, unlessAborted } from '../../runtime/index.js';
import { ResponseEncoder } from './ResponseEncoder.js';
import type { Fork } from '../chain/BlockIds.js';
import type { Chain } from '../chain/Chain.js';
import type { GeneratedBlock } from '../chain/ChainGenerator.js';
import { longestCollectionLagMs } from './collectionLag.js';
import type { FaultEffect, FaultRule, Lie } from '../faults/faultRules.js';
import { FaultScript } from '../faults/FaultScript.js';
import { ChainHead } from './ChainHead.js';
import { type DevnetMethod, methods } from '../faults/rpcMethods.js';
import type { NodeOptions } from './devnetOptions.js';
import { RequestLog } from './RequestLog.js';
import { KEY_NOT_FOUND, notFound, StatusError } from '../faults/StatusError.js';

/** A connection that a call can break. */
export interface Connection {
  /** Breaks the call's connection. */
  reset(): void;
}

/** More would keep callers and signals waiting. */
const IDS_AT_ONCE = 100;

/**
 * An access node without the network; `UnaryCalls` and `Subscriptions` answer from it. Tests control it through its
 * methods and properties.
 */
export class DevnetNode {
  readonly chain: Chain;
  readonly head: ChainHead;
  readonly requests = new RequestLog();
  readonly faults: FaultScript;
  readonly answers: ResponseEncoder;
  readonly options: NodeOptions;
  readonly clock: Clock;
  #metadata: { readonly finalized: number; readonly executed: number; readonly encoded: Buffer } | undefined;

  /** Expected errors: `OperatorError('configuration')` for an invalid fault script. */
  constructor(options: NodeOptions, dependencies: { readonly chain: Chain; readonly clock: Clock }) {
    this.options = options;
    this.chain = dependencies.chain;
    this.clock = dependencies.clock;
    const { seed, rootHeight, endHeight } = this.chain.generator;
    this.head = new ChainHead(
      { ...options, rootHeight, endHeight, memoryMs: longestCollectionLagMs(options) },
      dependencies,
    );
    // Whoever reads first after a quiet night would wait for the ids of all of it.
    let made = rootHeight;
    this.head.onChange(() => {
      made = Math.min(this.head.finalized, made + IDS_AT_ONCE);
      this.chain.generator.blockId(made);
    });
    this.faults = new FaultScript({ seed }, dependencies);
    this.faults.set(options.faults);
    this.answers = new ResponseEncoder(dependencies);
  }

  /** Replaces the fault script and wakes waiting streams. Expected errors: `OperatorError('configuration')`. */
  setFaults(rules: readonly FaultRule[]): void {
    this.faults.set(rules);
    this.head.touch();
  }

  /** False for methods that are switched off or too new for this node: they answer UNIMPLEMENTED. */
  serves(method: DevnetMethod): boolean {
    const { options } = this;
    const { subject, isStream } = methods[method];
    if (subject === 'executionData') {
      if (!options.executionData) return false;
      return options.executionDataSubscriptions === 'all' || !isStream || method === 'SubscribeExecutionData';
    }
    if (subject === 'snapshot') return this.chain.generator.hasCommittee;
    if (subject === 'indexedBlock') return options.indexedBlocks;
    if (isStream) return options.streams;
    if (method === 'GetFullCollectionByID') return options.fullCollections;
    if (method === 'GetNodeVersionInfo') return options.nodeVersionInfo;
    return true;
  }

  /**
   * Applies a call's faults: waits, fails, or returns the lie to tell. Expected errors: `StatusError`; the
   * signal's abort reason.
   */
  async applyFaults(
    effects: readonly FaultEffect[],
    { signal, connection }: { readonly signal: AbortSignal; readonly connection: Connection },
  ): Promise<Lie | undefined> {
    for (const effect of effects) {
      switch (effect.fault) {
        case 'latency':
          await sleep(this.clock, effect.delayMs, signal);
          break;
        case 'error':
          throw new StatusError(effect.code, effect.message ?? 'a fault of the script');
        case 'stall':
          await aborted(signal);
          break;
        case 'cut':
          connection.reset();
          await aborted(signal);
          break;
        case 'execution_data_lag':
        case 'gap':
        case 'repeat':
          break;
        default:
          return effect;
      }
    }
    return undefined;
  }

  /** The current `flow.entities.Metadata`. */
  metadata(): Buffer {
    const { finalized, executed } = this.head;
    if (this.#metadata?.finalized === finalized && this.#metadata.executed === executed) {
      return this.#metadata.encoded;
    }
    const { generator } = this.chain;
    const encoded = new WireWriter()
      .bytes(1, identifierBytes(generator.blockId(finalized)))
      .number(2, finalized)
      .bytes(3, generator.ids.derive('node'))
      .number(4, Math.max(generator.rootHeight, executed))
      .finish();
    this.#metadata = { finalized, executed, encoded };
    return encoded;
  }

  /** The highest height whose execution data a method may return; faults can move it. */
  executedFor(method: DevnetMethod, height: number): number {
    const lag = this.faults.executionDataLag(method, height);
    return Math.min(this.head.finalized, this.head.executed - lag);
  }

  /** The node's block at a height. Expected errors: `StatusError`. */
  blockAt(height: number): GeneratedBlock {
    const { rootHeight } = this.chain.generator;
    const { nodeRootHeight } = this.options;
    const cause = `failed to retrieve block ID for height ${height}: ${KEY_NOT_FOUND}`;
    if (height < rootHeight) {
      throw notFound(
        `block height ${height} is less than the spork root block height ${rootHeight}. Try to use a historic node: ${cause}`,
      );
    }
    if (height < nodeRootHeight) {
      throw notFound(
        `block height ${height} is less than the node's root block height ${nodeRootHeight}. Try to use a different Access node: ${cause}`,
      );
    }
    if (height > this.head.finalized) throw notFound(cause);
    return this.chain.block(height);
  }

  /** Finds a block id among the node's blocks. Expected errors: `StatusError`. */
  locate(id: Buffer): { readonly height: number; readonly fork: Fork } {
    if (id.length !== 32) {
      throw new StatusError('INVALID_ARGUMENT', `invalid block id: expected 32 bytes, got ${id.length}`);
    }
    const place = this.chain.locate(id);
    const { nodeRootHeight } = this.options;
    if (place === undefined || place.height < nodeRootHeight || place.height > this.head.finalized)
      throw notFound(`could not find block ${id.toString('hex')}: ${KEY_NOT_FOUND}`);
    return place;
  }
}

export function unimplemented(method: DevnetMethod): StatusError {
  return new StatusError('UNIMPLEMENTED', `unknown method ${method} for service ${methods[method].service}`);
}

/** Waits for the signal, then rejects with its reason. */
export function aborted(signal: AbortSignal): Promise<never> {
  return unlessAborted<never>(signal, () => () => undefined);
}
