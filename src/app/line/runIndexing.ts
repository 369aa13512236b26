import { AccessNetwork, type AccessNetworkDependencies, type OpenChannel } from '../../access/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { endpointSlots, Window } from '../../collections/index.js';
import { finalityProver, followHeads, proofBackfill } from '../../finality/index.js';
import type { FinalityProver } from '../../finality/index.js';
import { WorkSignal } from '../../jobqueue/index.js';
import { BlockHasher, readHeader, type CertificateThread } from '../../proof/index.js';
import { soleLeadership, type Leadership, type SharedQueue } from '../../ranges/index.js';
import { userAgent, wasAborted, whenAborted } from '../../runtime/index.js';
import { accountIndexBuilder, joined, unlessDamaged, type IndexStore } from '../../storage/index.js';
import type { Lifecycle } from '../lifecycle/openLifecycle.js';
import { heal, type Healing } from './heal.js';
import { fillHistory, type Backfill } from './history/fillHistory.js';
import { paceHistory } from './history/paceHistory.js';
import type { HistoryParts } from './history/rangeLine.js';
import { indexLive, type OnLine } from './indexLive.js';
import { namedBlocks, soundBlock } from '../lifecycle/knownBlocks.js';

/** Everything that indexing needs, for the live line and the lines of other ranges. */
export interface IndexingParts extends HistoryParts {
  readonly lifecycle: Lifecycle;
  readonly window: Window;
  readonly accountBuilder: ReturnType<typeof accountIndexBuilder>;
  readonly backfill: Backfill;
  /** Notified when more history can be read, and when the plan of the configuration has been made. */
  readonly published: WorkSignal;
  readonly healing: Healing;
  readonly leadership: Leadership;
  /** Absent: nothing is proven final. */
  readonly prover: FinalityProver | undefined;
  /** Absent: blocks that are stored without a proof stay so. */
  readonly proofs: ReturnType<typeof proofBackfill> | undefined;
}

/** While the store is further behind the head, stored blocks are not proven afterwards: that takes calls to the same nodes. */
const MAX_TIP_LAG = 10;

