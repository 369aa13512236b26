import { exitCodeOf, runDaemon } from '../../src/app/index.js';
import type { ExplainDocument, StatusDocument } from '../../src/api/index.js';
import { loadConfig } from '../../src/config/index.js';
import { createLogger } from '../../src/observability/index.js';
import type { Readiness } from '../../src/observability/index.js';
import { OperatorError } from '../../src/runtime/index.js';
import { getJson } from '../support/httpProbe.js';
import { readersHere } from '../support/readers.js';

export interface LogLine {
  readonly level: string;
  readonly msg: string;
  /** The line as it was written. */
  readonly text: string;
  /** Of `performance.now()`. */
  readonly atMs: number;
}

interface Addresses {
  readonly api: { readonly port: number };
  readonly metrics: { readonly port: number };
}

/** How a daemon ended. */
export interface Ending {
  readonly code: number;
  readonly message: string;
}

/** The real composition, in this process: dozens of them take the room of one process each. */
export class HousedDaemon {
  readonly logs: LogLine[] = [];
  /** Never rejects. */
  readonly ended: Promise<Ending>;
  ending: Ending | undefined;
  readonly #stop = new AbortController();
  readonly #listening: Promise<Addresses>;
  #addresses: Addresses | undefined;

  /** Settings by key, as flags give them. Expected errors: OperatorError for settings that cannot be. */
  constructor(settings: Readonly<Record<string, readonly string[]>>) {
    const flags = new Map(Object.entries(settings));
    const { config } = loadConfig({ file: undefined, environment: {}, flags }, { isTerminal: false });
    let listens: (addresses: Addresses) => void = () => undefined;
    this.#listening = new Promise((resolve) => (listens = resolve));
    const write = (text: string): void => {
      const line = JSON.parse(text) as LogLine & Addresses;
      this.logs.push({ level: line.level, msg: line.msg, text, atMs: performance.now() });
      if (line.msg === 'listening') listens(line);
    };
    const host = {
      stdout: { write: () => undefined, columns: 80 },
      isLive: false,
      signal: this.#stop.signal,
    };
    this.ended = runDaemon(config, host, {
      createLogger: (options) => createLogger({ ...options, destination: { write } }),
      startReader: readersHere,
    })
      .then((reason) => ({ code: exitCodeOf(reason), message: reason }))
      .catch((error: unknown) =>
        error instanceof OperatorError
          ? { code: exitCodeOf(error.exit), message: error.message }
          : {
              code: exitCodeOf('bug'),
              message: error instanceof Error ? (error.stack ?? '') : String(error),
            },
      );
    void this.ended.then((ending) => (this.ending = ending));
  }

  /** Resolves once it listens, or has ended. */
  async listens(): Promise<void> {
    await Promise.race([this.#listening.then((addresses) => (this.#addresses = addresses)), this.ended]);
  }

  async readyz(): Promise<Readiness> {
    const { body } = await getJson(`http://127.0.0.1:${this.#addresses?.metrics.port ?? 0}/readyz`);
    // A server that ends refuses in other words.
    if (!Array.isArray((body as Partial<Readiness>).reasons))
      throw new Error(`/readyz: ${JSON.stringify(body)}`);
    return body as Readiness;
  }

  async status(): Promise<StatusDocument> {
    return (await this.#api('/status')) as StatusDocument;
  }

  async explain(height: number): Promise<ExplainDocument> {
    return (await this.#api(`/explain/${height}`)) as ExplainDocument;
  }

  async #api(path: string): Promise<unknown> {
    return (await getJson(`http://127.0.0.1:${this.#addresses?.api.port ?? 0}${path}`)).body;
  }

  async stop(): Promise<Ending> {
    this.#stop.abort();
    return this.ended;
  }
}
