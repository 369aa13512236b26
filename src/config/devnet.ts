import { optional } from './formats/combined.js';
import { integer } from './formats/numbers.js';
import { boolean, choice, text } from './formats/words.js';
import { MAX_HEIGHT, setting } from './settings.js';
import type { Settings } from './settings.js';

/** The flags of `flow-collection-indexer devnet`, the simulated access node. */
export const devnetSettings = {
  host: setting({
    doc: 'Address to listen on.',
    format: text('a host name or address'),
    default: '127.0.0.1',
  }),
  port: setting({
    doc: 'gRPC port; 0 = any free port (printed).',
    format: integer(0, 65_535),
    default: 3570,
  }),
  seed: setting({
    doc: 'The same seed gives the same chain on every machine.',
    value: 'seed',
    format: integer(0, 4_294_967_295),
    default: 1,
  }),
  chainId: setting<'flow-localnet' | 'flow-emulator' | 'flow-testnet' | 'flow-mainnet'>({
    doc: 'Chain id of the simulated network.',
    format: choice(['flow-localnet', 'flow-emulator', 'flow-testnet', 'flow-mainnet']),
    default: 'flow-localnet',
  }),
  profile: setting<'mixed' | 'mainnet' | 'dense' | 'empty'>({
    doc: 'What the blocks are like: mixed (every odd case), mainnet (mostly empty or small), dense (5 collections of 10 transactions), empty.',
    format: choice(['mixed', 'mainnet', 'dense', 'empty']),
    default: 'mixed',
  }),
  rootHeight: setting({
    doc: 'Height of the root block: the first of this spork.',
    format: integer(0, MAX_HEIGHT),
    default: 0,
  }),
  history: setting({
    doc: 'Blocks that exist above the root at the start. Millions cost no memory.',
    value: 'blocks',
    format: integer(0, MAX_HEIGHT),
    default: 1000,
  }),
  endHeight: setting<number | null>({
    doc: 'Last height of this spork, where the chain stops.',
    format: optional(integer(0, MAX_HEIGHT)),
    default: null,
    defaultDoc: 'none: the chain grows',
  }),
  sporkOf: setting<number | null>({
    doc: 'Seed of the previous spork. Its last block, just below --root-height, is the parent of our root block.',
    value: 'seed',
    format: optional(integer(0, 4_294_967_295)),
    default: null,
    defaultDoc: 'none: the first spork',
  }),
  blockIntervalMs: setting({
    doc: 'Milliseconds between blocks; 0 = as fast as they are read.',
    format: integer(0, 3_600_000),
    default: 800,
  }),
  sealedLag: setting({
    doc: 'Blocks that the sealed head and the execution data lag behind the finalized head.',
    value: 'blocks',
    format: integer(0, 10_000),
    default: 4,
  }),
  collectionLagMs: setting({
    doc: 'Milliseconds after finalization before the node has the collections of a block ("please retry").',
    format: integer(0, 600_000),
    default: 0,
  }),
  collectionLagSpreadMs: setting({
    doc: 'Mean of the extra milliseconds of each collection: most take less, a few several times as long.',
    format: integer(0, 600_000),
    default: 0,
  }),
  ratePerSecond: setting({
    doc: "Unary calls per second and method; more are refused by the node's rate limit. 0 = no limit.",
    value: 'calls',
    format: integer(0, 1_000_000),
    default: 0,
  }),
  executionData: setting({
    doc: 'Serve the execution-data service.',
    format: boolean,
    default: true,
  }),
  systemChunk: setting({
    doc: "End each block's execution data with a system chunk, as networks do; the emulator does not.",
    format: boolean,
    default: true,
  }),
  streams: setting({
    doc: 'Serve the subscription methods of the access API, as current nodes do.',
    format: boolean,
    default: true,
  }),
  maxStreams: setting({
    doc: 'Open streams of both services; more are refused.',
    value: 'streams',
    format: integer(0, 1_000_000),
    default: 1_000,
  }),
  fullCollections: setting({
    doc: 'Serve GetFullCollectionByID, as current nodes do.',
    format: boolean,
    default: true,
  }),
  nodeVersionInfo: setting({
    doc: 'Serve GetNodeVersionInfo, as current nodes do.',
    format: boolean,
    default: true,
  }),
  faults: setting<string | null>({
    doc: 'JSON file with a script of faults per method (docs/devnet.md).',
    value: 'file',
    format: optional(text('a file')),
    default: null,
    defaultDoc: 'none',
  }),
} as const satisfies Settings;
