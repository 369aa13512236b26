import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { quoted, withoutCredentials } from '../../../runtime/index.js';

/** The state of a listening socket in `/proc/net/tcp`. */
const LISTENING = '0A';
/** Limit on the open files looked at, over all processes. */
const MAX_LOOKS = 100_000;

/**
 * The process that listens at a TCP port, with its command line, in words. `undefined` if the system does not say: Linux does, for
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
  // Fails for another user's process, one that has ended, and on other systems.
  return readdir(folder).catch(() => []);
}

async function commandOf(pid: string): Promise<string> {
  const line = await readFile(join('/proc', pid, 'cmdline'), 'utf8').catch(() => '');
  const words = line.split('\0').join(' ').trim();
  return words === '' ? '' : `: ${quoted(withoutCredentials(words))}`;
}