/** Builds the access nodes, the listener and the backfill of a daemon. No node is called before `runIndexing`. */
export function openUpstream(
  config: DaemonConfig,
  dependencies: Pick<
    IndexingParts,
    'store' | 'lifecycle' | 'sporks' | 'room' | 'clock' | 'random' | 'metrics' | 'logger'
  > & {
    /** Shared with other processes of the store. Default: no other process has it. */
    readonly queue?: SharedQueue | undefined;
    /** Heights of one range of history. Default: the most that the store takes. */
    readonly maxRangeHeights?: number | undefined;
    /** How late the event loop is; see `paceHistory`. */
    readonly loopLateMs?: ((dueMs: number) => number) | undefined;
    /** Default: gRPC. */
    readonly openChannel?: OpenChannel | undefined;
    /** The metadata of calls to a node. Default: none. */
    readonly credentialsFor?: AccessNetworkDependencies['credentialsFor'];
    /** Verifies certificates. Default: nothing is proven final. */
    readonly certificates?: CertificateThread | undefined;
  },
): IndexingParts {
  const { certificates, loopLateMs, maxRangeHeights, queue, ...base } = dependencies;
  const { lifecycle, sporks, store } = base;
  // The writer may just retry, and no other may write for a long time.
  store.onFailed?.((error) => {
    if (!wasAborted(error, lifecycle.signal)) lifecycle.fail(error);
  });
  const [checkpoint] = namedBlocks(config.proof.checkpoint, []);
  const network = new AccessNetwork(
    {
      accessNodes: config.accessNodes,
      executionDataNodes: config.edi.enabled ? config.edi.nodes : config.accessNodes,
      peers: config.peers,
      // A mirror asks only its peers, even for the sporks before theirs.
      sporks: config.accessNodes.length > 0 ? sporks : sporks.map((spork) => ({ ...spork, accessNodes: [] })),
      ...config.access,
      timeoutMs: config.requester.timeoutMs,
      userAgent,
      proof: { mode: config.proof.mode, chainId: config.chainId },
    },
    {
      ...base,
      sharers: queue && (() => queue.liveWorkers()),
      expectation: () => ({
        chainId: config.chainId,
        network: config.network,
        sporks: store.meta()?.sporks ?? [],
        watermark: store.latestBlock(),
        checkpoint,
        firstHeight: store.meta()?.firstHeight,
        storedBlock: (height) => soundBlock(store, height),
      }),
    },
  );
  lifecycle.onClose('network', () => network.close());
  const listener = followHeads({ ...base, nodes: network, latestBlock: () => store.latestBlock() });
  const window = new Window(
    { heights: config.window, stopHeight: config.stopHeight, limitBytes: config.maxInFlightBytes },
    { store, finalizedHeight: () => listener.finalized.height },
  );
  listener.finalized.onRise(() => window.moved());
  store.shared?.onChanged(() => window.moved());
  network.onAnswering(() => listener.wake());
  network.onForeign((node) => listener.forget(node, store.meta() && store.latestIndexedHeight()));
  const accountBuilder = accountIndexBuilder({ ...base, accounts: store.accounts });
  const isLiveHere = (): boolean =>
    config.roles.includes('live') && store.shared?.isLeading() !== false && !hasReachedStop(config, store);
  const pace = paceHistory({
    clock: base.clock,
    lateMs: loopLateMs,
    isBesideLive: () => backfill.running().length > 0 && isLiveHere(),
  });
  const slots = endpointSlots(config.requester.concurrency, () => pace.share());
  pace.onMore(() => slots.moreForHistory());
  const common = { ...base, network, listener, slots, pace };
  const healing = heal({ ...common, window, queue });
  const published = new WorkSignal();
  const onPublished = (): void => {
    published.notify();
    window.moved();
  };
  const ofHistory = { ...common, queue, maxRangeHeights, onPublished, onDamage: healing.found };
  const backfill: Backfill = fillHistory(config, ofHistory);
  const prover = certificates && openProver(config, { ...common, certificates, window });
  const proofs =
    config.proof.mode === 'off'
      ? undefined
      : proofBackfill({
          ...base,
          nodes: network.history,
          share: () => pace.share(),
          onProven: () => window.moved(),
          onDamage: healing.found,
          mayRun: () =>
            store.shared?.isLeading() !== false &&
            (window.target() ?? Infinity) - store.latestIndexedHeight() <= MAX_TIP_LAG,
        });
  const work = { backfill, healing, published, leadership: queue ?? soleLeadership };
  return { ...common, ...work, window, accountBuilder, prover, proofs };
}

/** `undefined` where this process does not follow the chain. */
function openProver(
  { chainId, proof: { checkpoint, mode }, roles }: DaemonConfig,
  common: Pick<IndexingParts, 'clock' | 'window' | 'logger' | 'metrics' | 'network' | 'sporks' | 'store'> & {
    readonly certificates: CertificateThread;
  },
): FinalityProver | undefined {
  if (!roles.includes('live')) return undefined;
  const { certificates, network, sporks, store, window } = common;
  const hasher = new BlockHasher();
  return finalityProver(
    { named: namedBlocks(checkpoint, sporks), isProving: mode !== 'off' },
    {
      ...common,
      nodes: network.history,
      askAgain: () => network.askAgain(),
      thread: certificates,
      keep: store.keepProven && ((height) => store.keepProven?.(height) ?? Promise.resolve()),
      head: () => window.target(),
      onMoved: (listener) => window.onMoved(listener),
      sealedBy: (id) => network.proofs?.sealedBy(id) ?? [],
      heightOf: async (id) => (await unlessDamaged(() => store.blockById(id)))?.block.height,
      blockAt: async (at) => {
        const { encoded, id, proof } = (await soundBlock(store, at)) ?? {};
        return id && { id, header: encoded && proof && readHeader(encoded, proof, chainId, hasher) };
      },
      range: () => {
        const meta = store.meta();
        if (meta === undefined || store.shared?.isLeading() === false) return undefined;
        const to = store.latestIndexedHeight();
        const roots = meta.sporks.map(({ rootHeight }) => rootHeight).filter((root) => root <= to);
        // A node that moves to a spork may give its root before it names it: it is stored with the next block only.
        // Heights that heal were linked before, and are linked again.
        const linked = joined([...store.coverage(), ...store.healing()]).find((each) => each.to >= to);
        const first = linked?.from ?? meta.firstHeight;
        return { from: Math.max(first, network.sporkAt(to)?.rootHeight ?? 0, ...roots), to };
      },
    },
  );
}

