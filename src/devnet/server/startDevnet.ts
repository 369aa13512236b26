import { type Clock, hostAndPort, systemClock } from '../../runtime/index.js';
import { Chain } from '../chain/Chain.js';
import { ChainGenerator } from '../chain/ChainGenerator.js';
import { DevnetNode } from '../node/DevnetNode.js';
import { type DevnetOptions, type NodeOptions, resolveNodeOptions } from '../node/devnetOptions.js';
import { DevnetServer } from './DevnetServer.js';
import { Subscriptions } from './Subscriptions.js';
import { UnaryCalls } from './UnaryCalls.js';

/** So far below the head at the start, so that blocks can be proven final before it moves. */
const CERTIFIED_BELOW_HEAD_HEIGHTS = 4;

/** A running devnet. */
export interface DevnetHandle {
  readonly host: string;
  readonly port: number;
  /** `host:port`. */
  readonly address: string;
  /** `grpc://host:port`. */
  readonly url: string;
  /** Head, faults and request log, to control and inspect. */
  readonly node: DevnetNode;
  /** The chain it serves, for tests to compare answers with. */
  readonly chain: ChainGenerator;
  /** Resolves once the devnet is closed. Rejects on a bug: watch it. */
  readonly finished: Promise<void>;
  /** Streams open now. */
  openStreams(): number;
  /** Ends all calls with UNAVAILABLE and frees the port. */
  close(): Promise<void>;
  /** Breaks all connections and frees the port: a crash. */
  kill(): Promise<void>;
}

/**
 * Starts a simulated access node.
 *
 * Expected errors: `OperatorError('configuration')` for inconsistent options, an invalid fault script, or a port
 * in use.
 */
export async function startDevnet(
  options: DevnetOptions = {},
  { clock = systemClock }: { readonly clock?: Clock } = {},
): Promise<DevnetHandle> {
  const nodeOptions = resolveNodeOptions(options);
  const chain = new Chain({ ...options, ...parentOf(options), ...certifiedFrom(options, nodeOptions) });
  const node = new DevnetNode(nodeOptions, { chain, clock });
  const subscriptions = new Subscriptions({ node });
  let finish = (): void => undefined;
  let fail = (_error: unknown): void => undefined;
  const finished = new Promise<void>((...ends) => ([finish, fail] = ends));
  const server = new DevnetServer({
    node,
    calls: new UnaryCalls({ node }),
    subscriptions,
    clock,
    onBug: fail,
  });

  const host = options.host ?? '127.0.0.1';
  const port = await server.listen(host, options.port ?? 0);
  const address = hostAndPort({ host, port });
  if (options.paused !== true) node.head.resume();

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    node.head.pause();
    closing ??= server.close().then(finish, fail);
    return closing;
  };
  return {
    host,
    port,
    address,
    url: `grpc://${address}`,
    node,
    chain: chain.generator,
    finished,
    openStreams: () => subscriptions.open,
    close,
    kill: () => {
      server.kill();
      return close();
    },
  };
}

/**
 * What a node adds to its chain while it runs is certified, height by height: it is proven as it comes. A chain that has
 * ended has only the certificates that `certificatesEvery` asks for, so that the next spork knows its last block.
 */
function certifiedFrom(
  { certifiedFrom: given, endHeight = Number.MAX_SAFE_INTEGER }: DevnetOptions,
  { startHead }: NodeOptions,
): Pick<DevnetOptions, 'certifiedFrom'> {
  if (given !== undefined || startHead >= endHeight) return {};
  return { certifiedFrom: startHead - CERTIFIED_BELOW_HEAD_HEIGHTS };
}

/** The root's parent, if the previous spork's seed is given. With hashed ids that spork began at height 0, with this profile. */
function parentOf(options: DevnetOptions): Pick<DevnetOptions, 'rootParentId'> {
  const { previousSeed, rootParentId, rootHeight = 0, ...chain } = options;
  if (previousSeed === undefined || rootParentId !== undefined || rootHeight === 0) return {};
  const { chainId, certificatesEvery, epochViews, hashedIds, profile, systemChunk } = chain;
  const previous = new ChainGenerator({
    seed: previousSeed,
    ...(chainId && { chainId }),
    ...(hashedIds && { hashedIds }),
    ...(certificatesEvery === undefined ? {} : { certificatesEvery }),
    ...(epochViews && { epochViews }),
    ...(profile && { profile }),
    ...(systemChunk === undefined ? {} : { systemChunk }),
  });
  return { rootParentId: previous.blockId(rootHeight - 1) };
}
