import { explainDocument, parseExplainKey, workOfStore } from '../../api/index.js';
import type { ExplainDocument } from '../../api/index.js';
import { plannedHeightOf } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { OperatorError, systemClock } from '../../runtime/index.js';
import { documentFrom } from '../client/documentFrom.js';
import { checkKey } from '../client/refusals.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { renderExplanation } from '../output/explainPage.js';
import { explainFlags, ownValuesOf } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

/** `explain`: says why something is or is not in the index. */
export async function explain(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const [key] = invocation.positionals;
  if (key === undefined) {
    throw new OperatorError('usage', 'Say what to explain: flow-collection-indexer explain <height|id>.');
  }
  checkKey(() => parseExplainKey(key));
  const { json } = ownValuesOf(explainFlags, invocation);
  const document = await explanationOf(await configOf(invocation, terminal), key);
  terminal.out(
    json ? JSON.stringify(document, undefined, 2) + '\n' : renderExplanation(document, systemClock.now()),
  );
  return document.stage === 'unknown_id' ? 'not_found' : 'done';
}

function explanationOf(loaded: LoadedConfig, key: string): Promise<ExplainDocument> {
  return documentFrom(loaded, `/explain/${encodeURIComponent(key)}`, (store, range) =>
    explainDocument(
      store,
      key,
      workOfStore(
        store,
        () => range,
        (height) => plannedHeightOf(store, height),
      ),
    ),
  );
}
