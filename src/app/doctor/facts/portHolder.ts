import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { quoted, withoutCredentials } from '../../../runtime/index.js';

/** In the tables of `/proc/net`: a socket that listens. */
const LISTENING = '0A';
/** Most open files looked at, over all processes: a name is not worth more. */
const MAX_LOOKS = 100_000;

/**
 * Who listens at a TCP port, in words: the process and its command line. `undefined` where the system does not say: Linux does, for
 * processes of the same user.
 */
export async function portHolder(port: number): Promise<string | undefined> {
  const sockets = new Set([...(await listening('tcp', port)), ...(await listening('tcp6', port))]);
  if (sockets.size === 0) return undefined;
  let looks = 0;
  for (const pid of await namesIn('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    const folder = join('/proc', pid, 'fd');
    for (const descriptor of await namesIn(folder)) {
      looks += 1;
      if (looks > MAX_LOOKS) return undefined;
      const target = await readlink(join(folder, descriptor)).catch(() => '');
      if (sockets.has(target)) return `process ${pid}${await commandOf(pid)}`;
    }
  }
  return undefined;
}

/** The sockets that listen at the port, as the files of their processes name them. */
async function listening(table: 'tcp' | 'tcp6', port: number): Promise<string[]> {
  const lines = await readFile(`/proc/net/${table}`, 'latin1').catch(() => '');
  return lines.split('\n').flatMap((line) => {
    const [, local = '', , state, , , , , , inode] = line.trim().split(/\s+/);
    const [, hex = ''] = local.split(':');
    return state === LISTENING && Number.parseInt(hex, 16) === port ? [`socket:[${inode ?? ''}]`] : [];
  });
}

async function namesIn(folder: string): Promise<string[]> {
  // Another user's process, one that is gone, or another system.
  return readdir(folder).catch(() => []);
}

async function commandOf(pid: string): Promise<string> {
  const line = await readFile(join('/proc', pid, 'cmdline'), 'utf8').catch(() => '');
  const words = line.split('\0').join(' ').trim();
  return words === '' ? '' : `: ${quoted(withoutCredentials(words))}`;
}
