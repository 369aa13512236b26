import { announcedRuns } from '../../app/index.js';
import type { LoadedConfig } from '../../config/index.js';
import { daemonStatus, noDaemon } from '../client/askDaemon.js';
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

/**
 * The configured daemon. If none is configured and the default one is not running: all daemons of this user on
 * this machine, at least one. Expected errors: OperatorError (`no_daemon`).
 */
async function daemonsOf(loaded: LoadedConfig, { environment }: Terminal) {
  const answersOf = async (dataDirs: readonly string[]) => {
    const asked = dataDirs.map(async (dataDir) => {
      const each = { ...loaded, config: { ...loaded.config, dataDir } };
      return { loaded: each, document: await daemonStatus(each) };
    });
    return (await Promise.all(asked)).flatMap(({ document, ...rest }) =>
      document ? [{ document, ...rest }] : [],
    );
  };
  const own = await answersOf([loaded.config.dataDir]);
  const isAnyMeant = Object.values(loaded.origins).every((origin) => origin === 'default');
  const found = own.length === 0 && isAnyMeant ? await answersOf(announcedRuns(environment)) : own;
  if (found.length === 0) throw noDaemon(loaded);
  return found;
}
