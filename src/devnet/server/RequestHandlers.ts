import type { CollectionPlace } from '../chain/Chain.js';
import type { GeneratedBlock } from '../chain/ChainGenerator.js';
import { collectionLagMs } from '../node/collectionLag.js';
import type { DevnetNode } from '../node/DevnetNode.js';
import type { Lie } from '../faults/faultRules.js';
import { type DevnetMethod, type DevnetRequest, methods } from '../faults/rpcMethods.js';
import { KEY_NOT_FOUND, notFound, StatusError } from '../faults/StatusError.js';

/** What a unary call asks for, and how to answer it with a given lie, if any. */
export interface Question {
  /** The answer's height, if known. */
  readonly height?: number | undefined;
  readonly key?: string;
  /** Expected errors: `StatusError`. */
  answer(lie?: Lie): Buffer;
}

/** Finds what a request asks for, and answers it as a node does, errors included. */
export class RequestHandlers {
  readonly #node: DevnetNode;

  constructor(dependencies: { readonly node: DevnetNode }) {
    this.#node = dependencies.node;
  }

  ask(method: DevnetMethod, request: DevnetRequest): Question {
    const { answers } = this.#node;
    const id = request.id ?? NO_BYTES;
    switch (method) {
      case 'Ping':
        return { answer: (lie) => answers.empty(lie) };
      case 'GetNetworkParameters':
        return { answer: (lie) => answers.networkParameters(lie) };
      case 'GetNodeVersionInfo':
        return { answer: (lie) => answers.nodeVersionInfo(this.#node.options, lie) };
      case 'GetLatestBlockHeader':
      case 'GetLatestBlock':
        return this.#latest(method, request);
      case 'GetBlockHeaderByHeight':
      case 'GetBlockByHeight':
        return this.#byHeight(method, request);
      case 'GetBlockHeaderByID':
      case 'GetBlockByID':
        return this.#byId(method, request, id);
      case 'GetCollectionByID':
        return this.#collection(id, (place, lie) =>
          answers.lightCollection(place, this.#node.metadata(), lie),
        );
      case 'GetFullCollectionByID':
        return this.#collection(id, (place, lie) =>
          answers.fullCollection(place, this.#node.metadata(), lie),
        );
      case 'GetTransaction':
        return this.#transaction(id);
      case 'GetTransactionsByBlockID':
        return this.#blockTransactions(request.block_id ?? NO_BYTES);
      case 'GetLatestProtocolStateSnapshot':
        return this.#latestSnapshot();
      case 'GetProtocolStateSnapshotByHeight':
        return this.#snapshotByHeight(Number(request.block_height ?? 0));
      case 'GetProtocolStateSnapshotByBlockID':
        return this.#snapshotById(request.block_id ?? NO_BYTES);
      case 'GetExecutionDataByBlockID':
        return this.#executionData(method, request.block_id ?? NO_BYTES);
      default:
        throw new TypeError(`${method} is a stream`);
    }
  }

  #latest(method: 'GetLatestBlockHeader' | 'GetLatestBlock', request: DevnetRequest): Question {
    const height = request.is_sealed === true ? this.#node.head.sealed : this.#node.head.finalized;
    return {
      height,
      answer: (lie) => {
        const block = this.#node.chain.block(this.#backIn(height, lie));
        return this.#blockAnswer(method, block, request, lie);
      },
    };
  }

  #byHeight(method: 'GetBlockHeaderByHeight' | 'GetBlockByHeight', request: DevnetRequest): Question {
    const height = Number(request.height ?? 0);
    return { height, answer: (lie) => this.#blockAnswer(method, this.#node.blockAt(height), request, lie) };
  }

  #byId(method: 'GetBlockHeaderByID' | 'GetBlockByID', request: DevnetRequest, id: Buffer): Question {
    const place = id.length === 32 ? this.#node.chain.locate(id) : undefined;
    return {
      height: place?.height,
      key: id.toString('hex'),
      answer: (lie) => {
        const { height, fork } = this.#node.locate(id);
        const shownAs: Lie | undefined = fork === 'orphan' ? { fault: 'orphaned' } : lie;
        return this.#blockAnswer(method, this.#node.chain.block(height), request, shownAs);
      },
    };
  }

