import type { AccessMethod, AccessNode, AccessNodes, StreamOptions } from '../../access/index.js';
import type { BlockExecutionData } from '../../flow/index.js';
import type { Source } from '../ports.js';

export type StreamSources = Pick<AccessNodes, 'forExecutionData' | 'peers' | 'whyNoPeer'>;

/** The words for a stream in messages: its name, its kind of source, what it delivers, and which heights are due. */
export interface StreamWords {
  readonly stream: string;
  readonly source: string;
  readonly data: string;
  /** The state of a height that is due. */
  readonly due: 'sealed' | 'finalized';
  /** Why a source may not have a height that is due. */
  readonly missing: string;
  /** What to do about sources that do not support the call. */
  readonly fix: string;
}

/** A stream of whole blocks of collections, height by height. */
export interface BodyStream {
  readonly source: Exclude<Source, 'requester'>;
  /** The label of `stream_reopens_total` and `stream_age_seconds`. */
  readonly label: string;
  readonly words: StreamWords;
  /** The call that is used while it is known and works, and its fallback. */
  readonly method: AccessMethod;
  readonly fallback?: AccessMethod;
  /** The nodes or peers that give the stream at a height, best first. */
  readonly sources: (nodes: StreamSources, height: number) => readonly AccessNode[];
  /** Why there is no source, if known. */
  readonly whyNone?: (nodes: StreamSources) => string | undefined;
  readonly open: (
    node: AccessNode,
    height: number,
    options: StreamOptions,
  ) => AsyncIterable<BlockExecutionData>;
}

/** Execution data of access nodes: sealed heights. */
export const EXECUTION_DATA: BodyStream = {
  source: 'edi',
  label: 'execution_data',
  words: {
    stream: 'execution-data stream',
    source: 'access node',
    data: 'execution data',
    due: 'sealed',
    missing: 'it may have pruned it',
    fix: '',
  },
  method: 'SubscribeExecutionDataFromStartBlockHeight',
  fallback: 'SubscribeExecutionData',
  sources: (nodes, height) => nodes.forExecutionData(height),
  open: (node, height, options) => node.subscribeExecutionData(height, options),
};

/** Blocks stored by another indexer: at the tip, a moment after the height is finalized. */
export const PEER: BodyStream = {
  source: 'peer',
  label: 'peer',
  words: {
    stream: 'stream of the peer',
    source: 'peer',
    data: 'blocks',
    due: 'finalized',
    missing: 'it may not have indexed it yet',
    fix: ': upgrade those that do not know the call, or leave them out of peers',
  },
  method: 'SubscribeIndexedBlocks',
  sources: (nodes) => nodes.peers(),
  whyNone: (nodes) => nodes.whyNoPeer(),
  open: (node, height, options) => node.subscribeIndexedBlocks(height, options),
};

/** The call to use with a node: the fallback while the node does not support the other call, or it is penalized. */
export function methodOf({ method, fallback }: BodyStream, node: AccessNode): AccessMethod {
  return fallback !== undefined && !node.supports(method) && node.supports(fallback) ? fallback : method;
}
