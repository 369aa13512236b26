import { runInProcess } from '../support/terminal.js';
import { fill } from './placeholders.js';

/** No command has this flag: a command line that is refused because of it alone is sound up to there. */
const UNKNOWN_FLAG = '--no-flag-of-any-command';

/** What stands for the reader's own file. */
const CONFIG = 'config/mainnet.json';

/** What the real parser has to say, and for `start` the real configuration. */
export async function complaintAgainst(words: readonly string[]): Promise<string | undefined> {
  const args = words.filter((word) => word !== '…').map((word) => fill(word));
  const [name = '', first] = args;
  if (['--version', '--help', 'version', '<command>'].includes(name)) return undefined;
  if (name === 'help' && first === undefined) return undefined;
  if (name === 'help') return complaintAgainst([first ?? '', '--help']);
  const help = await runInProcess([name, '--help']);
  if (help.exit !== 'done') return help.message;
  const [, positionals = ''] = /^usage: \S+ \S+ (\S+)/.exec(help.out) ?? [];
  const known = /^[a-z]+(\|[a-z]+)+$/.test(positionals) ? positionals.split('|') : [];
  if (known.length > 0 && first !== undefined && !first.startsWith('-') && !known.includes(first))
    return `${name} knows ${known.join(', ')}, not ${first}`;
  if (name === 'start') {
    const flags = args.slice(1).map((arg, index, all) => (all[index - 1] === '--config' ? CONFIG : arg));
    const checked = await runInProcess(['config', 'check', ...flags]);
    return checked.exit === 'done' ? undefined : checked.message;
  }
  const asked = args.filter((arg) => arg !== '--help');
  // What comes after it is no flag of ours.
  const end = asked.includes('--') ? asked.indexOf('--') : asked.length;
  const { message } = await runInProcess([...asked.slice(0, end), UNKNOWN_FLAG, ...asked.slice(end)]);
  return message.includes(UNKNOWN_FLAG) ? undefined : message;
}
