import { randomUUID } from 'node:crypto';
import { coverageOf, lastReadable } from '../../api/index.js';
import type { EndpointStatus, IndexedRange, StatusDocument } from '../../api/index.js';
import type { ExecutionDataIndexer } from '../../collections/index.js';
import type { DaemonConfig } from '../../config/index.js';
import { monitorHealth, rememberHour, measureProgress } from '../../observability/index.js';
import { countHeights, countWorkers } from '../../ranges/index.js';
import { programVersion } from '../../runtime/index.js';
import { finalBlock, rangeOf, readableIndex } from '../threads/readableIndex.js';
import { diagnose, type DaemonParts } from './diagnose.js';
import { watchBackfill } from './watches/watchBackfill.js';

type StreamStatus = StatusDocument['sources']['edi'];

/** No collections of a source. */
const NONE = { first: 0, late: 0 };

export type DaemonStatus = ReturnType<typeof reportStatus>;

/**
 * The daemon's status, made from its parts on demand: `/status`, `/readyz`, the metrics and the log read it here. It caches
 * nothing, so nothing is stale.
 */
export function reportStatus(config: DaemonConfig, parts: DaemonParts) {
  const { clock, listener, network, outputs, prover, store, window } = parts;
  const startedAtMs = clock.monotonic();
  /** Distinguishes this process from one that listens at its address later. */
  const instance = randomUUID();
  const backfillWatch = watchBackfill(config, parts);
  const diagnosis = diagnose(config, parts);
  const monitor = monitorHealth({ ...parts, findings: diagnosis.findings });
  const lastHour = rememberHour(parts);
  const meter = measureProgress({
    clock,
    source: {
      latestIndexedHeight: () => (store.meta() === undefined ? undefined : store.latestIndexedHeight()),
      headHeight: () => (diagnosis.isHeadConfirmed() ? window.target() : undefined),
      heldUpBy: () => monitor.readiness().reasons.find(diagnosis.holdsUp)?.code,
    },
  });

  /** The range that readers see, with the sealed head that nodes report. */
  const range = (): IndexedRange => ({
    ...rangeOf(readableIndex(config, parts)),
    sealed: listener.sealed.height ?? null,
  });

  /** Unknown while no node confirms the head. */
  const lag = (): number | undefined => {
    const { head, latestIndexed } = range();
    const isKnown = head !== null && latestIndexed !== null && diagnosis.isHeadConfirmed();
    return isKnown ? Math.max(0, head - latestIndexed) : undefined;
  };

  /** The chain is proven final up to here, by this process or by the one that leads. */
  const provenHeight = (): number | undefined => prover?.status().provenHeight ?? finalBlock(parts)?.height;

  /** Blocks that can be read without a proof. */
  const unprovenHeights = (): number => countHeights(store.unproven());

  const status = (): StatusDocument => {
    const line = diagnosis.line();
    const { awaitsProof: _awaitsProof, proven: _proven, healing = [], ...shown } = range();
    const { rate, eta } = meter();
    const { ready, reasons } = monitor.readiness();
    const recent = lastHour.now();
    const delivered = Object.values(recent?.races ?? {}).reduce((sum, { first }) => sum + first, 0);
    return {
      network: config.network,
      chainId: config.chainId,
      version: programVersion,
      instance,
      ...shown,
      latestIndexed: lastReadable(shown),
      coverage: coverageOf(shown),
      healing,
      lowestServed: network.lowestHeight() ?? null,
      lag: lag() ?? null,
      headAgeSeconds: seconds(listener.finalized.advanceAgeMs()),
      headConfirmedSeconds: seconds(listener.finalized.answerAgeMs()),
      rate,
      collectionsPerSecond: recent === undefined ? null : delivered / recent.seconds,
      eta,
      window: {
        heights: config.window,
        upperBound: line === undefined || shown.head === null ? null : window.upperBound(),
        inFlight: line?.window.inHand ?? 0,
        bytesInFlight: window.bytesInHand,
        bytesLimit: config.maxInFlightBytes,
      },
      lastHour: lastHour.hour()?.races ?? { requester: NONE, edi: NONE, peer: NONE },
      sources: {
        requester: requesterStatus(),
        edi: streamStatus(config.edi.enabled, line?.edi),
        peer: streamStatus(config.peers.length > 0, line?.peer),
      },
      endpoints: endpoints(),
      waitingFor: diagnosis.waitingFor() ?? null,
      oldestMissing: oldestMissing(),
      cluster: cluster(),
      accountIndex: parts.accountBuilder.progress(),
      proof: proof(),
      backfill: backfillWatch.status(),
      log: outputs.flatMap((output) => {
        const trouble = output.trouble();
        return trouble === undefined ? [] : { output: output.name, ...trouble };
      }),
      ready,
      reasons,
      uptimeSeconds: (clock.monotonic() - startedAtMs) / 1000,
    };
  };

  const cluster = (): StatusDocument['cluster'] =>
    store.shared === undefined
      ? null
      : {
          roles: config.roles,
          leads: store.shared.isLeading(),
          leader: diagnosis.leader(),
          alive: countWorkers(parts.backfill.state().workers ?? []).get('live') ?? 0,
        };

  const proof = (): StatusDocument['proof'] => {
    const { mode, finality } = config.proof;
    const { form = null, reason = null } = network.proofs?.status() ?? {};
    const proven = prover?.status();
    const whyNot = reason ?? proven?.reason ?? parts.proofs?.reason() ?? null;
    return {
      mode,
      finality,
      form,
      unprovenHeights: unprovenHeights(),
      anchor: proven?.anchor ?? null,
      provenHeight: provenHeight() ?? null,
      sealedHeight: prover?.sealedHeight() ?? null,
      committee: proven?.committee ?? null,
      latestCertificate: proven?.latestCertificate ?? null,
      reason: mode === 'off' ? 'proof.mode is off: the nodes are believed' : whyNot,
    };
  };

  /** What the line waits for at the lowest height that lacks collections. */
  const oldestMissing = (): StatusDocument['oldestMissing'] => {
    const oldest = diagnosis.line()?.explainer.oldestMissing();
    const [collectionId] = oldest?.ids ?? [];
    if (oldest === undefined || collectionId === undefined) return null;
    const { height, ids, ageMs } = oldest;
    const reason = diagnosis.heldUpAt(height)?.message ?? '';
    return { height, missing: ids.length, collectionId, ageSeconds: ageMs / 1000, reason };
  };

  const endpoints = (): readonly EndpointStatus[] => {
    const [now, hour] = [lastHour.now(), lastHour.hour()];
    return network
      .states()
      .map((node) => ({
        ...node,
        callsPerSecond: now === undefined ? 0 : now.callsTo(node.name).calls / now.seconds,
        lastHour: hour?.callsTo(node.name) ?? { calls: 0, errors: 0, kinds: [] },
      }));
  };

  const requesterStatus = (): StatusDocument['sources']['requester'] => {
    const line = diagnosis.line();
    const inFlight = line?.requester?.inFlight() ?? 0;
    const missing = line?.mcq.missingCollections ?? 0;
    if (config.ediOnly) return { state: 'off', inFlight, missing };
    const idle = missing > 0 ? 'waiting' : 'idle';
    return { state: inFlight > 0 ? 'asking' : idle, inFlight, missing };
  };

  const streamStatus = (isWanted: boolean, stream: ExecutionDataIndexer | undefined): StreamStatus => {
    const none = { endpoint: null, height: null, ageSeconds: null, reason: null };
    if (!isWanted) return { state: 'off', ...none };
    if (store.shared?.isLeading() === false)
      return { state: 'off', ...none, reason: 'this process does not lead' };
    if (stream === undefined) return { state: 'connecting', ...none };
    const { state, nextHeight, ...shown } = stream.state.status();
    const isAhead = state === 'waiting_window';
    // Otherwise it is up to date, and waits for the chain.
    const isPaused = isAhead && nextHeight <= (window.target() ?? Infinity);
    const follows = (isAhead || state === 'streaming') && diagnosis.isHeadConfirmed();
    const other = state === 'unavailable' ? 'unavailable' : 'connecting';
    return { state: isPaused ? 'paused' : follows ? 'following' : other, ...shown };
  };

  const watches = { backfillWatch, diagnosis, monitor, lastHour, meter };
  return { ...watches, config, parts, instance, range, lag, provenHeight, unprovenHeights, status };
}

const seconds = (ms: number | undefined): number | null => (ms === undefined ? null : ms / 1000);
