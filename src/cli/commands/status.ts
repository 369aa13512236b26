import type { StatusDocument } from '../../api/index.js';
import { announcedRuns } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { askDaemon, noDaemon } from '../client/findDaemon.js';
import { wrongUse } from '../command.js';
import type { Run, Terminal } from '../command.js';
import type { statusFlags } from '../arguments/flags.js';
import { configOf } from '../arguments/settings.js';
import { renderStatus, statusLine } from '../output/statusPage.js';
import { watchStatus } from '../output/watchStatus.js';

/** `status`: shows what a running daemon is doing, once or live. */
export const status: Run<typeof statusFlags> = async (invocation, terminal) => {
  const { watch, json } = invocation.flags;
  const found = await daemonsOf(await configOf(invocation, terminal), terminal);
  if (watch) {
    const [only, ...others] = found;
    if (only === undefined || others.length > 0) {
      const where = found.map(({ loaded }) => loaded.config.dataDir).join(', ');
      throw wrongUse(`Several daemons run here: say which one with --data-dir: ${where}.`);
    }
    await watchStatus(only.loaded, json, terminal);
    return 'done';
  }
  for (const each of found) {
    if (json) terminal.out(JSON.stringify(each.document) + '\n');
    else if (found.length === 1) terminal.out(renderStatus(each.document));
    else
      terminal.out(
        `${each.loaded.config.dataDir}\n  ${each.document.network}: ${statusLine(each.document)}\n`,
      );
  }
  return 'done';
};

interface Found {
  readonly loaded: LoadedConfig;
  readonly document: StatusDocument;
}

/**
 * The configured daemon. If none is configured and the default one is not running: all daemons of this user on
 * this machine, at least one. Expected errors: OperatorError (`no_daemon`).
 */
async function daemonsOf(loaded: LoadedConfig, { environment }: Terminal): Promise<readonly Found[]> {
  const own = await answerOf(loaded);
  if (own !== undefined) return [own];
  if (!Object.values(loaded.origins).every((origin) => origin === 'default')) throw noDaemon(loaded);
  const others = await Promise.all(
    announcedRuns(environment).map((dataDir) =>
      answerOf({ ...loaded, config: { ...loaded.config, dataDir } }),
    ),
  );
  const found = others.filter((other) => other !== undefined);
  if (found.length === 0) throw noDaemon(loaded);
  return found;
}

async function answerOf(loaded: LoadedConfig): Promise<Found | undefined> {
  const answer = await askDaemon(loaded, '/status');
  return answer && { loaded, document: answer.body as StatusDocument };
}
