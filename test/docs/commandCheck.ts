import { complaintAgainst } from './programCheck.js';
import { complaintsAgainstFile, complaintsAgainstNpm, complaintsAgainstPaths } from './scriptCheck.js';
import { commandsIn, type ShellLine } from './shell.js';

const PROGRAM = 'flow-collection-indexer';

/** Programs that no test here can run, each with the reason. A command of the daemon within is checked like any other. */
const notRunHere: Readonly<Record<string, string>> = {
  docker: 'needs a Docker engine',
  systemctl: 'needs systemd as process 1',
  journalctl: 'needs systemd as process 1',
  'systemd-analyze': 'is run by the tests of the unit, where it is installed',
  kubectl: 'needs a cluster',
  helm: 'needs a cluster',
  psql: 'needs a database with an index; test/integration/storage/postgresQueries.test.ts runs the queries',
  createdb: 'needs a PostgreSQL server',
  promtool: 'is run by npm run test:promtool',
  grpcurl: 'is played by test/e2e/grpcDocs.test.ts',
  flow: 'a function of docs/grpc.md: test/e2e/grpcDocs.test.ts plays it',
  sudo: 'changes the machine',
  'systemd-sysusers': 'changes the machine',
  git: 'needs the repository’s own address',
};

/** What a line may use besides: part of every system, or of the shell. */
const ordinary = [
  ...['base64', 'cat', 'cd', 'chmod', 'chown', 'cp', 'curl', 'df', 'dmesg', 'du', 'echo', 'export'],
  ...['fuser', 'getent', 'grep', 'head', 'install', 'iostat', 'iotop', 'jq', 'kill', 'ls', 'man', 'mkdir'],
  ...['mktemp', 'mv', 'nc', 'ps', 'rm', 'rsync', 'sed', 'sha256sum', 'sleep', 'sort', 'source', 'ss'],
  ...['tail', 'tar', 'ulimit', 'uniq', 'wc', 'xxd'],
  ...['}', 'flow()'],
];

const isCommandName = (word: string | undefined): boolean => /^[a-z]+$/.test(word ?? '');

/** Without running it. Lines with exit code 64 behind them are there to show a refusal. */
export async function complaintsAgainst(line: ShellLine): Promise<string[]> {
  if (line.comment.startsWith('64: ')) return [];
  const found = await Promise.all(commandsIn(line.text).map(complaintsAgainstCommand));
  const quote = 'put quotes around the address: zsh looks for files of that name, and finds none';
  if (!line.isInline && /\shttps?:\S*[?*[]/.test(line.text)) found.push([quote]);
  return found.flat().map((complaint) => `${line.file}:${line.line}: ${line.text}\n  ${complaint}`);
}

async function complaintsAgainstCommand(words: readonly string[]): Promise<string[]> {
  const [program = '', ...rest] = words;
  const [first = ''] = rest;
  if (program === 'npx' && first === PROGRAM) return complaintsAgainstCommand(rest);
  if (program === 'npx' && first === 'vitest')
    return complaintsAgainstPaths(rest.filter((word) => word.startsWith('test/')));
  if (program === 'npx' && first === 'tsx') return complaintsAgainstFile(rest[1] ?? '', rest.slice(2));
  if (program === 'npm') return complaintsAgainstNpm(rest);
  // The debugger of Node.js.
  if (program === 'node' && first === 'inspect') return [];
  if (program === 'node') {
    const at = rest.findIndex((word) => /\.m?js$/.test(word));
    const [path = '', ...args] = rest.slice(at);
    return path.endsWith('dist/main.js') ? ofProgram(args) : complaintsAgainstFile(path, args);
  }
  if (program === 'python3') return complaintsAgainstFile(first, rest.slice(1));
  if (program === PROGRAM || program.endsWith(`/${PROGRAM}`)) return ofProgram(rest);
  if (notRunHere[program] !== undefined) {
    const within = rest.findIndex((word, at) => word.endsWith(PROGRAM) && isCommandName(rest[at + 1]));
    return within === -1 ? [] : ofProgram(rest.slice(within + 1));
  }
  return ordinary.includes(program) ? [] : [`${program} is no program that the checks of the pages know`];
}

async function ofProgram(args: readonly string[]): Promise<string[]> {
  const complaint = await complaintAgainst(args);
  return complaint === undefined ? [] : [complaint];
}
