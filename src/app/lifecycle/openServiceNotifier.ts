import type { Logger } from '../../observability/index.js';
import { messageOf } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { startNotifyHelper } from './notifyHelper.js';
import { serviceManagerOf } from './serviceManager.js';
import { ServiceNotifier } from './ServiceNotifier.js';

/**
 * Starts the messages to the service manager that started this process, until it is closed; `undefined` if no service manager
 * expects any.
 */
export function openServiceNotifier(
  environment: Readonly<Record<string, string | undefined>>,
  {
    onBug,
    signal,
    ...dependencies
  }: {
    readonly clock: Clock;
    readonly logger: Logger;
    /** Aborted when the daemon stops. */
    readonly signal: AbortSignal;
    readonly onBug?: ((listener: (error: unknown) => void) => void) | undefined;
  },
): ServiceNotifier | undefined {
  const manager = serviceManagerOf(environment, process.pid);
  if (manager === undefined) return undefined;
  const notifier = new ServiceNotifier(manager, { ...dependencies, startHelper: startNotifyHelper });
  notifier.start();
  signal.addEventListener('abort', () => notifier.stopping(), { once: true });
  onBug?.((error) => void notifier.close(messageOf(error)));
  return notifier;
}
