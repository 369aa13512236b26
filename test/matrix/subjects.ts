import type { AccessMethod } from '../../src/access/index.js';
import type { DevnetOptions } from '../../src/devnet/index.js';

/** What the daemon does when the fault comes. `start`: an empty store. `restart`: a filled one. */
export type Phase = 'catching up' | 'tip' | 'start' | 'restart';
/** Where collections come from. `peer`: from another indexer, or by request. */
export type Mode = 'hybrid' | 'requester' | 'ediOnly' | 'peer';
/** What is left honest: the node's other call or source, another node, or nothing. */
export type Way = 'call' | 'node' | 'none';
/** Without what says who signs, which holds up nothing: `finalityProver` has tests of its own. */
type Called = Exclude<AccessMethod, 'GetProtocolStateSnapshotByHeight' | 'GetCommitteeEvidence'>;
/** What the struck calls tell, together. */
export const tells = {
  blocks: 'blocks',
  head: 'the head',
  collections: 'collections',
  'execution data': 'execution data',
  'indexed blocks': 'what a peer has indexed',
  identity: 'who the node is',
  everything: 'everything',
} as const;
export type Told = keyof typeof tells;

export interface Subject {
  /** The row of the matrix: a method, or `*` for all at once. */
  readonly method: Called | '*';
  readonly told: Told;
  readonly mode: Mode;
  readonly way: Way;
  /** The methods that the fault is put on. With a peer it is the peer's: whom the access nodes stand beside. */
  readonly struck: readonly Called[];
  readonly phases: readonly Phase[];
  /** What makes the node one of which this very method is asked. */
  readonly node: DevnetOptions;
}

const running: readonly Phase[] = ['catching up', 'tip'];
const always: readonly Phase[] = ['start', ...running];
const starting: readonly Phase[] = ['start', 'restart'];

const BLOCK_STREAM = 'SubscribeBlocksFromStartHeight';
const BLOCK = 'GetBlockByHeight';
const HEAD_STREAM = 'SubscribeBlockDigestsFromLatest';
const HEADER = 'GetLatestBlockHeader';
const FULL = 'GetFullCollectionByID';
const LIGHT = 'GetCollectionByID';
const TRANSACTION = 'GetTransaction';
const DATA = 'SubscribeExecutionDataFromStartBlockHeight';
const OLD_DATA = 'SubscribeExecutionData';
const INDEXED = 'SubscribeIndexedBlocks';
const PARAMETERS = 'GetNetworkParameters';
const VERSION = 'GetNodeVersionInfo';

const everyBlock = [BLOCK_STREAM, BLOCK] as const;
const everyHead = [HEAD_STREAM, HEADER] as const;
const everyCollection = [FULL, LIGHT, TRANSACTION] as const;
const everyData = [DATA, OLD_DATA] as const;

/** Access nodes do not serve the stream of a peer. */
type NodeMethod = Exclude<Called, 'SubscribeIndexedBlocks'>;

/** Every method of an access node that the daemon calls: the type says so. */
const called: Readonly<Record<NodeMethod, true>> = {
  [PARAMETERS]: true,
  [VERSION]: true,
  [HEADER]: true,
  [BLOCK]: true,
  [LIGHT]: true,
  [FULL]: true,
  [TRANSACTION]: true,
  [BLOCK_STREAM]: true,
  [HEAD_STREAM]: true,
  [DATA]: true,
  [OLD_DATA]: true,
};
export const upstreamMethods = Object.keys(called) as readonly NodeMethod[];

const withoutStreams: DevnetOptions = { streams: false };
const withoutFull: DevnetOptions = { fullCollections: false };
const asPeer: DevnetOptions = { indexedBlocks: true };
const withoutNewData: DevnetOptions = { executionDataSubscriptions: 'deprecated' };

type Row = Pick<Subject, 'method' | 'told' | 'phases'> & { readonly node?: DevnetOptions };

function of(
  { node = {}, ...row }: Row,
  ...places: readonly (readonly [Mode, Way, readonly Called[]])[]
): Subject[] {
  return places.map(([mode, way, struck]) => ({ ...row, node, mode, way, struck }));
}

/** Where a method stands alone the node is too old for the better one: else nobody would ask. */
export const subjects: readonly Subject[] = [
  ...([PARAMETERS, VERSION] as const).flatMap((method) =>
    of(
      { method, told: 'identity', phases: starting },
      ['hybrid', 'node', [method]],
      ['hybrid', 'none', [method]],
    ),
  ),
  ...(
    [
      ['head', HEAD_STREAM, HEADER, everyHead],
      ['blocks', BLOCK_STREAM, BLOCK, everyBlock],
    ] as const
  ).flatMap(([told, stream, call, every]) => [
    ...of(
      { method: stream, told, phases: always },
      ['hybrid', 'call', [stream]],
      ['hybrid', 'node', every],
      ['hybrid', 'none', every],
    ),
    ...of({ method: stream, told, phases: running }, ['ediOnly', 'none', every]),
    ...of({ method: call, told, phases: always }, ['hybrid', 'call', [call]]),
    ...of(
      { method: call, told, phases: always, node: withoutStreams },
      ['hybrid', 'node', [call]],
      ['hybrid', 'none', [call]],
    ),
  ]),
  ...of(
    { method: FULL, told: 'collections', phases: running },
    ['requester', 'call', [FULL]],
    ['requester', 'node', everyCollection],
    ['requester', 'none', everyCollection],
    ['hybrid', 'call', everyCollection],
    ['hybrid', 'node', [...everyCollection, ...everyData]],
    ['hybrid', 'none', [...everyCollection, ...everyData]],
  ),
  ...([LIGHT, TRANSACTION] as const).flatMap((method) =>
    of(
      { method, told: 'collections', phases: running, node: withoutFull },
      ['requester', 'node', [method]],
      ['requester', 'none', [method]],
      ['hybrid', 'call', [method]],
    ),
  ),
  ...of(
    { method: DATA, told: 'execution data', phases: running },
    ['hybrid', 'call', everyData],
    ['ediOnly', 'call', [DATA]],
    ['ediOnly', 'node', everyData],
    ['ediOnly', 'none', everyData],
  ),
  ...of(
    { method: OLD_DATA, told: 'execution data', phases: running, node: withoutNewData },
    ['hybrid', 'call', [OLD_DATA]],
    ['ediOnly', 'node', [OLD_DATA]],
    ['ediOnly', 'none', [OLD_DATA]],
  ),
  ...of(
    { method: '*', told: 'everything', phases: always },
    ['hybrid', 'node', upstreamMethods],
    ['hybrid', 'none', upstreamMethods],
  ),
  ...of(
    { method: '*', told: 'everything', phases: running },
    ['requester', 'none', upstreamMethods],
    ['ediOnly', 'none', upstreamMethods],
  ),
  ...([PARAMETERS, VERSION] as const).flatMap((method) =>
    of({ method, told: 'identity', phases: starting, node: asPeer }, ['peer', 'node', [method]]),
  ),
  ...of({ method: INDEXED, told: 'indexed blocks', phases: running, node: asPeer }, [
    'peer',
    'node',
    [INDEXED],
  ]),
  ...of({ method: '*', told: 'everything', phases: always, node: asPeer }, [
    'peer',
    'node',
    [INDEXED, PARAMETERS, VERSION],
  ]),
];
