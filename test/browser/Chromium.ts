import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { WebSocket } from 'ws';

/** Names under which a Chromium may be installed. */
const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The browser that `CHROMIUM` names, or the first one on the path. */
export function findChromium(): string {
  const named = process.env['CHROMIUM'];
  const places = (process.env['PATH'] ?? '').split(delimiter);
  const candidates =
    named === undefined ? names.flatMap((name) => places.map((place) => join(place, name))) : [named];
  const found = candidates.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (found !== undefined) return found;
  throw new Error(
    named === undefined
      ? 'No Chromium is installed. Install one (Debian: apt-get install chromium), or name its program in CHROMIUM.'
      : `CHROMIUM names ${named}, which is no program that can be run.`,
  );
}

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly message: string };
  readonly sessionId?: string;
}

/** A headless Chromium, driven over its DevTools protocol. */
export class Chromium {
  readonly version: string;
  readonly #process: ChildProcess;
  readonly #socket: WebSocket;
  readonly #profile: string;
  readonly #pending = new Map<number, (message: Message) => void>();
  readonly #listeners = new Map<string, (message: Message) => void>();
  #calls = 0;

  private constructor(process: ChildProcess, socket: WebSocket, profile: string, version: string) {
    this.#process = process;
    this.#socket = socket;
    this.#profile = profile;
    this.version = version;
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Message;
      if (message.id !== undefined) this.#pending.get(message.id)?.(message);
      else this.#listeners.get(message.sessionId ?? '')?.(message);
    });
  }

  static async start(program: string): Promise<Chromium> {
    const profile = mkdtempSync(join(tmpdir(), 'fci-chromium-'));
    const browser = spawn(
      program,
      [
        ...['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage'],
        ...[
          '--remote-debugging-port=0',
          `--user-data-dir=${profile}`,
          '--window-size=1200,900',
          'about:blank',
        ],
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    );
    const address = await new Promise<string>((resolve, reject) => {
      let said = '';
      browser.once('exit', (code) => reject(new Error(`${program} ended with ${code}:\n${said}`)));
      browser.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        said += chunk;
        const [, found] = /DevTools listening on (ws:\S+)/.exec(said) ?? [];
        if (found !== undefined) resolve(found);
      });
    });
    const socket = new WebSocket(address);
    await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
    const { hostname, port } = new URL(address);
    const told = (await (await fetch(`http://${hostname}:${port}/json/version`)).json()) as {
      Browser: string;
    };
    return new Chromium(browser, socket, profile, told.Browser);
  }

  /** A tab with a page that has loaded. */
  async open(url: string): Promise<Page> {
    const { targetId } = await this.call('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.call('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(String(sessionId), this);
    this.#listeners.set(String(sessionId), (message) =>
      page.hear(message.method ?? '', message.params ?? {}),
    );
    for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await page.call(`${domain}.enable`);
    await page.go(url);
    return page;
  }

  call(method: string, params: object = {}, sessionId?: string): Promise<Readonly<Record<string, unknown>>> {
    this.#calls += 1;
    const id = this.#calls;
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve, reject) => {
      this.#pending.set(id, ({ result = {}, error }) => {
        this.#pending.delete(id);
        if (error === undefined) resolve(result);
        else reject(new Error(`${method}: ${error.message}`));
      });
    });
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    // Its other processes write to the profile until it has ended them.
    await this.call('Browser.close');
    await ended;
    this.#socket.terminate();
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

/** One tab. */
export class Page {
  /** What was asked for over the network, and what the page complained of. */
  readonly requested: string[] = [];
  readonly complaints: string[] = [];
  readonly #sessionId: string;
  readonly #browser: Chromium;
  #onLoad: () => void = () => undefined;

  constructor(sessionId: string, browser: Chromium) {
    this.#sessionId = sessionId;
    this.#browser = browser;
  }

  call(method: string, params: object = {}): Promise<Readonly<Record<string, unknown>>> {
    return this.#browser.call(method, params, this.#sessionId);
  }

  hear(method: string, params: Readonly<Record<string, unknown>>): void {
    if (method === 'Page.loadEventFired') this.#onLoad();
    if (method === 'Network.requestWillBeSent') {
      this.requested.push((params['request'] as { readonly url: string }).url);
    }
    if (method === 'Log.entryAdded')
      this.complaints.push((params['entry'] as { readonly text: string }).text);
    if (method === 'Runtime.exceptionThrown') this.complaints.push(JSON.stringify(params));
  }

  async go(url: string): Promise<void> {
    const loaded = new Promise<void>((resolve) => (this.#onLoad = resolve));
    await this.call('Page.navigate', { url });
    await loaded;
  }

  /** Runs a script in the page, whose value, awaited, comes back as JSON has it. */
  async run<T>(script: string): Promise<T> {
    const { result, exceptionDetails } = (await this.call('Runtime.evaluate', {
      expression: `(async () => { ${script} })()`,
      awaitPromise: true,
      returnByValue: true,
    })) as {
      result: { value: T };
      exceptionDetails?: { exception?: { description?: string }; text: string };
    };
    if (exceptionDetails === undefined) return result.value;
    throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  }

  /** The whole page as a PNG. */
  async screenshot(): Promise<Buffer> {
    const { cssContentSize } = (await this.call('Page.getLayoutMetrics')) as {
      cssContentSize: { width: number; height: number };
    };
    const { data } = await this.call('Page.captureScreenshot', {
      captureBeyondViewport: true,
      clip: { x: 0, y: 0, ...cssContentSize, scale: 1 },
    });
    return Buffer.from(String(data), 'base64');
  }
}
