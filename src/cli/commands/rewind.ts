import { rewindStore } from '../../app/index.js';
import { MAX_HEIGHT } from '../../config/index.js';
import { formatCount } from '../../observability/index.js';
import { OperatorError } from '../../runtime/index.js';
import type { ExitReason } from '../../runtime/index.js';
import type { Invocation, Terminal } from '../command.js';
import { ownValuesOf, rewindFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';

/** `rewind`: deletes everything above a height. No daemon may be running on the store. */
export async function rewind(invocation: Invocation, terminal: Terminal): Promise<ExitReason> {
  const values = ownValuesOf(rewindFlags, invocation);
  const height = values.to;
  if (height === null || height > MAX_HEIGHT) {
    throw new OperatorError(
      'usage',
      'Say which height to keep: flow-collection-indexer rewind --to H --yes.',
    );
  }
  const { config } = await configOf(invocation, terminal);
  const { from, through, forgotten } = await rewindStore(config, height, { apply: values.yes });
  if (!values.yes) {
    const what =
      forgotten === undefined
        ? 'there is nothing'
        : `${formatCount(forgotten.heights)} heights, ${forgotten.from} to ${forgotten.to}`;
    throw new OperatorError(
      'usage',
      `This forgets everything above height ${through}: ${what}. Add --yes to do it.`,
    );
  }
  terminal.out(`Rewound from height ${from} to ${through}. The daemon goes on at ${through + 1}.\n`);
  return 'done';
}
