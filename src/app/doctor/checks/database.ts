import type { DaemonConfig } from '../../../config/index.js';
import { formatSize } from '../../../observability/index.js';
import type { DatabaseSurvey, HeightRange } from '../../../storage/index.js';
import type { StoreFacts } from '../facts/storeFacts.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';
import { rangesInWords } from '../../../storage/index.js';

/** Above this share of its connections in use, a server may refuse the next one. */
const CONNECTIONS_SHARE = 0.8;
/** Every batch waits for a few round trips. */
const SLOW_ROUND_TRIP_MS = 20;

/** A database that holds the index, and the replica that readers use, if there is one. */
export function checkDatabase(
  { chainId }: Pick<DaemonConfig, 'chainId'>,
  { replica, survey }: Extract<StoreFacts, { readonly kind: 'database' }>,
): Finding[] {
  const found = [...checkServer(survey), ...checkRights(survey), ...checkTables(survey, chainId)];
  const facts = describe(survey);
  if (replica === undefined) return [...found, ok(facts)];
  if (!replica.isReplica) {
    found.push(
      warning(
        `api.store, ${replica.place}, is not a replica: it accepts writes, and does not receive those of the store; name a ` +
          'streaming replica of the store, or leave --api-store out.',
      ),
    );
  }
  if (replica.store === undefined) {
    found.push(
      problem(
        'storage',
        `api.store, ${replica.place}, has no tables of this program; name a streaming replica of ${survey.place}.`,
      ),
    );
  }
  return [...found, ok(facts)];
}

function checkServer(survey: DatabaseSurvey): Finding[] {
  const { connections, isReplica, isTooOld, oldestVersion, place, roundTripMs, unsafe, version } = survey;
  const found: Finding[] = [];
  if (isTooOld) {
    found.push(problem('configuration', `${place} is PostgreSQL ${version}; use ${oldestVersion} or newer.`));
  }
  if (isReplica) {
    found.push(
      problem(
        'storage',
        `${place} is a replica and accepts no writes; name the primary with --store, and this one with --api-store.`,
      ),
    );
  }
  if (unsafe.length > 0) {
    found.push(
      warning(
        `${place} runs with ${unsafe.join(' and ')}, so a power failure can damage what was committed; set it to on.`,
      ),
    );
  }
  if (connections.used > connections.max * CONNECTIONS_SHARE) {
    found.push(
      warning(
        `${place} has ${connections.used} of ${connections.max} connections in use, and each process of the daemon takes about 20; ` +
          'raise max_connections.',
      ),
    );
  }
  if (roundTripMs > SLOW_ROUND_TRIP_MS) {
    found.push(
      warning(
        `${place} takes ${Math.round(roundTripMs)} ms for the smallest query, and every batch waits for several; run the ` +
          'daemon closer to it.',
      ),
    );
  }
  return found;
}

function checkRights({ mayCreate, place, store, user }: DatabaseSurvey): Finding[] {
  if (store === undefined && !mayCreate) {
    return [
      problem(
        'storage',
        `${place} has no tables of this program, and the user ${user} may not create any; GRANT CREATE ON DATABASE … TO ${user}.`,
      ),
    ];
  }
  if (store?.mayWrite === false) {
    return [
      problem(
        'storage',
        `The user ${user} may not write to the tables at ${place}; use the user that created them, or GRANT it access.`,
      ),
    ];
  }
  return [];
}

function checkTables({ jobsVersion, place, store }: DatabaseSurvey, chainId: string): Finding[] {
  if (store === undefined) return [];
  const found: Finding[] = [];
  if (store.isTooNew) {
    found.push(
      problem(
        'configuration',
        `The store at ${place} was written by a newer version (schema ${store.schemaVersion}); upgrade the program, or choose ` +
          'another database.',
      ),
    );
  }
  if (store.chainId !== chainId)
    found.push(
      problem('foreign', otherChain(`The store at ${place} belongs to chain ${store.chainId}`, chainId)),
    );
  if (jobsVersion === undefined) {
    found.push(
      warning(
        `The queue of work at ${place} (schema flow_jobs, of pg-boss) is missing; the next start creates it, if the user is allowed to.`,
      ),
    );
  }
  return found;
}

function describe({ connections, jobsVersion, place, store, tls, user, version }: DatabaseSurvey): string {
  const secrecy = tls === undefined ? 'in the clear' : tls;
  const has =
    store === undefined
      ? 'no index yet'
      : `${heightsInWords(store.coverage)}, ${formatSize(store.bytes)}, schema ${store.schemaVersion}`;
  const queue = jobsVersion === undefined ? '' : `, pg-boss schema ${jobsVersion}`;
  return (
    `${place}: PostgreSQL ${version}, ${secrecy}, as ${user}, ${connections.used} of ${connections.max} connections in use; ` +
    `${has}${queue}.`
  );
}

function otherChain(what: string, chainId: string): string {
  return `${what}, not to ${chainId}; name the --network of the store, or another place for this one.`;
}

function heightsInWords(coverage: readonly HeightRange[]): string {
  return coverage.length === 0 ? 'no heights yet' : `heights ${rangesInWords(coverage)}`;
}
