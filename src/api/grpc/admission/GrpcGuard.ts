import type { Metadata, ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { ApiSecrets } from '../../guard/tls.js';
import { TokenGuard } from '../../guard/TokenGuard.js';
import type { Cost, GuardOptions } from '../../guard/TokenGuard.js';
import type { ApiError } from '../../view/ApiError.js';
import type { GrpcCalls } from '../calls/calls.js';

const AUTHORIZATION = 'authorization';

/** Decides by their credentials which calls may pass. */
export class GrpcGuard {
  readonly #tokens: TokenGuard;
  readonly #open: ReadonlySet<string>;
  readonly #expensive: ReadonlySet<string>;
  /** Metadata of calls whose callers may do everything. */
  readonly #known = new WeakSet<Metadata>();

  constructor(
    options: GuardOptions,
    { calls, forwarded }: { readonly calls: GrpcCalls; readonly forwarded: readonly string[] },
  ) {
    this.#tokens = new TokenGuard(options);
    this.#open = calls.open;
    this.#expensive = new Set([...Object.keys(calls.streams), ...calls.bulk, ...forwarded]);
  }

  set(secrets: ApiSecrets): void {
    this.#tokens.set(secrets);
  }

  /** Like `HttpAdmission.check`. */
  check(
    path: string,
    metadata: Metadata,
    call: Pick<ServerInterceptingCallInterface, 'getAuthContext'>,
  ): ApiError | undefined {
    if (!this.#tokens.isOn) return undefined;
    const [authorization] = metadata.get(AUTHORIZATION).map(String);
    metadata.remove(AUTHORIZATION);
    // The library says so only for a verified certificate.
    const isKnownClient = call.getAuthContext().transportSecurityType === 'ssl';
    if (this.#tokens.knows({ authorization, isKnownClient })) {
      this.#known.add(metadata);
      return undefined;
    }
    if (!this.#tokens.covers(this.#costOf(path))) return undefined;
    return this.#tokens.refusal({ authorization, isKnownClient });
  }

  /** Whether an accepted call may also use the access nodes. */
  mayForward(metadata: Metadata): boolean {
    return !this.#tokens.isOn || this.#known.has(metadata);
  }

  #costOf(path: string): Cost {
    if (this.#open.has(path)) return 'open';
    return this.#expensive.has(path) ? 'expensive' : 'cheap';
  }
}
