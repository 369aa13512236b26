import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exitCodeOf } from '../../src/app/index.js';
import { inShell } from '../../src/runtime/index.js';
import { programPath, scratchDirectory } from '../support/program.js';
import { startHere } from '../support/runningDaemon.js';
import { runInProcess } from '../support/terminal.js';
import { notRunHere, PROGRAM } from './commandCheck.js';
import type { DocsStage } from './DocsStage.js';
import { root } from './files.js';
import { fill } from './placeholders.js';
import { commandsIn, type ShellLine } from './shell.js';

/** What became of a line. `checked`: it was only held against the parser, with the reason. */
export type Outcome =
  | { readonly kind: 'ran' }
  | { readonly kind: 'checked'; readonly reason: string }
  | { readonly kind: 'failed'; readonly what: string };

const ran: Outcome = { kind: 'ran' };
const checked = (reason: string): Outcome => ({ kind: 'checked', reason });

/** Flags that say where the reader's own things are, and take a value. */
const places = ['--network', '--data-dir', '--access-node', '--edi-node', '--config', '--start-height'];
/** The command that wants no store at all. */
const RESTORE = 'restore';
/** Commands that want a store which no daemon uses. */
const atRest = ['verify', 'repair', 'rewind', 'forget'];
const harmless =
  'flow-collection-indexer node python3 jq sort uniq head tail base64 sha256sum grep cat wc'.split(' ');
const ENDLESS = ['--watch', '--follow'];
/** The code of a shell whose program was ended by SIGPIPE. */
const READER_GONE = 141;

/** Runs the lines of one page, in order: what one leaves in FILE another may read. */
export class LinePlayer {
  readonly #stage: DocsStage;
  /** Everything that its lines write is below. */
  readonly #folder: string;
  readonly #file: string;
  readonly #values: Readonly<Record<string, string>>;
  /** Lines of `start` that were played already, by what differs. */
  readonly #started: Set<string>;

  constructor(stage: DocsStage, started: Set<string>) {
    this.#stage = stage;
    this.#started = started;
    this.#folder = scratchDirectory();
    this.#file = join(this.#folder, 'blocks.ndjson');
    this.#values = { ...stage.values, FILE: this.#file, DATABASE: join(this.#folder, 'flow.db') };
  }

