import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { Clock } from '../../runtime/index.js';
import type { Endpoint } from '../transport/endpoint.js';

/** True when something at this address speaks TLS, whatever its certificate; false when nothing answers in time. */
export function probeTls(
  { host, port }: Endpoint,
  { timeoutMs, clock }: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<boolean> {
  return new Promise((resolve) => {
    const names = isIP(host) === 0 ? { servername: host } : {};
    // Only the protocol matters here: nothing is sent, and the connection ends at once.
    const socket = connect({ host, port, ALPNProtocols: ['h2'], rejectUnauthorized: false, ...names });
    const settle = (speaks: boolean): void => {
      timer.cancel();
      socket.destroy();
      resolve(speaks);
    };
    const timer = clock.setTimer(timeoutMs, () => settle(false));
    socket.once('secureConnect', () => settle(true)).once('error', () => settle(false));
  });
}
