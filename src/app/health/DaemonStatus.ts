import { randomUUID } from 'node:crypto';
import type { NodeState } from '../../access/index.js';
import { coverageOf, lastReadable } from '../../api/index.js';
import type { EndpointStatus, StatusDocument } from '../../api/index.js';
import type { ExecutionDataIndexer, ExecutionDataStatus } from '../../collections/index.js';
import {
  monitorHealth,
  rememberHour,
  measureProgress,
  readinessCodes,
  slowestUsual,
} from '../../observability/index.js';
import type { Readiness, Stretch } from '../../observability/index.js';
import { countHeights } from '../../ranges/index.js';
import { programVersion } from '../../runtime/index.js';
import { finalBlock } from '../threads/readableIndex.js';
import { DaemonState } from './DaemonState.js';
import { diagnose } from './diagnose.js';
import { windowCells } from './windowCells.js';

/** What the daemon says of itself, made from its parts on demand: `/status`, `/readyz`, the metrics and the log read it here. */
export class DaemonStatus extends DaemonState {
  readonly diagnosis = diagnose(this);
  readonly monitor = monitorHealth({ ...this.parts, findings: () => this.diagnosis.findings() });
  readonly lastHour = rememberHour(this.parts);
  readonly meter = measureProgress({
    clock: this.parts.clock,
    source: {
      latestIndexedHeight: () => {
        const { store } = this.parts;
        return store.meta() === undefined ? undefined : store.latestIndexedHeight();
      },
      headHeight: () => (this.diagnosis.isHeadConfirmed() ? this.parts.window.target() : undefined),
      heldUpBy: () => this.#heldUpCode(),
    },
  });
  readonly #startedAtMs = this.parts.clock.monotonic();
  readonly #version = programVersion();
  /** Distinguishes this process from one that listens at its address later. */
  readonly instance = randomUUID();

  /** Unknown while no node confirms the head. */
  lag(): number | undefined {
    const { head, latestIndexed } = this.range();
    const isKnown = head !== null && latestIndexed !== null && this.diagnosis.isHeadConfirmed();
    return isKnown ? Math.max(0, head - latestIndexed) : undefined;
  }

  readiness(): Readiness {
    return this.monitor.readiness();
  }

  /** The chain is proven final up to here, by this process or by the one that leads. */
  provenHeight(): number | undefined {
    const { parts } = this;
    return parts.prover?.status().provenHeight ?? finalBlock(parts)?.height;
  }

  /** Blocks that can be read without a proof; `undefined` where that is not counted. */
  unprovenHeights(): number | undefined {
    const unproven = this.parts.store.unproven?.();
    return unproven && countHeights(unproven);
  }

  status(): StatusDocument {
    const { config, line, parts } = this;
    const { awaitsProof: _awaitsProof, proven: _proven, healing = [], ...range } = this.range();
    const progress = this.meter.state();
    const readiness = this.readiness();
    const waitingFor = this.#waitingFor();
    return {
      network: config.network,
      chainId: config.chainId,
      version: this.#version,
      instance: this.instance,
      ...range,
      latestIndexed: lastReadable(range),
      coverage: coverageOf(range),
      healing,
      lowestServed: parts.network.heights.lowestHeight() ?? null,
      lag: this.lag() ?? null,
      headAgeSeconds: seconds(parts.listener.lastAdvanceAgeMs()),
      headConfirmedSeconds: seconds(parts.listener.lastAnswerAgeMs()),
      rate: progress.ratePerSecond,
      eta: progress.etaSeconds ?? null,
      window: {
        heights: config.window,
        upperBound: line === undefined || range.head === null ? null : parts.window.upperBound(),
        inFlight: line?.mcq.size ?? 0,
        bytesInFlight: parts.window.bytesInHand,
        bytesLimit: config.maxInFlightBytes,
        cells: windowCells(this, waitingFor),
      },
      ...activityReport(this.lastHour),
      sources: {
        requester: this.#requesterStatus(),
        edi: this.#streamStatus(config.edi.enabled, line?.edi),
        peer: this.#streamStatus(config.peers.length > 0, line?.peer),
      },
      endpoints: this.#endpoints(),
      waitingFor,
      oldestMissing: this.#oldestMissing(),
      cluster: this.#cluster(),
      accountIndex: this.#accountIndex(),
      proof: this.#proof(),
      backfill: this.backfillWatch.status(),
      log: parts.outputs.flatMap((output) => {
        const trouble = output.trouble();
        if (trouble === undefined) return [];
        const { ageMs, lostLines, reason } = trouble;
        return [{ output: output.name, reason, lostLines, ageSeconds: ageMs / 1000 }];
      }),
      descriptors: parts.descriptors.status(),
      ready: readiness.ready,
      reasons: readiness.reasons,
      uptimeSeconds: (parts.clock.monotonic() - this.#startedAtMs) / 1000,
    };
  }

  /** The first code that is not part of a normal catch-up. */
  #heldUpCode(): string | undefined {
    const { reasons } = this.readiness();
    return reasons.find(({ code }) => code !== 'reader_down' && readinessCodes[code].severity === 'trouble')
      ?.code;
  }

