import { WebSocket } from 'ws';

/** Limit of the bytes that a client has not taken; above it, nothing is read from the client or the node. */
const MAX_UNTAKEN_BYTES = 1024 * 1024;

/** The messages of a connection: handled one after another, and not read before they can be handled. */
export class PacedSocket {
  readonly #socket: WebSocket;
  readonly #handle: (text: string) => Promise<void>;
  readonly #setFull: (isFull: boolean) => void;
  /** Messages of one packet: nothing more is read until they are handled. */
  readonly #messages: string[] = [];
  #isHandling = false;
  #isPaused = false;

  constructor(
    socket: WebSocket,
    dependencies: {
      /** Must not reject. */
      readonly handle: (text: string) => Promise<void>;
      /** Called repeatedly with whether the client takes its messages too slowly. */
      readonly setFull: (isFull: boolean) => void;
    },
  ) {
    this.#socket = socket;
    this.#handle = dependencies.handle;
    this.#setFull = dependencies.setFull;
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Handles a message that has arrived. */
  take(text: string): void {
    this.#messages.push(text);
    if (!this.#isHandling) void this.#handleAll();
  }

  /** `onTaken` is called once the connection has passed it on. */
  send(text: string, onTaken: () => void = () => undefined): void {
    this.#socket.send(text, (error) => {
      this.#flow();
      if (!(error instanceof Error)) onTaken();
    });
    this.#flow();
  }

  async #handleAll(): Promise<void> {
    this.#isHandling = true;
    this.#flow();
    for (let text = this.#messages.shift(); text !== undefined; text = this.#messages.shift()) {
      if (this.isOpen) await this.#handle(text);
    }
    this.#isHandling = false;
    this.#flow();
  }

  /** Pauses reading while messages could only be queued. */
  #flow(): void {
    const isFull = this.#socket.bufferedAmount > MAX_UNTAKEN_BYTES;
    this.#setFull(isFull);
    const mustPause = isFull || this.#isHandling;
    if (mustPause === this.#isPaused) return;
    this.#isPaused = mustPause;
    if (mustPause) this.#socket.pause();
    else this.#socket.resume();
  }
}
