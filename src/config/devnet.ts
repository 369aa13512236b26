import { boolean, choice, integer, text } from './formats.js';
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
    format: integer(0, 4_294_967_295, 'seed'),
    default: 1,
  }),
  chainId: setting({
    doc: 'Chain id of the simulated network.',
    format: choice(['flow-localnet', 'flow-emulator', 'flow-testnet', 'flow-mainnet']),
    default: 'flow-localnet',
  }),
  profile: setting({
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
    format: integer(0, MAX_HEIGHT, 'blocks'),
    default: 1000,
  }),
  endHeight: setting({
    doc: 'Last height of this spork, where the chain stops.',
    format: integer(0, MAX_HEIGHT),
    defaultDoc: 'none: the chain grows',
  }),
  sporkOf: setting({
    doc: 'Seed of the previous spork. Its last block, just below --root-height, is the parent of our root block.',
    format: integer(0, 4_294_967_295, 'seed'),
    defaultDoc: 'none: the first spork',
  }),
  blockIntervalMs: setting({
    doc: 'Milliseconds between blocks; 0 = as fast as they are read.',
    format: integer(0, 3_600_000),
    default: 800,
  }),
  sealedLag: setting({
    doc: 'Blocks that the sealed head and the execution data lag behind the finalized head.',
    format: integer(0, 10_000, 'blocks'),
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
    format: integer(0, 1_000_000, 'calls'),
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
    format: integer(0, 1_000_000, 'streams'),
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
  faults: setting({
    doc: 'JSON file with a script of faults per method (docs/devnet.md).',
    format: text('a file', 'file'),
  }),
} as const satisfies Settings;
