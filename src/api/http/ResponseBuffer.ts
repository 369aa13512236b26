import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ApiError } from '../view/ApiError.js';

/** Requests that may wait on one connection behind the one that is being answered. */
const MAX_PIPELINED = 16;
/** Answers below this are not counted: what connections and pipelining allow of them is little. */
const SMALL_ANSWER_BYTES = 64 * 1024;
/** All larger answers together that lie here until their callers take them. */
const MAX_HELD_BYTES = 256 * 1024 * 1024;
export const RETRY_AFTER_SECONDS = 1;

/** One answer that waits for its caller. */
export interface BufferedResponse {
  /** It is as large as this from now on. */
  become(bytes: number): void;
}

/**
 * Bounds what callers make the server hold for them: a single connection can send a thousand requests for the largest
 * collection there is in one packet, and read none of the answers.
 */
export class ResponseBuffer {
  readonly #waiting = new WeakMap<Socket, number>();
  /** Bytes of large answers that are not sent yet, by connection; of those that had one. */
  readonly #held = new Map<Socket, number>();
  readonly #maxHeldBytes: number;
  #heldBytes = 0;

  constructor(options: { readonly maxHeldBytes?: number }) {
    this.#maxHeldBytes = options.maxHeldBytes ?? MAX_HELD_BYTES;
  }

  /**
   * Why a request is not handled: too many wait behind another on its connection. `undefined` for nothing. Costs nothing
   * for one that does not wait.
   */
  refusalOf(socket: Socket, response: ServerResponse): ApiError | undefined {
    // Node.js gives the connection to the first of them only.
    if (response.socket !== null) return undefined;
    const waiting = (this.#waiting.get(socket) ?? 0) + 1;
    if (waiting > MAX_PIPELINED) {
      const message = `at most ${MAX_PIPELINED} requests may wait on one connection; read the answers before you send more`;
      return new ApiError(429, 'rate_limited', message);
    }
    this.#waiting.set(socket, waiting);
    response.once('finish', () => this.#waiting.set(socket, (this.#waiting.get(socket) ?? 1) - 1));
    return undefined;
  }

  /**
   * For every answer, before it is sent. The first large one is let through whatever its size. What comes back says when the
   * answer changes its size before it is sent. Expected errors: ApiError (503) when too much is held already.
   */
  hold(bytes: number, socket: Socket, response: ServerResponse): BufferedResponse {
    if (bytes < SMALL_ANSWER_BYTES || socket.destroyed) return { become: () => undefined };
    if (this.#heldBytes > 0 && this.#heldBytes + bytes > this.#maxHeldBytes) {
      throw new ApiError(
        503,
        'busy',
        'too many large answers wait for their callers to take them; ask again',
      );
    }
    if (!this.#held.has(socket)) {
      // An answer that waits behind another hears nothing of the end of its connection.
      socket.once('close', () => {
        this.#heldBytes -= this.#held.get(socket) ?? 0;
        this.#held.delete(socket);
      });
    }
    let heldBytes = 0;
    const become = (size: number): void => {
      if (this.#held.has(socket)) this.#add(socket, size - heldBytes);
      heldBytes = size;
    };
    this.#add(socket, bytes);
    heldBytes = bytes;
    response.once('finish', () => become(0));
    return { become };
  }

  #add(socket: Socket, bytes: number): void {
    this.#held.set(socket, (this.#held.get(socket) ?? 0) + bytes);
    this.#heldBytes += bytes;
  }
}
