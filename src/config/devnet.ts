import { boolean, choice, host, integer, text } from './formats.js';
import { networkNames, networks } from './networks.js';
import { optional, setting } from './settings.js';
import type { Settings } from './settings.js';

/** Low enough that the views of future epochs, which are above it, are safe integers too. */
const MAX_HEIGHT = 1_000_000_000_000_000;

/** The flags of `flow-collection-indexer devnet`, the simulated access node. */
export const devnetSettings = {
  host: setting(host, '127.0.0.1', { doc: 'Address to listen on.' }),
  port: setting(integer(0, 65_535, 'port'), 3570, { doc: 'gRPC port; 0 = any free port (printed).' }),
  seed: setting(integer(0, 4_294_967_295, 'seed'), 1, {
    doc: 'The same seed gives the same chain on every machine.',
  }),
  chainId: setting(choice(networkNames.map((name) => networks[name].chainId)), 'flow-localnet', {
    doc: 'Chain id of the simulated network.',
  }),
  profile: setting(choice(['mixed', 'mainnet', 'dense', 'empty']), 'mixed', {
    doc: 'What the blocks are like: mixed (every odd case), mainnet (mostly empty or small), dense (5 collections of 10 transactions), empty.',
  }),
  rootHeight: setting(integer(0, MAX_HEIGHT, 'height'), 0, {
    doc: 'Height of the root block: the first of this spork.',
  }),
  history: setting(integer(0, MAX_HEIGHT, 'blocks'), 1000, {
    doc: 'Blocks that exist above the root at the start. With --no-hashed-ids millions cost nothing.',
  }),
  endHeight: optional(integer(0, MAX_HEIGHT, 'height'), {
    doc: 'Last height of this spork, where the chain stops.',
    defaultDoc: 'none: the chain grows',
  }),
  sporkOf: optional(integer(0, 4_294_967_295, 'seed'), {
    doc: 'Seed of the previous spork, which began at height 0. Its last block, just below --root-height, is the parent of our root block.',
    defaultDoc: 'none: the first spork',
  }),
  hashedIds: setting(boolean, true, {
    doc: "Block ids are hashes of what blocks hold, as Flow's are, so that they can be proven. Each depends on the one below: 1,000 blocks of history take about half a second at the start. Without, ids are made up, at no cost.",
  }),
  certificatesEvery: setting(integer(0, MAX_HEIGHT, 'heights'), 100, {
    doc: 'With hashed ids: every so many heights of the history, and at every height above it, a quorum certificate that the committee signed, so that finality can be proven; 10 ms each. 0 = none, and no protocol-state snapshots.',
  }),
  epochViews: setting(integer(0, MAX_HEIGHT, 'views'), 0, {
    doc: 'With certificates: views of an epoch; each has a committee of its own, committed in the middle of the one before. 0 = one epoch that does not end.',
  }),
  blockIntervalMs: setting(integer(0, 3_600_000, 'ms'), 800, {
    doc: 'Milliseconds between blocks; 0 = as fast as they are read.',
  }),
  sealedLag: setting(integer(0, 10_000, 'blocks'), 4, {
    doc: 'Blocks that the sealed head and the execution data lag behind the finalized head.',
  }),
  collectionLagMs: setting(integer(0, 600_000, 'ms'), 0, {
    doc: 'Milliseconds after finalization before the node has the collections of a block ("please retry").',
  }),
  collectionLagSpreadMs: setting(integer(0, 600_000, 'ms'), 0, {
    doc: 'Mean of the extra milliseconds of each collection: most take less, a few several times as long.',
  }),
  ratePerSecond: setting(integer(0, 1_000_000, 'calls'), 0, {
    doc: "Unary calls per second and method; more are refused by the node's rate limit. 0 = no limit.",
  }),
  executionData: setting(boolean, true, { doc: 'Serve the execution-data service.' }),
  systemChunk: setting(boolean, true, {
    doc: "End each block's execution data with a system chunk, as networks do; the emulator does not.",
  }),
  streams: setting(boolean, true, {
    doc: 'Serve the subscription methods of the access API, as current nodes do.',
  }),
  maxStreams: setting(integer(0, 1_000_000, 'streams'), 1_000, {
    doc: 'Open streams of both services; more are refused.',
  }),
  fullCollections: setting(boolean, true, { doc: 'Serve GetFullCollectionByID, as current nodes do.' }),
  nodeVersionInfo: setting(boolean, true, { doc: 'Serve GetNodeVersionInfo, as current nodes do.' }),
  faults: optional(text('a file', 'file'), {
    doc: 'JSON file with a script of faults per method (docs/devnet.md).',
  }),
} as const satisfies Settings;