  async play(line: ShellLine): Promise<Outcome> {
    const [code = ''] = /^\d+(?=: )/.exec(line.comment) ?? [];
    const commands = commandsIn(line.text);
    const [[program = '', ...words] = []] = commands;
    if (/\$STORE|postgres:\/\//.test(line.text)) return checked('needs a PostgreSQL server');
    if (notRunHere[program] !== undefined) return checked(notRunHere[program]);
    if (commands.length > 1 && !line.text.includes('|')) {
      for (const command of commands) {
        const outcome = await this.play({ ...line, text: command.join(' ') });
        if (outcome.kind !== 'ran') return outcome;
      }
      return ran;
    }
    if (program === 'npm') return checked('builds, installs or tests: scripts and flags are looked up');
    if (program === 'npx' && words[0] === PROGRAM) return this.#program(words.slice(1), Number(code || '0'));
    if (program === 'node' && words[0] === 'dist/main.js')
      return this.#program(words.slice(1), Number(code || '0'));
    if (program === 'npx') return checked('measures: file and flags are looked up');
    if (program === PROGRAM && commands.length === 1) return this.#program(words, Number(code || '0'));
    if (program === 'curl' && commands.length === 1) return this.#curl(words);
    return this.#shell(line.text);
  }

  async #program(words: readonly string[], code: number): Promise<Outcome> {
    const [name = ''] = words;
    if (words.some((word) => word.includes('spork:'))) return checked('names a spork of mainnet');
    if (words.some((word) => /^https?:\/\/(?!127\.0\.0\.1)/.test(word)))
      return checked('fetches from elsewhere');
    if (words.includes('--api-tls-certificate-file'))
      return checked('needs a certificate; test/e2e/guardedPorts.test.ts plays it');
    if (name === 'completion' && words[1] === 'install')
      return checked('changes the shell of whoever runs it');
    if (name === 'check-proof')
      return checked('needs the document of a proven block; test/e2e/proofs.test.ts plays it');
    if (name === 'workers') return checked('needs a database; test/e2e/workers.test.ts plays it');
    if (name === 'start') return this.#start(words);
    if (name === 'devnet') return this.#inProcess(withoutFlags(words, ['--port']), ['--port', '0'], code);
    if (['config', 'completion', 'help', 'version'].includes(name)) {
      return this.#inProcess(withoutFlags(words, ['--config']), [], code);
    }
    if (name === 'doctor') return this.#inProcess(withoutFlags(words, places), this.#startFlags(), code);
    const dataDir =
      name === RESTORE
        ? this.#stage.scratchFile('restored')
        : atRest.includes(name)
          ? await this.#stage.storeAtRest()
          : this.#stage.dataDir;
    const own = withoutFlags(words, ['--network', '--data-dir']);
    if (name === 'export' && !words.includes('--resume')) rmSync(this.#file, { force: true });
    return this.#inProcess(own, ['--network', 'devnet', '--data-dir', dataDir], code);
  }

  /** A word of a page as it is here: ids, addresses, and a place below this page's own folder for any path of the machine. */
  #own(word: string): string {
    const filled = this.#stage.addressOf(fill(word, this.#values));
    if (filled === this.#file || !/^\/[a-z]/.test(filled)) return filled;
    const path = join(this.#folder, filled);
    mkdirSync(dirname(path), { recursive: true });
    return path;
  }

  async #inProcess(words: readonly string[], more: readonly string[], code: number): Promise<Outcome> {
    const ending = new AbortController();
    const isEndless = words[0] === 'devnet' || words.some((word) => ENDLESS.includes(word));
    const filled = words.map((word, at) =>
      // A relative path would lie in the repository.
      words[at - 1] === '--output' && word !== 'FILE' ? join(this.#folder, word) : this.#own(word),
    );
    const see = (): void => {
      if (isEndless && !words.includes('--follow')) ending.abort();
    };
    const looking = setInterval(() => {
      if (words.includes('--follow') && sizeOf(this.#file) > 0) ending.abort();
    }, 20);
    const write = (): Promise<boolean> => {
      see();
      return Promise.resolve(true);
    };
    const result = await runInProcess([...filled, ...more], {
      signal: ending.signal,
      out: see,
      write,
    }).finally(() => clearInterval(looking));
    const ended = exitCodeOf(result.exit);
    // Of several lines that plan the same history the first one leaves nothing to the others.
    const isPlanned = /there is nothing to plan|are planned already/.test(result.message);
    return ended === code || isPlanned
      ? ran
      : { kind: 'failed', what: `exit ${ended}, not ${code}: ${result.message}${result.err}` };
  }

  async #start(words: readonly string[]): Promise<Outcome> {
    const own = withoutFlags(words.slice(1), places);
    const key = own.join(' ');
    if (this.#started.has(key)) return ran;
    this.#started.add(key);
    const program = startHere([
      ...['start', ...this.#startFlags(), '--log-format', 'json'],
      ...own.map((word) => this.#own(word)),
    ]);
    await Promise.race([program.sees(/"msg":"listening"/), program.exited]);
    const ended = await program.stop();
    return ended === 0
      ? ran
      : { kind: 'failed', what: `ended with ${ended}: ${program.stderr}${program.stdout}` };
  }

  /** Of a daemon on the simulated network, with a configuration file, as a service has one. */
  #startFlags(): string[] {
    const config = this.#stage.scratchFile('config.json');
    const accessNodes = [this.#stage.node.address];
    writeFileSync(config, JSON.stringify({ network: 'devnet', accessNodes }));
    const ports = ['--api-port', '0', '--api-grpc-port', '0', '--metrics-port', '0'];
    return ['--config', config, '--data-dir', this.#stage.scratchFile('data'), ...ports];
  }

  async #curl(words: readonly string[]): Promise<Outcome> {
    const [written = ''] = words.filter((word) => word.startsWith('http'));
    if (!written.startsWith('http://127.0.0.1')) return checked('asks somebody else');
    const url = this.#stage.addressOf(fill(written, this.#values));
    const ending = new AbortController();
    const headers = words
      .filter((_, index) => words[index - 1] === '-H')
      .map((word) => fill(word, this.#values).split(': ', 2) as [string, string]);
    const response = await fetch(url, { signal: ending.signal, headers });
    // A stream goes on: its beginning is enough.
    await response.body?.getReader().read();
    ending.abort();
    return response.ok ? ran : { kind: 'failed', what: `${url}: HTTP ${response.status}` };
  }

  /** A line of several programs that read our own file or store, in a real shell, where all of them are installed. */
  async #shell(text: string): Promise<Outcome> {
    const used = commandsIn(text).map(([program = '']) => program);
    const isOurs = /\bFILE\b/.test(text) || used.includes(PROGRAM);
    if (!isOurs || !used.every((program) => harmless.includes(program))) {
      return checked('looks at the machine, or changes it');
    }
    const missing = used.filter((program) => program !== PROGRAM && !isInstalled(program));
    if (missing.length > 0) return checked(`${missing.join(', ')} is not installed here`);
    // What follows the index has an end here.
    const end = text.includes('--follow') ? ` --to ${this.#values['HEIGHT']}` : '';
    const script = [
      `${PROGRAM}() { ${inShell(process.execPath)} ${inShell(programPath)} "$@" --network devnet --data-dir '${this.#stage.dataDir}'${end}; }`,
      `set -e -o pipefail; ${fill(text, this.#values)}`,
    ].join('\n');
    return new Promise((resolve) => {
      execFile('bash', ['-c', script], { cwd: root, maxBuffer: 2 ** 26 }, (error, _, stderr) => {
        // Whoever writes to `head` may be told that it has gone: a matter of chance, and nobody minds.
        const isRead = error === null || error.code === READER_GONE;
        resolve(isRead ? ran : { kind: 'failed', what: `${error.message}${stderr}` });
      });
    });
  }
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function withoutFlags(words: readonly string[], flags: readonly string[]): string[] {
  return words.filter((word, index) => !flags.includes(word) && !flags.includes(words[index - 1] ?? ''));
}

function isInstalled(program: string): boolean {
  try {
    execFileSync('bash', ['-c', `command -v '${program}'`], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
