import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { WebSocket } from 'ws';

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

export function findChromium(): string {
  const places = (process.env['PATH'] ?? '').split(delimiter);
  const installed = names.flatMap((name) => places.map((place) => join(place, name))).find(existsSync);
  const found = process.env['CHROMIUM'] ?? installed;
  if (found !== undefined) return found;
  throw new Error(
    'No Chromium is installed. Install one (Debian: apt-get install chromium), or name its program in CHROMIUM.',
  );
}

type Values = Readonly<Record<string, unknown>>;

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: Values;
  readonly result?: Values;
  readonly error?: { readonly message: string };
  readonly sessionId?: string;
}

export class Chromium {
  readonly #process: ChildProcess;
  readonly #socket: WebSocket;
  readonly #profile: string;
  readonly #pending = new Map<number, (message: Message) => void>();
  readonly #listeners = new Map<string, (message: Message) => void>();
  #calls = 0;

  private constructor(process: ChildProcess, socket: WebSocket, profile: string) {
    this.#process = process;
    this.#socket = socket;
    this.#profile = profile;
    socket.on('message', (data: Buffer) => {
      const message = JSON.parse(data.toString()) as Message;
      if (message.id !== undefined) this.#pending.get(message.id)?.(message);
      else this.#listeners.get(message.sessionId ?? '')?.(message);
    });
  }

  static async start(program: string): Promise<Chromium> {
    const profile = mkdtempSync(join(tmpdir(), 'fci-chromium-'));
    const flags = [
      ...['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage'],
      ...['--remote-debugging-port=0', `--user-data-dir=${profile}`, '--window-size=1200,900'],
    ];
    const browser = spawn(program, [...flags, 'about:blank'], { stdio: ['ignore', 'ignore', 'pipe'] });
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
    await once(socket, 'open');
    return new Chromium(browser, socket, profile);
  }

  async version(): Promise<string> {
    return String((await this.call('Browser.getVersion'))['product']);
  }

  async open(url: string): Promise<Page> {
    const { targetId } = await this.call('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await this.call('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(String(sessionId), this);
    const hear = ({ method = '', params = {} }: Message): void => page.hear(method, params);
    this.#listeners.set(String(sessionId), hear);
    for (const domain of ['Page', 'Network', 'Runtime', 'Log']) await page.call(`${domain}.enable`);
    await page.go(url);
    return page;
  }

  call(method: string, params: object = {}, sessionId?: string): Promise<Values> {
    const id = (this.#calls += 1);
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
    const ended = once(this.#process, 'exit');
    // Its other processes write to the profile until it has ended them.
    await this.call('Browser.close');
    await ended;
    this.#socket.terminate();
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}

export class Page {
  readonly requested: string[] = [];
  readonly complaints: string[] = [];
  readonly #sessionId: string;
  readonly #browser: Chromium;
  #onLoad: () => void = () => undefined;

  constructor(sessionId: string, browser: Chromium) {
    this.#sessionId = sessionId;
    this.#browser = browser;
  }

  call(method: string, params: object = {}): Promise<Values> {
    return this.#browser.call(method, params, this.#sessionId);
  }

  hear(method: string, params: Values): void {
    if (method === 'Page.loadEventFired') this.#onLoad();
    if (method === 'Network.requestWillBeSent')
      this.requested.push((params['request'] as { readonly url: string }).url);
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
    const expression = `(async () => { ${script} })()`;
    const how = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = (await this.call('Runtime.evaluate', how)) as {
      result: { value: T };
      exceptionDetails?: { exception?: { description?: string }; text: string };
    };
    if (exceptionDetails === undefined) return result.value;
    throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  }

  async screenshot(): Promise<Buffer> {
    const { cssContentSize } = await this.call('Page.getLayoutMetrics');
    const clip = { x: 0, y: 0, ...(cssContentSize as object), scale: 1 };
    const { data } = await this.call('Page.captureScreenshot', { captureBeyondViewport: true, clip });
    return Buffer.from(String(data), 'base64');
  }
}
