import { blockAbove, MAX_MISSING_SHOWN, metricsServer } from '../api/index.js';
import type { HeightWork, HttpServer, WorkMoment } from '../api/index.js';
import type { DaemonConfig } from '../config/index.js';
import type { Identifier } from '../flow/index.js';
import { maskedEndpoint } from '../runtime/index.js';
import { mergedPage } from '../observability/index.js';
import type { DaemonParts } from './health/diagnose.js';
import type { DaemonStatus } from './health/reportStatus.js';
import { keepDaemonRecord } from './lifecycle/daemonRecord.js';
import { openControlSocket } from './lifecycle/openControlSocket.js';
import { obeyBackfill } from './line/history/plans.js';
import type { ReaderAddresses } from './threads/messages.js';
import { readableIndex } from './threads/readableIndex.js';

type ServedParts = DaemonParts & { readonly health: DaemonStatus };

/** Starts all servers, before any node is called, and writes the record by which other commands find them. Returns their addresses. */
export async function startServers(config: DaemonConfig, parts: ServedParts) {
  const { backfill, health, lifecycle, logger, secretFiles } = parts;
  const metricsServer = await startMetricsServer(config, parts);
  const control = await openControlSocket(config.dataDir, {
    obey: (command) => obeyBackfill(command, backfill.source, parts),
    ...parts,
  });
  const addresses: Partial<ReaderAddresses> = (await serveReaders(config, parts)) ?? {};
  health.monitor.start();
  lifecycle.onClose('health monitor', () => health.monitor.close());
  const all = { ...addresses, metrics: metricsServer.address() };
  const writeRecord = keepDaemonRecord(
    config.dataDir,
    () => ({
      pid: process.pid,
      instance: health.instance,
      ...all,
      ...(addresses.api && { api: { ...addresses.api, ...secretFiles.ownAccess() } }),
      control,
      store: config.store && maskedEndpoint(config.store),
    }),
    parts,
  );
  secretFiles.onChange(writeRecord);
  logger.info(all, 'listening');
  return all;
}

async function startMetricsServer(config: DaemonConfig, parts: ServedParts): Promise<HttpServer> {
  const { descriptors, health, lifecycle, metrics, readers } = parts;
  const server = metricsServer(
    { ...config.metrics, maxConnections: descriptors.shares().metrics },
    {
      ...parts,
      health: health.monitor,
      fail: lifecycle.fail,
      page: async () => mergedPage(metrics.registry, (await readers?.metrics()) ?? []),
    },
  );
  await server.start();
  descriptors.onChange(() => server.setLimits({ maxConnections: descriptors.shares().metrics }));
  lifecycle.onClose('metrics server', () => server.close());
  return server;
}

/** Starts serving in the reader thread, and notifies it of every change. */
async function serveReaders(config: DaemonConfig, parts: ServedParts): Promise<ReaderAddresses | undefined> {
  const { healing, health, lifecycle, listener, network, prover, readers, window } = parts;
  if (readers === undefined) return undefined;
  const serving = readers.serve({
    state: () => ({
      ...readableIndex(config, parts),
      isReady: health.monitor.readiness().ready,
      // An interface must not mix answers from two chains.
      forwardingOff: network.chainReplaced(),
      nodes: config.api.forward ? network.live().map(({ endpoint }) => endpoint) : [],
    }),
    status: health.status,
    momentAt: (key) => momentAt(health, key),
    damaged: healing.found,
    admission: network.forwardingAdmission,
  });
  lifecycle.onClose('servers of readers', () => readers.close());
  window.onMoved(readers.notify);
  listener.sealed.onRise(readers.notify);
  prover?.onProven(readers.notify);
  network.onAnswering(readers.notify);
  return serving;
}

/** What the daemon knows about the work on a height or id, read from the parts of the line on demand. */
function momentAt(daemon: DaemonStatus, key: number | Identifier): WorkMoment {
  const above = blockAbove(daemon.parts.store, key);
  const durable = above && ({ kind: 'block', height: above.height } as const);
  const named = typeof key === 'number' ? undefined : (durable ?? daemon.diagnosis.line()?.mcq.naming(key));
  // Below all heights there is no work.
  const height = typeof key === 'number' ? key : (named?.height ?? -1);
  return {
    range: daemon.range(),
    named,
    durableId: above?.id,
    daemon: { reasons: daemon.monitor.readiness().reasons, work: heightWork(daemon, height) },
    history: daemon.backfillWatch.plannedAt(height),
  };
}

function heightWork(daemon: DaemonStatus, height: number): HeightWork | undefined {
  const { config, parts } = daemon;
  const line = daemon.diagnosis.line();
  if (line === undefined) return undefined;
  const { waitingFor, sources, endpoints } = daemon.status();
  const { stage, blockId, work } = line.explainer.explain(height);
  const serving = parts.network.namesServing(height);
  const nodes = endpoints.filter(({ origin }) => origin !== 'peer');
  return {
    stage: stage === 'indexed' ? 'durable' : stage,
    blockId: blockId ?? line.blocks.blockAt(height)?.id ?? null,
    upperBound: parts.window.upperBound(),
    stopHeight: config.stopHeight ?? null,
    work: work ? { ...work, missingCollections: work.missingCollections.slice(0, MAX_MISSING_SHOWN) } : null,
    holdingUp: waitingFor,
    sources: {
      nodes: nodes.map(({ name, state, reason }) => ({
        name,
        state,
        servesHeight: serving.has(name),
        trouble: reason,
      })),
      executionData: sources.edi,
      peer: sources.peer,
    },
  };
}
