import { ApiError, explainDocument, parseExplainKey, workOfStore } from '../../api/index.js';
import type { ExplainDocument } from '../../api/index.js';
import { openStoreReadOnly, plannedHeightOf } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { OperatorError, systemClock } from '../../runtime/index.js';
import { namesDaemonAddress } from '../client/daemonAddress.js';
import { askDaemon, noDaemon } from '../client/findDaemon.js';
import { checkKey, refusal } from '../client/refusals.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { renderExplanation } from '../output/explainPage.js';
import { explainFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { ownValuesOf } from '../arguments/ownValues.js';

/** `explain`: says why something is in the index or not. */
export async function explain(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [key] = invocation.positionals;
  if (key === undefined) {
    throw new OperatorError('usage', 'Say what to explain: flow-collection-indexer explain <height|id>.');
  }
  checkKey(() => parseExplainKey(key));
  const { json } = ownValuesOf(explainFlags, invocation);
  const document = await explanationOf(configOf(invocation, terminal), key);
  terminal.out(
    json ? JSON.stringify(document, undefined, 2) + '\n' : renderExplanation(document, systemClock.now()),
  );
  return document.stage === 'unknown_id' ? 'not_found' : 'done';
}

async function explanationOf(loaded: LoadedConfig, key: string): Promise<ExplainDocument> {
  const answer = await askDaemon(loaded, `/explain/${encodeURIComponent(key)}`);
  if (answer !== undefined) {
    if (answer.status === 200) return answer.body as ExplainDocument;
    const { message, reason } = answer.body as { message?: string; reason?: string };
    throw refusal(answer.status, message ?? `the daemon answered with status ${answer.status}`, reason);
  }
  if (namesDaemonAddress(loaded)) throw noDaemon(loaded);
  const store = await openStoreReadOnly(loaded.config);
  try {
    const firstIndexed = store.meta()?.firstHeight ?? null;
    const latestIndexed = firstIndexed === null ? null : store.latestIndexedHeight();
    const range = { firstIndexed, latestIndexed, head: null, sealed: null, coverage: store.coverage() };
    return await explainDocument(
      store,
      key,
      workOfStore(
        store,
        () => range,
        (height) => plannedHeightOf(store, height),
      ),
    );
  } catch (error) {
    if (error instanceof ApiError) throw refusal(error.code, error.message);
    throw error;
  } finally {
    await store.close();
  }
}
