import { Arrivals } from './arrivals.js';
import { atEnd } from './cleanup.js';

export interface ServerEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: unknown;
}

/** Reads server-sent events as fast as they come, until the end of the test. */
export class EventReader extends Arrivals<ServerEvent> {
  readonly status: number;
  readonly headers: Headers;
  readonly events = this.arrived;
  readonly #abort: AbortController;
  /** Behind the last event. */
  #text = '';

  private constructor(response: Response, abort: AbortController) {
    super();
    this.status = response.status;
    this.headers = response.headers;
    this.#abort = abort;
    void this.#read(response);
  }

  /** Resolves when the headers are there. Rejects when there is nobody. */
  static async open(url: string, headers: Readonly<Record<string, string>> = {}): Promise<EventReader> {
    const abort = new AbortController();
    atEnd(() => abort.abort());
    return new EventReader(await fetch(url, { headers, signal: abort.signal }), abort);
  }

  /** Comments since the last event. */
  get comments(): number {
    return this.#text.match(/^:/gm)?.length ?? 0;
  }

  close(): void {
    this.#abort.abort();
  }

  async #read(response: Response): Promise<void> {
    const decoder = new TextDecoder();
    try {
      for await (const chunk of response.body ?? []) {
        const parts = (this.#text + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
        this.#text = parts.pop() ?? '';
        for (const part of parts) this.#add(part.split('\n'));
      }
    } catch {
      // Cut, by either side.
    }
    this.ends();
  }

  #add(lines: readonly string[]): void {
    const valueOf = (name: string): string | undefined =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    // One without data as well, which some clients give to their programs.
    this.arrives({ id: valueOf('id'), event: valueOf('event'), data: JSON.parse(valueOf('data') ?? 'null') });
  }
}
