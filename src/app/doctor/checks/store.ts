import type { DaemonConfig } from '../../../config/index.js';
import { formatSize } from '../../../observability/index.js';
import { RANGES_SCHEMA_VERSION } from '../../../storage/index.js';
import type { StoreSurvey } from '../../../storage/index.js';
import { checkDatabase } from './database.js';
import type { StoreFacts } from '../facts/storeFacts.js';
import { ok, problem, warning } from '../verdicts.js';
import type { Finding } from '../verdicts.js';
import { heightsInWords, otherChain } from '../words.js';

type StoreConfig = Pick<DaemonConfig, 'chainId' | 'dataDir' | 'network' | 'startHeight' | 'store'>;

/** Whether the daemon can open its store, and what is in it. */
export function checkStore(config: StoreConfig, facts: StoreFacts): Finding[] {
  switch (facts.kind) {
    case 'none':
      return [
        ok(`There is no index in ${config.dataDir} yet: the daemon begins one at ${beginning(config)}.`),
      ];
    case 'locked':
      return [
        problem(
          'storage',
          `The store in ${config.dataDir} is in use by ${facts.holder}; stop it, or choose another --data-dir.`,
        ),
      ];
    case 'unreadable':
      return [problem(facts.error.exit, facts.error.message)];
    case 'running':
      return checkRunning(config, facts);
    case 'closed':
      return checkClosed(config, facts.survey);
    case 'database':
      return checkDatabase(config, facts);
  }
}

function beginning({ startHeight }: StoreConfig): string {
  if (startHeight === 'latest') return 'the newest finalized block';
  return startHeight === 'root' ? 'the root of the live spork' : `height ${startHeight}`;
}

function checkRunning(
  { chainId, dataDir }: StoreConfig,
  { record, status }: Extract<StoreFacts, { readonly kind: 'running' }>,
): Finding[] {
  if (status === undefined) {
    return [
      warning(
        `The daemon of ${dataDir} runs (process ${record.pid}) but its API does not answer; its log and /readyz say why.`,
      ),
    ];
  }
  const runs = `The daemon of ${dataDir} runs (process ${record.pid})`;
  if (status.chainId !== chainId)
    return [problem('foreign', otherChain(`${runs} on chain ${status.chainId}`, chainId))];
  const has = heightsInWords(status.coverage);
  const [reason] = status.reasons;
  if (reason === undefined) return [ok(`${runs}, is ready, and has ${has}.`)];
  const others = status.reasons.length > 1 ? ` (and ${status.reasons.length - 1} more)` : '';
  return [
    warning(
      `${runs}, has ${has}, and is not ready: ${reason.code}${others}: ${reason.message}; docs/readiness.md says what to do.`,
    ),
  ];
}

function checkClosed(config: StoreConfig, survey: StoreSurvey): Finding[] {
  const { dataDir, chainId, startHeight } = config;
  const { bytes, coverage, damages, meta, plans, suspects } = survey;
  const [damage] = damages;
  if (damage !== undefined) {
    const more = damages.length > 1 ? ` (and ${damages.length - 1} more)` : '';
    const named = suspects.includes(damage.file) ? ', which a daemon found damaged while it ran' : '';
    return [
      problem(
        'storage',
        `The store in ${dataDir} is damaged: file ${damage.file}: ${damage.what}${more}${named}; run "verify", then "repair --yes".`,
      ),
    ];
  }
  if (meta === undefined)
    return [ok(`The store in ${dataDir} is empty: the daemon begins at ${beginning(config)}.`)];
  if (meta.schemaVersion > RANGES_SCHEMA_VERSION) {
    return [
      problem(
        'configuration',
        `The store in ${dataDir} was written by a newer version (schema ${meta.schemaVersion}, this one knows ` +
          `${RANGES_SCHEMA_VERSION}); upgrade the program, or choose another --data-dir.`,
      ),
    ];
  }
  if (meta.chainId !== chainId)
    return [
      problem('foreign', otherChain(`The store in ${dataDir} belongs to chain ${meta.chainId}`, chainId)),
    ];
  const next = (coverage.at(-1)?.to ?? meta.firstHeight - 1) + 1;
  const lowest = Math.min(meta.firstHeight, ...[...coverage, ...plans].map(({ from }) => from));
  const found: Finding[] = [];
  if (typeof startHeight === 'number' && (startHeight < lowest || startHeight > next)) {
    found.push(
      problem(
        'configuration',
        `startHeight ${startHeight} does not fit the store in ${dataDir}, which begins at ${lowest} and goes on at ${next}; ` +
          'leave --start-height out, or choose another --data-dir.',
      ),
    );
  }
  const planned =
    plans.length === 0 ? '' : `, ${plans.length} plan${plans.length === 1 ? '' : 's'} of history open`;
  found.push(
    ok(
      `The files of the store in ${dataDir} are sound: ${heightsInWords(coverage)}, ${formatSize(bytes)}, ` +
        `schema ${meta.schemaVersion}, begun by ${meta.createdBy}${planned}; the daemon goes on at ${next}.`,
    ),
  );
  return found;
}