  #blockAnswer(method: DevnetMethod, block: GeneratedBlock, request: DevnetRequest, lie?: Lie): Buffer {
    const body =
      methods[method].subject === 'header'
        ? this.#node.answers.header(block, lie)
        : this.#node.answers.block(block, request.full_block_response === true, lie);
    const status = block.height <= this.#node.head.sealed ? 2 : 1;
    return this.#node.answers.blockResponse(body, status, this.#node.metadata(), lie);
  }

  #latestSnapshot(): Question {
    const height = this.#node.head.finalized;
    return { height, answer: (lie) => this.#snapshot(this.#backIn(height, lie), lie) };
  }

  #snapshotByHeight(height: number): Question {
    return { height, answer: (lie) => this.#snapshot(this.#node.blockAt(height).height, lie) };
  }

  #snapshotById(id: Buffer): Question {
    const place = id.length === 32 ? this.#node.chain.locate(id) : undefined;
    return {
      height: place?.height,
      key: id.toString('hex'),
      answer: (lie) => {
        const { height, fork } = this.#node.locate(id);
        if (fork === 'chain') return this.#snapshot(height, lie);
        throw new StatusError(
          'INVALID_ARGUMENT',
          `failed to retrieve snapshot for block: block ${id.toString('hex')} is not finalized`,
        );
      },
    };
  }

  #snapshot(height: number, lie?: Lie): Buffer {
    return this.#node.answers.snapshot(height, this.#node.metadata(), lie);
  }

  /** Where a node whose head went back believes it to be. */
  #backIn(height: number, lie?: Lie): number {
    const back = lie?.fault === 'head_backwards' ? lie.blocks : 0;
    return Math.max(this.#node.options.nodeRootHeight, height - back);
  }

  #collection(id: Buffer, encode: (place: CollectionPlace, lie?: Lie) => Buffer): Question {
    const place = id.length === 32 ? this.#node.chain.findCollection(id) : undefined;
    return {
      height: place?.block.height,
      key: id.toString('hex'),
      answer: (lie) => {
        if (id.length === 0) throw new StatusError('INVALID_ARGUMENT', 'invalid collection id: empty');
        if (place === undefined || !this.#hasCollection(place)) {
          throw notFound(`please retry for collection in finalized block: ${KEY_NOT_FOUND}`);
        }
        return encode(place, lie);
      },
    };
  }

  #transaction(id: Buffer): Question {
    const key = id.toString('hex');
    const system = this.#node.chain.generator.repeatedSystemTransactions.get(key);
    const place = id.length === 32 && system === undefined ? this.#node.chain.findTransaction(id) : undefined;
    return {
      height: place?.block.height,
      key,
      answer: (lie) => {
        if (id.length === 0) throw new StatusError('INVALID_ARGUMENT', 'invalid transaction id: empty');
        if (system !== undefined) {
          return this.#node.answers.systemTransaction(system, this.#node.metadata(), lie);
        }
        if (place === undefined || !this.#hasCollection(place)) {
          throw notFound(`could not find transaction ${key}: ${KEY_NOT_FOUND}`);
        }
        return this.#node.answers.transaction(place.transaction, place, this.#node.metadata(), lie);
      },
    };
  }

  #blockTransactions(blockId: Buffer): Question {
    const place = blockId.length === 32 ? this.#node.chain.locate(blockId) : undefined;
    return {
      height: place?.height,
      key: blockId.toString('hex'),
      answer: (lie) => {
        const { height } = this.#node.locate(blockId);
        if (!this.#hasAllCollectionsOf(height)) throw notFound(`could not find collection: ${KEY_NOT_FOUND}`);
        return this.#node.answers.blockTransactions(
          this.#node.chain.block(height),
          this.#node.metadata(),
          lie,
        );
      },
    };
  }

  #executionData(method: DevnetMethod, blockId: Buffer): Question {
    const place = blockId.length === 32 ? this.#node.chain.locate(blockId) : undefined;
    return {
      height: place?.height,
      key: blockId.toString('hex'),
      answer: (lie) => {
        if (blockId.length !== 32) {
          throw new StatusError('INVALID_ARGUMENT', 'could not convert block ID: invalid length');
        }
        if (place === undefined || place.fork === 'orphan' || place.height > this.#node.head.finalized) {
          // The service does not distinguish a missing header from other errors.
          throw new StatusError(
            'INTERNAL',
            `failed to get execution data: could not get block header for ${blockId.toString('hex')}: ${KEY_NOT_FOUND}`,
          );
        }
        if (place.height > this.#node.executedFor(method, place.height)) {
          throw new StatusError('NOT_FOUND', `could not find execution data: ${KEY_NOT_FOUND}`);
        }
        return this.#node.answers.executionDataAnswer(this.#node.chain.block(place.height), lie);
      },
    };
  }

  /** A node fetches collections after finalization: with a lag, it does not have them at once. */
  #hasCollection({ block: { height, collections }, index }: CollectionPlace): boolean {
    const { options, head } = this.#node;
    return head.isOlderThan(height, collectionLagMs(options, collections[index]?.id ?? ''));
  }

  #hasAllCollectionsOf(height: number): boolean {
    const block = this.#node.chain.block(height);
    return block.collections.every((_, index) => this.#hasCollection({ block, index }));
  }
}

const NO_BYTES = Buffer.alloc(0);
