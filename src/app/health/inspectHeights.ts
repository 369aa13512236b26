import { blockAbove, MAX_MISSING_SHOWN } from '../../api/index.js';
import type { HeightWork, MissingDocument, WorkDocument, WorkMoment } from '../../api/index.js';
import type { HeightExplanation, MissingExplanation } from '../../collections/index.js';
import type { DaemonStatus } from './reportStatus.js';

/** What the daemon knows about the work on one height, read from the parts of the line on demand. */
export function momentAt(daemon: DaemonStatus, height: number): WorkMoment {
  return {
    range: daemon.range(),
    durableId: blockAbove(daemon.parts.store, { height })?.id,
    daemon: { reasons: daemon.monitor.readiness().reasons, work: heightWork(daemon, height) },
    history: daemon.backfillWatch.plannedAt(height),
  };
}

function heightWork(daemon: DaemonStatus, height: number): HeightWork | undefined {
  const { config, parts } = daemon;
  const line = daemon.diagnosis.line();
  if (line === undefined) return undefined;
  const { waitingFor, sources, endpoints } = daemon.status();
  const explained = line.explainer.explain(height);
  const serving = parts.network.namesServing(height);
  const nodes = endpoints.filter(({ origin }) => origin !== 'peer');
  return {
    stage: explained.stage === 'indexed' ? 'durable' : explained.stage,
    blockId: explained.blockId ?? line.blocks.blockAt(height)?.id ?? null,
    upperBound: parts.window.upperBound(),
    stopHeight: config.stopHeight ?? null,
    work: workOf(explained),
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

function workOf(explained: HeightExplanation): WorkDocument | null {
  const { ageMs, guarantees, missing, executionData = null, peer = null, reportedBy = null } = explained;
  if (ageMs === undefined || guarantees === undefined) return null;
  return {
    ageSeconds: ageMs / 1000,
    collections: guarantees,
    missing: missing.length,
    missingCollections: missing.slice(0, MAX_MISSING_SHOWN).map(missingOf),
    executionData,
    peer,
    reportedBy,
  };
}

function missingOf({ id, trail }: MissingExplanation): MissingDocument {
  const { isUnderWay = false, attempts = 0, notFound = 0, lastNode = null, lastError = null } = trail ?? {};
  return {
    collectionId: id,
    isUnderWay,
    attempts,
    notFound,
    lastNode,
    lastError,
    lastAskedAt: trail?.lastAskedAt === undefined ? null : new Date(trail.lastAskedAt).toISOString(),
    failures: [...(trail?.failures ?? [])].map(([node, { failed, lastAt, lastError }]) => {
      return { node, count: failed.count, lastError, lastAt: new Date(lastAt).toISOString() };
    }),
  };
}