  #cluster(): StatusDocument['cluster'] {
    const { config, parts } = this;
    const { shared } = parts.store;
    if (shared === undefined) return null;
    return {
      roles: [...config.roles],
      leads: shared.isLeading(),
      leader: this.leaderWatch.leader(),
      workers: (parts.backfill.state().workers ?? []).map((worker) => ({
        id: worker.id,
        host: worker.host,
        pid: worker.pid,
        version: worker.version,
        roles: [...worker.roles],
        state: worker.state,
        alive: worker.isAlive,
        leads: worker.leads,
        busyWith: [...worker.busyWith],
        ageSeconds: worker.beatAgeMs / 1_000,
      })),
    };
  }

  #proof(): StatusDocument['proof'] {
    const { config, parts } = this;
    const { form = null, reason = null } = parts.network.proofStatus() ?? {};
    const finality = parts.prover?.status();
    return {
      mode: config.proof.mode,
      finality: config.proof.finality,
      form,
      unprovenHeights: this.unprovenHeights() ?? null,
      anchor: finality?.anchor ?? null,
      provenHeight: this.provenHeight() ?? null,
      sealedHeight: parts.prover?.sealedHeight() ?? null,
      committee: finality?.committee ?? null,
      latestCertificate: finality?.latestCertificate ?? null,
      reason:
        config.proof.mode === 'off'
          ? 'proof.mode is off: the nodes are believed'
          : (reason ?? finality?.reason ?? parts.proofBackfill?.reason() ?? null),
    };
  }

  #accountIndex(): StatusDocument['accountIndex'] {
    const { state, coverage } = this.parts.accountBuilder.progress();
    const { from = null, missingHeights = null } = coverage ?? {};
    return { state, coveredFrom: from, missingHeights };
  }

  #waitingFor(): StatusDocument['waitingFor'] {
    const waiting = this.diagnosis.waitingFor();
    if (waiting === undefined) return null;
    const { height, message, sinceMs } = waiting;
    return { height, message, ageSeconds: (this.parts.clock.monotonic() - sinceMs) / 1000 };
  }

  /** What the line waits for at the lowest height that lacks collections. */
  #oldestMissing(): StatusDocument['oldestMissing'] {
    const oldest = this.line?.explainer.oldestMissing();
    const [collectionId] = oldest?.missingIds ?? [];
    if (oldest === undefined || collectionId === undefined) return null;
    const { height, missingIds, ageSeconds } = oldest;
    const reason = this.heldUpAt(height)?.message ?? '';
    return { height, missing: missingIds.length, collectionId, ageSeconds, reason };
  }

  #endpoints(): readonly EndpointStatus[] {
    const { clock, network } = this.parts;
    const [now, hour] = [this.lastHour.now(), this.lastHour.hour()];
    const known = { ...(now === undefined ? {} : { now }), ...(hour === undefined ? {} : { hour }) };
    const nowMs = clock.monotonic();
    return network.states().map((state) => endpointReport(state, { nowMs, ...known }));
  }

  #requesterStatus(): StatusDocument['sources']['requester'] {
    const { line } = this;
    const inFlight = line?.requester?.inFlight() ?? 0;
    const missing = line?.mcq.missingCollections ?? 0;
    if (this.config.ediOnly) return { state: 'off', inFlight, missing };
    const idle = missing > 0 ? 'waiting' : 'idle';
    return { state: inFlight > 0 ? 'asking' : idle, inFlight, missing };
  }

  #streamStatus(
    isWanted: boolean,
    stream: ExecutionDataIndexer | undefined,
  ): StatusDocument['sources']['edi'] {
    const none = { endpoint: null, height: null, ageSeconds: null, reason: null };
    if (!isWanted) return { state: 'off', ...none };
    const { shared } = this.parts.store;
    if (shared?.isLeading() === false) return { state: 'off', ...none, reason: 'this process does not lead' };
    const status = stream?.status();
    return {
      state: this.#streamState(status),
      endpoint: status?.node ?? null,
      height: status?.lastHeight ?? null,
      ageSeconds: seconds(status?.lastMessageAgeMs),
      reason: stream?.trouble() ?? null,
    };
  }

  #streamState(stream: ExecutionDataStatus | undefined): StatusDocument['sources']['edi']['state'] {
    switch (stream?.state) {
      case undefined:
      case 'off':
      case 'connecting':
        return 'connecting';
      case 'unavailable':
        return 'unavailable';
      case 'streaming':
        return this.diagnosis.isHeadConfirmed() ? 'following' : 'connecting';
      case 'waiting_window':
        if (stream.nextHeight <= (this.parts.window.target() ?? Infinity)) return 'paused';
        // Up to date: it waits for the chain.
        return this.diagnosis.isHeadConfirmed() ? 'following' : 'connecting';
    }
  }
}