/**
 * Does this process's part of indexing until the daemon stops: identifies the nodes, completes the account index, runs the
 * live line while it leads, and fills in history. Expected errors:
 * OperatorError; the life cycle's abort reason.
 */
export async function runIndexing(config: DaemonConfig, parts: IndexingParts, onLine: OnLine): Promise<void> {
  const { backfill, healing, lifecycle, listener, network, pace, proofs, prover, store, window } = parts;
  const { signal, untilStopped } = lifecycle;
  window.onMoved(backfill.notify);
  window.onMoved(() => stopWhenFinished(config, parts));
  // These need only the store.
  untilStopped('healing', healing.run(signal));
  untilStopped('account index', buildAccounts(config, parts));
  untilStopped('handshakes', network.run(signal));
  lifecycle.supervise(listener.run(signal));
  const identified = network.whenIdentified(signal);
  const proveFinality = async (by: FinalityProver): Promise<void> => {
    // With committees in the store, no node is needed: readers of proven blocks are served even if none answers.
    if ((await store.evidence()).length === 0) await identified;
    await by.run(signal);
  };
  if (prover !== undefined) untilStopped('proofs of finality', proveFinality(prover));
  await identified;
  if (proofs !== undefined) untilStopped('proofs of blocks', proofs.run(signal));
  let isFilling = false;
  const begun: OnLine = (line) => {
    onLine(line);
    if (isFilling || !config.roles.includes('backfill')) return;
    isFilling = true;
    lifecycle.supervise(pace.run(signal));
    untilStopped('backfill', backfill.run(signal));
  };
  const live = indexLive(config, parts, begun);
  lifecycle.onClose('indexing line', () => live.close());
  // Another process may lead.
  if (store.shared !== undefined) begun(undefined);
  if (config.roles.includes('live')) await live.run();
  else await whenAborted(signal);
}

/** Completes the account index: now, and whenever a range is published that was started without it. */
async function buildAccounts(config: DaemonConfig, parts: IndexingParts): Promise<void> {
  const { accountBuilder, lifecycle, published } = parts;
  for (;;) {
    await accountBuilder.run(lifecycle.signal);
    stopWhenFinished(config, parts);
    await published.wait(lifecycle.signal);
  }
}

/** True when everything up to the stop height is indexed: nothing is left to request. */
function hasReachedStop({ stopHeight }: DaemonConfig, store: IndexStore): boolean {
  return stopHeight !== undefined && store.meta() !== undefined && store.latestIndexedHeight() >= stopHeight;
}

/** At the stop height, once the account index (if on) is complete and all plans are filled: nothing is left to do. */
export function isFinished(
  config: DaemonConfig,
  { accountBuilder, backfill, store }: Pick<IndexingParts, 'accountBuilder' | 'backfill' | 'store'>,
): boolean {
  const isBuilding = accountBuilder.progress().state === 'building';
  return hasReachedStop(config, store) && !isBuilding && !backfill.hasWork();
}

function stopWhenFinished(config: DaemonConfig, parts: IndexingParts): void {
  if (!isFinished(config, parts)) return;
  const { lifecycle, logger } = parts;
  if (!lifecycle.signal.aborted) logger.info({ height: config.stopHeight }, 'stop height reached');
  lifecycle.stop();
}
