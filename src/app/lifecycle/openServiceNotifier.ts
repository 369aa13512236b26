import type { Logger } from '../../observability/index.js';
import { messageOf } from '../../runtime/index.js';
import type { Clock } from '../../runtime/index.js';
import { serviceManagerOf } from './serviceManager.js';
import { CANNOT_TELL, ServiceNotifier, SILENT_ADVICE } from './ServiceNotifier.js';

/** Begins to tell the service manager that started this process; `undefined` when none wants to be told, or none can be. */
export async function openServiceNotifier(
  environment: Readonly<Record<string, string | undefined>>,
  dependencies: { readonly clock: Clock; readonly logger: Logger },
): Promise<ServiceNotifier | undefined> {
  const manager = serviceManagerOf(environment, process.pid);
  if (manager === undefined) return undefined;
  try {
    const { openNotifySocket } = await import('./notifySocket.js');
    const notifier = new ServiceNotifier(manager, {
      ...dependencies,
      socket: openNotifySocket(manager.socketPath),
    });
    notifier.start();
    return notifier;
  } catch (error) {
    dependencies.logger.warn({ error: messageOf(error), advice: SILENT_ADVICE }, CANNOT_TELL);
    return undefined;
  }
}