function seconds(milliseconds: number | undefined): number | null {
  return milliseconds === undefined ? null : milliseconds / 1000;
}

/** Current throughput, and the last hour by minute. */
function activityReport(history: DaemonStatus['lastHour']): Pick<StatusDocument, 'throughput' | 'lastHour'> {
  const now = history.now();
  return {
    throughput: now === undefined ? null : throughputOf(now),
    lastHour: history.minutes().map(({ ageSeconds, requester, edi, peer, commits }) => ({
      ageSeconds,
      requester,
      edi,
      peer,
      heights: commits.heights,
      bytes: commits.bytes,
      commits: commits.count,
      commitSeconds: commits.seconds,
    })),
  };
}

function throughputOf({
  seconds,
  work: { requester, edi, peer, commits },
}: NonNullable<ReturnType<DaemonStatus['lastHour']['now']>>): StatusDocument['throughput'] {
  const mean = (total: number): number | null => (commits.count === 0 ? null : total / commits.count);
  return {
    heightsPerSecond: commits.heights / seconds,
    collectionsPerSecond: (requester.first + edi.first + peer.first) / seconds,
    bytesPerSecond: commits.bytes / seconds,
    commits: {
      perSecond: commits.count / seconds,
      heights: mean(commits.heights),
      bytes: mean(commits.bytes),
      seconds: mean(commits.seconds),
      usualSeconds: slowestUsual(commits) ?? null,
    },
  };
}

/** The status of one node: its state now, and its last hour. */
function endpointReport(
  { endpoint, state, foreign, trouble, record, calls, limits, ...node }: NodeState,
  { nowMs, now, hour }: { readonly nowMs: number; readonly now?: Stretch; readonly hour?: Stretch },
): EndpointStatus {
  const because = foreign === undefined ? (record?.said ?? trouble) : `another ${foreign} than ours`;
  const since = (atMs: number): number => (nowMs - atMs) / 1_000;
  const until = (atMs: number): number => Math.max(0, (atMs - nowMs) / 1_000);
  const { calls: sent = 0, errors = 0, kinds = [] } = hour?.nodes.get(endpoint) ?? {};
  const failures = [...kinds].filter(([, count]) => count > 0);
  return {
    name: endpoint,
    state,
    reason: because ?? null,
    sinceSeconds: record === undefined ? null : since(record.sinceMs),
    endsInSeconds: record === undefined ? null : until(record.untilMs),
    origin: node.origin,
    version: node.semver === '' ? null : node.semver,
    lowestHeight: node.lowestHeight ?? null,
    latencySeconds: node.latencyMs === undefined ? null : node.latencyMs / 1_000,
    inFlight: node.callsInFlight,
    callsPerSecond: now === undefined ? 0 : (now.nodes.get(endpoint)?.calls ?? 0) / now.seconds,
    lastHour: { calls: sent, errors, kinds: failures.map(([kind, count]) => ({ kind, count })) },
    limits: limits.map(({ method, ratePerSecond = null, isLearned, pauseMs, waiting }) => ({
      method,
      ratePerSecond,
      isLearned,
      pauseSeconds: pauseMs / 1_000,
      waiting,
    })),
    calls: calls.map(({ method, state: itsState, said, count, sinceMs, untilMs }) => ({
      method,
      state: itsState,
      reason: said,
      count,
      sinceSeconds: since(sinceMs),
      endsInSeconds: until(untilMs),
    })),
  };
}
